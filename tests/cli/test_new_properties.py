"""Whatever rows a sample has, the file that is proposed is good, and its types take the rows."""

from __future__ import annotations

import json
import math
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.cli.new.pipeline_text import pipeline_text
from tidemark.cli.new.proposal import Proposal, propose
from tidemark.cli.new.sample import Row, Sample
from tidemark.pipeline.load import pipeline_from_text
from tidemark.pipeline.model import Pipeline

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
LONGS = st.integers(-(2**63), 2**63 - 1)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
# Of each kind: its values, and the type that takes them.
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "long": LONGS,
    "double": DOUBLES,
    "boolean": st.booleans(),
    "string": TEXT.map(lambda text: f"t{text}"),
    "array<long>": st.lists(LONGS, min_size=1, max_size=3),
    "array<struct<a:double>>": st.lists(
        st.fixed_dictionaries({"a": DOUBLES}), min_size=1, max_size=2
    ),
    "struct<a:long,b:string>": st.tuples(LONGS, TEXT).map(lambda two: {"a": two[0], "b": two[1]}),
    "timestamp": st.datetimes().map(lambda time: f"{time.replace(year=2026, day=1)}Z"),
    "date": st.dates(date(2, 1, 1), date(9998, 12, 31)).map(str),
}
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(
    ["at", "id", "key", "status", "rows", "no", "null", "select", "a b", "A", "a", "_x", "", "ü",
     "end", "1", "x:y", "#", "-", "*", "&a", "order", "current_date", "events", "amount", "a,b"]
) | TEXT  # fmt: skip
TIME = "the_event_time"


def pipeline_over(rows: list[Row]) -> tuple[Proposal, Pipeline]:
    timed = [{TIME: f"2026-03-01T10:{n % 60:02}:00Z", **row} for n, row in enumerate(rows)]
    proposal = propose(Sample(tuple(timed), len(timed), lambda _: []), TIME)
    text = pipeline_text(proposal, {"files": "landing/orders/*.json*"})
    assert max(map(len, text.splitlines())) < 10_000
    return proposal, pipeline_from_text("orders", text, "orders.yaml")


@st.composite
def typed_rows(draw: st.DrawFn) -> tuple[dict[str, str], list[Row]]:
    """Rows whose columns have one kind each, and these kinds; some values are null or missing."""
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=6))
    count = draw(st.integers(1, 8))
    rows: list[Row] = [{} for _ in range(count)]
    types = {}
    for number, kind in enumerate(kinds):
        name = f"c{number}"
        first = draw(KINDS[kind])
        values = [first, *(draw(st.none() | KINDS[kind]) for _ in range(count - 1))]
        missing = draw(st.booleans())
        for row, value in zip(rows, values, strict=True):
            if value is not None or not missing:
                row[name] = value
        types[name] = kind if None in values else f"{kind} not null"
    return types, rows


@pytest.mark.slow
@given(typed_rows())
def test_each_column_has_its_type_and_is_required_where_each_row_has_it(
    drawn: tuple[dict[str, str], list[Row]],
) -> None:
    types, rows = drawn
    _, pipeline = pipeline_over(rows)
    columns = pipeline.source.columns.items()
    found = {n: c.type if c.nullable else f"{c.type} not null" for n, c in columns if n != TIME}
    assert found == types


@pytest.mark.slow
@given(st.lists(st.dictionaries(NAMES, ANY, max_size=5), min_size=1, max_size=12))
def test_any_rows_give_a_good_file_whose_columns_take_nine_of_ten_values(
    rows: list[Row],
) -> None:
    rows = json.loads(json.dumps(rows))
    proposal, pipeline = pipeline_over(rows)
    columns = pipeline.source.columns
    left_out = {one.name for one in proposal.left_out}
    fields = {column.path(name)[0] for name, column in columns.items()}
    assert {name for row in rows for name in row} == (fields - {TIME}) | left_out
    for name, column in columns.items():
        if name == TIME:
            continue
        (field,) = column.path(name)
        values = [row[field] for row in rows if row.get(field) is not None]
        values = [value for value in values if value not in (column.nulls or ())]
        assert column.nullable == (len(values) < len(rows))
        if column.from_text:
            values = [float(value) for value in values]
        fitting = [value for value in values if takes(column.type, value)]
        assert len(fitting) >= 0.9 * len(values)


def takes(column_type: str, value: Any) -> bool:
    """The ingest's rules for simple types; nested ones are told by their outermost type."""
    match column_type.partition("<")[0]:
        case "boolean":
            return isinstance(value, bool)
        case "long":
            return type(value) is int and -(2**63) <= value < 2**63
        case "decimal(38,0)":
            return type(value) is int and abs(value) < 10**38
        case "double":
            return type(value) in (int, float) and math.isfinite(value)
        case "string" | "timestamp" | "date":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list)
    return isinstance(value, dict)
