"""Which records are a pipeline's, and the rows of an array."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kit.running import clicks
from tidemark.judge import records
from tidemark.judge.records import RecordLines, RecordReader
from tidemark.judge.rules import rules_of
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.problems import PipelineFileInvalid
from tidemark.storage.delta.rows import RecordCounts


def pipeline_of(**source: Any) -> Any:
    return pipeline_from_mapping("chosen", clicks(source={**clicks()["source"], **source}))


def read(lines: list[Any], **source: Any) -> list[RecordLines]:
    data = [
        line if type(line) is bytes else (line if type(line) is str else json.dumps(line)).encode()
        for line in lines
    ]
    reader = RecordReader(rules_of(pipeline_of(**source)))
    return list(reader.read(pa.array(data, pa.binary())))


def chosen(lines: list[Any], field: Any, *texts: str) -> tuple[list[int], dict[int, str], int]:
    """The places of own records, the reasons of rejected ones, and how many are others'."""
    (found,) = read(lines, when={"field": field, "in": list(texts)})
    reasons = {place: one.reason for place, one in found.rejected.items()}
    return found.records.tolist(), reasons, found.counts.other


def test_a_record_is_the_pipelines_where_its_field_holds_one_of_the_texts() -> None:
    lines = [
        {"type": "click"}, {"a": 1, "type": "view"}, '{"type":"\\u0063lick"}', {"type": "Click"},
        {"type": " click"}, {"type": 1}, '{"type":1.0}', {"type": True}, {"kind": "click"},
        {"type": None}, {"type": ["click"]}, {"a": {"type": "click"}}, {"a": "type"},
        '{"type":"click"} x', "", b'{"type":"click","a":"\xff"}',
    ]  # fmt: skip
    own, rejected, others = chosen(lines, "type", "click", "1", "true")
    assert own == [0, 2, 5, 7]
    assert others == 4
    missing, malformed = "missing field", "malformed"
    assert rejected == {
        8: missing, 9: missing, 10: "wrong type", 11: missing, 12: missing, 13: malformed,
        14: malformed, 15: malformed,
    }  # fmt: skip


def test_quotes_of_a_text_stand_in_the_field_itself() -> None:
    lines = [{"type": "click"}, {"type": '"click"'}, '{"type":"\\u0063lick"}', {"type": 1}]
    assert chosen(lines, "type", '"click"') == ([1], {}, 3)
    assert chosen(lines, "type", '"1"') == ([], {}, 4)


def test_what_else_stands_in_anothers_record_does_not_matter() -> None:
    lines = [
        '{"type":"view","a":1,"a":2}', '{"type":"view","a":"\\ud800"}',
        {"type": "view", "deep": [[[[{"x": [{}]}]]]]}, '{"type":"view","n":1e999}',
    ]  # fmt: skip
    assert chosen(lines, "type", "click") == ([], {}, 4)
    # Its own are for the judge.
    own = [line.replace("view", "click") for line in lines if isinstance(line, str)]
    assert chosen(own, "type", "click") == ([0, 1, 2], {}, 0)


def test_a_field_that_stands_twice_says_nothing() -> None:
    lines = [
        '{"type":"click","type":"click"}', '{"type":"view","type":"click"}',
        '{"t\\u0079pe":"view","type":"click"}',
    ]  # fmt: skip
    assert chosen(lines, "type", "click") == ([], dict.fromkeys(range(3), "malformed"), 0)
    lines = ['{"a":{"type":"click"},"a":{"type":"click"}}', '{"a":{"type":"view","type":"click"}}']
    assert chosen(lines, "a.type", "click")[1] == dict.fromkeys(range(2), "malformed")


def test_a_field_may_lie_within_objects_and_have_any_name() -> None:
    lines = [
        {"a": {"b.c": {"d": "x"}}}, {"a": {"b.c": {"d": "y"}}}, {"a": {"b.c": "x"}}, {"a": None},
        {"d": "x"}, {"a": {"d": "y", "b.c": {"e": 1, "d": "x"}}},
    ]  # fmt: skip
    own, rejected, others = chosen(lines, ["a", "b.c", "d"], "x")
    assert (own, others) == ([0, 5], 1)
    assert rejected == {2: "wrong type", 3: "missing field", 4: "missing field"}
    odd = [{'a "\\ü\n': 'say "é"'}, {'a "\\ü\n': "é"}]
    assert chosen(odd, ['a "\\ü\n'], 'say "é"') == ([0], {}, 1)


def test_a_field_within_more_objects_than_re2_has_room_for_tells_as_others_do() -> None:
    path = [f"n{number}" for number in range(150)]
    lines = [
        "".join(f'{{"{name}":' for name in path) + f'"{text}"' + "}" * len(path) for text in "xy"
    ]
    assert chosen([*lines, {"n0": 1}], path, "x") == ([0], {2: "wrong type"}, 1)


NAMES = st.sampled_from(["type", "a", 'b"', "t\\u0079pe", "é"])
VALUES = st.recursive(
    st.sampled_from(
        [
            *('"click"', '"view"', '"\\u0063lick"', "1", "1.0", "-0", "1e5", "true", "null", '""'),
            *('"type"', '"\\"type\\":"', '"\\ud800"', "01", "'x'", "NaN"),
        ]
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2).map(lambda items: f"[{','.join(items)}]"),
        st.lists(st.tuples(NAMES, inner), max_size=2).map(
            lambda fields: "{" + ", ".join(f'"{name}" :{value}' for name, value in fields) + "}"
        ),
    ),
    max_leaves=5,
)
RECORDS = st.tuples(
    st.lists(st.tuples(NAMES, VALUES), max_size=4),
    st.sampled_from(["", " ", "\t", "\r", "x", "{}"]),
).map(lambda parts: "{" + ",".join(f'"{n}": {v}' for n, v in parts[0]) + "}" + parts[1])


