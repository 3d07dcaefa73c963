"""Fields as a source names them: under other names, within objects, as text."""

from __future__ import annotations

import json
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.judge.judging import judge_lines, pipeline_of
from tests.judge.test_properties import COLUMNS, SPOILED, rows
from tests.kit.running import clicks
from tidemark.judge import judge
from tidemark.judge.by_columns import ColumnJudge
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.problems import PipelineFileInvalid

AT = "2026-03-01T00:00:00Z"
FIELDS = {
    "at": ["payload", "at"], "n": ["Anzahl (€)"], "i": ["payload", "user", "id"],
    "x": ["payload", "user", "x.y"], "b": ["b"], "t": ["payload", "T"], "a": ["A.b"],
    "s": ["payload", "user", "s"], "k": ["other", "k"],
}  # fmt: skip


def placed(row: dict[str, Any]) -> dict[str, Any]:
    """The row with its columns where the source has them, and other fields as they are."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        *outer, last = FIELDS.get(name, [name])
        inner = found
        for one in outer:
            inner = inner.setdefault(one, {})
        inner[last] = value
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("columns", [list(COLUMNS), [one for one in COLUMNS if one != "k"]])
@settings(max_examples=9, suppress_health_check=list(HealthCheck))
@given(generated=st.lists(rows(), min_size=40, max_size=40), data=st.data())
def test_a_row_is_judged_as_it_would_be_with_the_columns_names(
    columns: list[str], generated: list[dict[str, Any]], data: st.DataObject
) -> None:
    for row in generated[::3]:
        name = data.draw(st.sampled_from(columns))
        row[name] = data.draw(SPOILED[name])
    generated = [
        {name: value for name, value in row.items() if name in columns or name not in COLUMNS}
        for row in generated
    ]
    types = {name: COLUMNS[name] for name in columns}
    plain = judge_lines(pipeline_of(types), [json.dumps(row) for row in generated])
    fielded = {
        name: {"type": kind, "field": FIELDS[name]}
        for name, kind in {"at": "timestamp", **types}.items()
    }
    found = judge_lines(pipeline_of(fielded), [json.dumps(placed(row)) for row in generated])
    for one, other in zip(plain, found, strict=True):
        label, is_nested = one.get("detail", "").partition(" ")[0], "_extra" in one
        if label:
            field = ".".join(FIELDS[label])
            shown = label if field == label else f"{label} (field `{field}`)"
            assert other["detail"] == one["detail"].replace(label, shown, 1)
        if is_nested:
            # Unknown fields within structs are where these are.
            assert json.loads(other["_extra"]) == placed(json.loads(one["_extra"]))
        ours, theirs = [
            {name: value for name, value in verdict.items() if name not in {"detail", "_extra"}}
            for verdict in (one, other)
        ]
        assert theirs == ours


def judged(columns: dict[str, Any], *lines: Any, **more: Any) -> list[dict[str, Any]]:
    found = judge_lines(
        pipeline_of(columns, **more),
        [one if type(one) is str else json.dumps(one) for one in lines],
    )
    return [{name: one[name] for name in one if name not in {"at", "_event_date"}} for one in found]


USER = {"type": "long not null", "field": "payload.user.id"}


def test_what_is_left_of_an_object_is_unknown() -> None:
    line = {"at": AT, "payload": {"user": {"id": 5, "name": "x"}, "z": [1]}, "y": {"user": 1}}
    (kept,) = judged({"user": USER}, line)
    rest = {"payload": {"user": {"name": "x"}, "z": [1]}, "y": {"user": 1}}
    assert kept == {"user": 5, "_extra": json.dumps(rest).replace(" ", "")}
    (rejected,) = judged({"user": USER}, line, unknown_fields="reject")
    assert rejected["detail"] == "unknown: payload.user.name, payload.z, y"
    assert judged({"user": USER}, {"at": AT, "payload": {"user": {"id": 5}}}) == [{"user": 5}]


def test_an_object_that_is_none_is_a_wrong_type_and_one_that_is_missing_is_missing() -> None:
    found = judged(
        {"user": USER},
        {"at": AT, "payload": {"user": 7}},
        {"at": AT, "payload": [{"user": {"id": 5}}]},
        {"at": AT, "payload": None},
        {"at": AT, "payload": {"user": {"id": None}}},
        {"at": AT, "user": 5},
        {"at": AT, "payload.user.id": 5},
    )
    label = "user (field `payload.user.id`)"
    assert [one["detail"] for one in found] == [
        f"{label} should be long, found 7 in the place of an object with it",
        f'{label} should be long, found [{{"user":{{"id":5}}}}] in the place of an object with it',
        f"{label} is missing",
        f"{label} is null",
        f"{label} is missing",
        f"{label} is missing",
    ]
    lenient = {"user": {**USER, "type": "long"}}
    (wrong,) = judged(lenient, {"at": AT, "payload": "x"})
    assert wrong["reason"] == "wrong type"
    assert judged(lenient, {"at": AT}) == [{}]


def test_text_stands_for_what_the_columns_say() -> None:
    columns = {
        "n": {"type": "long", "from_text": True, "trim": True},
        "d": {"type": "decimal(10,2)", "from_text": True, "nulls": ["nil"]},
        "b": {"type": "boolean", "from_text": True},
        "t": {"type": "string", "trim": True},
        "u": "string",
    }
    given = [
        ({"n": " 12\t", "d": "1.50", "b": "true", "t": "  x y ", "u": " NA"},
         {"n": 12, "d": "1.50", "b": True, "t": "x y", "u": " NA"}),
        ({"n": "NA", "d": "nil", "t": " NA\n", "u": "NA"}, {}),
        ({"n": 5, "d": 2, "b": False, "t": "", "u": ""},
         {"n": 5, "d": "2.00", "b": False, "t": "", "u": ""}),
    ]  # fmt: skip
    found = judged_with_nulls(columns, ["NA"], [line for line, _ in given])
    for one, (_, expected) in zip(found, given, strict=True):
        assert {name: str(v) if name == "d" else v for name, v in one.items()} == expected
    wrong = [{"n": "1 2"}, {"n": "1.0"}, {"n": "0x1"}, {"n": "1_0"}, {"n": "٣"}, {"n": ""}]
    wrong += [{"d": "NA"}, {"d": " 1"}, {"b": "True"}, {"b": "1"}, {"b": 1}]
    for one in judged_with_nulls(columns, ["NA"], wrong):
        assert one["reason"] == "wrong type", one


def judged_with_nulls(
    columns: dict[str, Any], nulls: list[str], lines: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    pipeline = pipeline_of(columns)
    source = pipeline.source.model_copy(update={"nulls": tuple(nulls)})
    found = judge_lines(
        pipeline.model_copy(update={"source": source}),
        [json.dumps({"at": AT, **line}) for line in lines],
    )
    return [{name: one[name] for name in one if name not in {"at", "_event_date"}} for one in found]


def test_a_required_column_whose_text_is_null_is_told() -> None:
    (one,) = judged({"n": {"type": "long not null", "nulls": ["-"]}}, {"at": AT, "n": "-"})
    assert (one["reason"], one["detail"]) == ("missing field", "n is null")


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (
            {"columns": {"at": "timestamp", "a": {"type": "int", "field": "a..b"}}},
            "a name is empty",
        ),
        ({"columns": {"at": "timestamp", "a": {"type": "int", "field": []}}}, "leads nowhere"),
        (
            {"columns": {"at": "timestamp", "a": {"type": "int", "field": "at"}}},
            "`at` and `a` are both read from the field `at`",
        ),
        (
            {"columns": {"at": "timestamp", "p": "string", "a": {"type": "int", "field": "p.a"}}},
            "`p` and `a` are both read from the field `p`",
        ),
        (
            {
                "files": "landing/*.csv",
                "columns": {"at": "timestamp", "a": {"type": "int", "field": "Sepal.Length"}},
            },
            "`field: [Sepal.Length]`",
        ),
        (
            {"columns": {"at": "timestamp", "a": {"type": "array<int>", "trim": True}}},
            "for columns of one value",
        ),
        (
            {"columns": {"at": "timestamp", "a": {"type": "string", "from_text": True}}},
            "`from_text` is for numbers and booleans",
        ),
    ],
)
def test_what_no_column_can_be_read_from_is_refused(source: dict[str, Any], told: str) -> None:
    content = clicks()
    with pytest.raises(PipelineFileInvalid) as found:
        pipeline_from_mapping("p", {**content, "source": {**content["source"], **source}})
    assert told in str(found.value)


def test_lines_with_objects_are_taken_by_blocks() -> None:
    columns = {
        name: {"type": COLUMNS.get(name, "timestamp"), "field": FIELDS[name]} for name in "nixbt"
    }
    columns["at"] = {"type": "timestamp", "field": FIELDS["at"]}
    line = {"at": AT, "n": 1, "i": 2, "x": 0.5, "b": True, "t": "x"}
    with mock.patch.object(ColumnJudge, "judge") as by_columns:
        one = json.dumps(placed(line), ensure_ascii=False)
        found = judge_lines(pipeline_of(columns), [one] * 200)
    by_columns.assert_not_called()
    assert {name: found[0][name] for name in "nixbt"} == {name: line[name] for name in "nixbt"}


@pytest.mark.parametrize(
    "columns",
    [{"key": {"type": "string", "field": "_key"}}, {"_key": {"type": "string", "field": "k"}}],
)
def test_what_is_a_message_s_own_has_no_field(columns: dict[str, Any]) -> None:
    content = clicks()
    source = {
        "kafka": {"topic": "clicks", "connection": "events"},
        "columns": {"at": "timestamp", "amount": "long", **columns},
        "event_time": {"column": "at"},
    }
    with pytest.raises(PipelineFileInvalid, match="declared without a field"):
        pipeline_from_mapping("p", {**content, "source": source})


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    ("column", "values"),
    [
        ({"type": "string", "nulls": ["NA", "x"]}, ['"NA"', '"x"', '" x"', '"y"', "null", '"na"']),
        ({"type": "string", "trim": True, "nulls": ["x"]}, ['" x\\t"', '" y "', '"x y"', '""']),
        ({"type": "decimal(10,2)", "nulls": ["1.50"]}, ['"1.50"', "1.50", '"1.5"', "2"]),
        ({"type": "decimal(10,2)", "from_text": True}, ['"+.5"', '"1.50"', "1.50", '"1e1"']),
        ({"type": "date", "nulls": ["2026-03-01"]}, ['"2026-03-01"', '"2026-03-02"', '"x"']),
        ({"type": "long", "nulls": ["-"], "from_text": True}, ['"-"', '"12"', "12", '"1.0"']),
    ],
)
def test_text_stands_for_the_same_in_blocks(column: dict[str, Any], values: list[str]) -> None:
    pipeline = pipeline_of({"c": column})
    for value in values:
        line = f'{{"at":"{AT}","c":{value}}}'
        assert judge_lines(pipeline, [line] * 3) == judge_lines(pipeline, [line] * 3, by_line=True)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("tier", ["exact", "by columns", "all"])
def test_where_a_text_is_no_number_each_tier_says_so(
    monkeypatch: pytest.MonkeyPatch, tier: str
) -> None:
    if tier == "by columns":
        monkeypatch.setattr(judge, "block_reader", lambda *_: None)

    def verdicts(values: list[str], column: Any = "string", **time: Any) -> list[Any]:
        lines = [
            value if value.startswith("{") else f'{{"at":"{AT}","c":{value}}}' for value in values
        ]
        # Each is a portion, with its equals alone.
        found = judge_lines(
            pipeline_of({"c": column}, **time),
            [line for line in lines for _ in range(5)],
            by_line=tier == "exact",
            numbers_in_text=False,
        )
        assert all(found[n] == found[n - n % 5] for n in range(len(found)))
        return [one.get("reason") or str(one["c"]) for one in found[::5]]

    wrong = "wrong type"
    texts = ['"12.500"', '"12.50"', '"+5"', "12.50"]
    for column in ({"type": "decimal(10,2)"}, {"type": "decimal(10,2)", "from_text": True}):
        assert verdicts(texts, column) == [wrong, wrong, wrong, "12.50"]
    assert verdicts(texts, {"type": "double", "from_text": True}) == [wrong, wrong, wrong, "12.5"]
    assert verdicts(['"true"', "true"], {"type": "boolean", "from_text": True}) == [wrong, "True"]
    epochs = ['{"at":"1775001600.5","c":"x"}', '{"at":1775001600.5,"c":"x"}']
    assert verdicts(epochs, format="epoch_seconds") == [wrong, "x"]
