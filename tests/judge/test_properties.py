"""Valid rows are accepted with the values that Python's json reads; spoiled ones are not."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.judge.judging import judge_lines, pipeline_of

COLUMNS = {
    "n": "long", "i": "int", "x": "double", "b": "boolean", "t": "string",
    "a": "array<long>", "s": "struct<p:string,q:array<string>>", "k": "map<string,boolean>",
}  # fmt: skip
# Blocks take no map; without that column its field is an unknown one.
WITHOUT_MAP = {name: kind for name, kind in COLUMNS.items() if name != "k"}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
LONG = st.integers(-(2**63), 2**63 - 1)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
VALUES = {
    "n": LONG,
    "i": st.integers(-(2**31), 2**31 - 1),
    "x": NUMBER | st.integers(-(2**53), 2**53),
    "b": st.booleans(),
    "t": TEXT,
    "a": st.lists(st.none() | LONG, max_size=3),
    "s": st.fixed_dictionaries(
        {"p": st.none() | TEXT, "q": st.none() | st.lists(st.none() | TEXT, max_size=3)}
    ),
    "k": st.dictionaries(TEXT, st.none() | st.booleans(), max_size=3),
}
# For each column, values that are not of its type.
SPOILED = {
    "n": st.just(1.5) | TEXT | st.booleans() | st.integers(2**63, 2**80),
    "i": st.just(1.5) | TEXT | st.integers(2**31, 2**62),
    "x": TEXT | st.booleans() | st.lists(NUMBER, max_size=1),
    "b": TEXT | st.integers(-1, 1),
    "t": LONG | NUMBER | st.booleans() | st.lists(TEXT, max_size=1),
    "a": TEXT | LONG | st.lists(st.just("x"), min_size=1, max_size=2),
    "s": TEXT | LONG | st.fixed_dictionaries({"p": LONG}),
    "k": TEXT | st.dictionaries(TEXT, LONG, min_size=1, max_size=1),
}
FIRST = datetime(1970, 1, 1, tzinfo=UTC)
INSTANTS = st.integers(0, 1_790_000_000_000_000).map(lambda us: FIRST + timedelta(microseconds=us))


FURTHER = st.dictionaries(TEXT.map("no column: {}".format), TEXT | LONG | VALUES["s"], max_size=2)


@st.composite
def rows(draw: st.DrawFn) -> dict[str, Any]:
    """A row with any of the columns, some of them null, and other fields, in any order."""
    row: dict[str, Any] = {"at": draw(INSTANTS).isoformat()}
    names = draw(st.permutations(list(COLUMNS)))
    for name in names[: draw(st.integers(0, len(names)))]:
        row[name] = draw(st.none() | VALUES[name])
    if draw(st.booleans()):
        row |= draw(FURTHER)
    return dict(draw(st.permutations(list(row.items()))))


@st.composite
def lines(draw: st.DrawFn) -> tuple[dict[str, Any], str]:
    """A row, and a line that holds it, with or without escapes and spaces."""
    row = draw(rows())
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " :  ")]))
    return row, json.dumps(row, ensure_ascii=draw(st.booleans()), separators=separators)


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("columns", [COLUMNS, WITHOUT_MAP], ids=["by columns", "in blocks"])
@settings(max_examples=9, suppress_health_check=list(HealthCheck))
@given(generated=st.lists(lines(), min_size=40, max_size=40))
def test_every_valid_row_is_accepted_with_exactly_its_values(
    columns: dict[str, str], generated: list[tuple[dict[str, Any], str]]
) -> None:
    judged = judge_lines(pipeline_of(columns), [line for _, line in generated])
    for (_, line), verdict in zip(generated, judged, strict=True):
        del verdict["_event_date"]
        row = json.loads(line)
        further = {name: value for name, value in row.items() if name not in {"at", *columns}}
        assert json.loads(verdict.pop("_extra", "{}")) == further, line
        if "k" in verdict:
            verdict["k"] = dict(verdict["k"])
        assert verdict == _expected(row, {"at", *columns}), line


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
@settings(max_examples=9, suppress_health_check=list(HealthCheck))
@given(
    generated=st.lists(
        st.tuples(rows(), st.sampled_from(sorted(COLUMNS)), st.data()), min_size=40, max_size=40
    )
)
def test_every_row_with_a_value_of_another_type_is_rejected_for_that_column(
    generated: list[tuple[dict[str, Any], str, st.DataObject]],
) -> None:
    named = [(row | {name: data.draw(SPOILED[name])}, name) for row, name, data in generated]
    judged = judge_lines(pipeline_of(COLUMNS), [json.dumps(row) for row, _ in named])
    for (row, name), verdict in zip(named, judged, strict=True):
        assert verdict.get("reason") == "wrong type", row
        assert verdict["detail"].startswith(f"{name} should be {COLUMNS[name].lower()}, found")


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
@settings(max_examples=9, suppress_health_check=list(HealthCheck))
@given(
    generated=st.lists(
        st.tuples(lines(), st.floats(0, 1, exclude_max=True)), min_size=40, max_size=40
    )
)
def test_every_line_that_is_cut_somewhere_is_malformed(
    generated: list[tuple[tuple[dict[str, Any], str], float]],
) -> None:
    cut = [line[: int(len(line) * part)] for (_, line), part in generated]
    for line, verdict in zip(cut, judge_lines(pipeline_of(COLUMNS), cut), strict=True):
        assert verdict.get("reason") == "malformed", line


def _expected(row: dict[str, Any], columns: set[str]) -> dict[str, Any]:
    values = {name: row[name] for name in row if name in columns and row[name] is not None}
    values["at"] = datetime.fromisoformat(values["at"])
    if "x" in values:
        values["x"] = float(values["x"])
    return values