@pytest.mark.slow
@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(lines=st.lists(RECORDS, min_size=1, max_size=8), path=st.sampled_from(["type", "a.type"]))
def test_many_at_once_are_chosen_as_one_by_one(lines: list[str], path: str) -> None:
    texts = "click", "1", "true", '"view"'
    at_once = chosen([*lines, {"type": "click"}], path, *texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "ONE_WORD", "(?:never)")
        one_by_one = chosen([*lines, {"type": "click"}], path, *texts)
    assert at_once == one_by_one


def exploded(lines: list[Any], path: Any) -> tuple[list[tuple[int, int, Any]], Any, RecordCounts]:
    found = read(lines, explode=path)
    rows = [
        (record, element, json.loads(line))
        for one in found
        for record, element, line in zip(
            one.records.tolist(), one.elements.to_pylist(), one.lines.to_pylist(), strict=True
        )
    ]
    rejected = {place: (v.reason, v.detail) for one in found for place, v in one.rejected.items()}
    return rows, rejected, sum((one.counts for one in found), RecordCounts())


def test_each_element_stands_in_the_arrays_place_beside_the_other_fields() -> None:
    lines = [
        {"id": 1, "items": [{"a": 1}, None, "x", [2]], "z": {"y": 1}},
        {"id": 2, "items": []}, {"id": 3, "items": None}, {"id": 4}, {"id": 5, "items": {"a": 1}},
        "x", {"id": 6, "items": [7]},
    ]  # fmt: skip
    rows, rejected, counts = exploded(lines, "items")
    one = {"id": 1, "z": {"y": 1}}
    assert rows == [
        (0, 0, {**one, "items": {"a": 1}}), (0, 1, {**one, "items": None}),
        (0, 2, {**one, "items": "x"}), (0, 3, {**one, "items": [2]}), (6, 0, {"id": 6, "items": 7}),
    ]  # fmt: skip
    assert rejected == {
        4: ("wrong type", 'items, which is exploded, is no array: {"a":1}'),
        5: ("malformed", "not exactly one JSON object"),
    }
    assert counts == RecordCounts(without_elements=3, exploded=2, elements=5)
    assert counts.further == 0


def test_an_array_may_lie_within_objects() -> None:
    lines = [
        {"o": {"k": 1, "a.b": [1, 2]}, "x": 0}, {"o": None}, {"o": 5}, {"o": {"a.b": 5}},
    ]  # fmt: skip
    rows, rejected, counts = exploded(lines, ["o", "a.b"])
    assert rows == [(0, n - 1, {"x": 0, "o": {"k": 1, "a.b": n}}) for n in (1, 2)]
    assert sorted(rejected) == [2, 3]
    assert counts.without_elements == 1


def test_numbers_and_texts_of_elements_are_as_they_stood_there() -> None:
    line = '{"k":"\\u00e9\\/","items":[{"n":1.50e2,"d":0.1000000000000000000001},{"t":"\\"\\n"}]}'
    (_, found) = read([line], explode="items")
    assert found.lines.to_pylist() == [
        '{"k":"é/","items":{"n":1.50e2,"d":0.1000000000000000000001}}'.encode(),
        '{"k":"é/","items":{"t":"\\"\\n"}}'.encode(),
    ]


def test_lines_of_a_large_record_are_handed_on_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a record of one megabyte and ten thousand elements is no ten gigabytes."""
    monkeypatch.setattr(records, "_MOST_BYTES", 10_000)
    line = {"large": "x" * 1_000, "items": list(range(100))}
    found = read([line, line], explode="items")
    assert max(one.lines.nbytes for one in found) < 20_000
    rows, _, counts = exploded([line, line], "items")
    assert [(record, element) for record, element, _ in rows] == [
        (record, element) for record in (0, 1) for element in range(100)
    ]
    assert counts == RecordCounts(exploded=2, elements=200)


def test_records_are_chosen_before_arrays_are_taken_apart() -> None:
    lines = [{"t": "a", "i": [1, 2]}, {"t": "b", "i": "no array"}, {"t": "b", "i": [1]}]
    found = read(lines, when={"field": "t", "in": ["a"]}, explode="i")
    assert [one for part in found for one in part.records.tolist()] == [0, 0]
    counts = sum((one.counts for one in found), RecordCounts())
    assert counts == RecordCounts(other=2, exploded=1, elements=2)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"when": {"field": "type", "in": []}}, "at least one entry"),
        ({"when": {"field": "type", "in": [1]}}, "put it in quotes"),
        ({"when": {"field": "a..b", "in": ["x"]}}, "leads nowhere"),
        ({"explode": ""}, "leads nowhere"),
        ({"explode": "items", "files": "landing/*.csv"}, "a field of CSV is one value"),
        ({"when": {"field": "a.b", "in": ["x"]}, "format": "csv"}, "fields of CSV have none"),
        ({"when": {"field": "type", "in": ["x"]}, "unknown_fields": "reject"}, "declare a column"),
    ],
)
def test_what_a_file_may_not_say_of_records(source: dict[str, Any], said: str) -> None:
    with pytest.raises(PipelineFileInvalid, match=said):
        pipeline_of(**source)


def test_a_column_may_be_the_field_that_tells_or_hold_it() -> None:
    columns = {**clicks()["source"]["columns"], "type": "string"}
    when = {"field": "type", "in": ["x"]}
    assert pipeline_of(when=when, unknown_fields="reject", columns=columns).source.when is not None
    held = {**columns, "type": "struct<of: string>"}
    when = {"field": "type.of", "in": ["x"]}
    assert pipeline_of(when=when, unknown_fields="reject", columns=held).source.when is not None
