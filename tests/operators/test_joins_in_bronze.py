"""Joins without Spark: what DuckDB counts in both bronzes is what plain Python gives."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.operators.contract.joins import (
    OTHER,
    RIGHT,
    Row,
    both_bronzes,
    join_table,
    joins,
    partner_pipeline,
)
from tests.operators.contract.kinds import DAY, MINUTE, event
from tidemark.operators.joins.joins import Joins, input_name
from tidemark.operators.operator import InputTable
from tidemark.operators.touched import BatchRead
from tidemark.pipeline.instants import epoch_ms
from tidemark.pipeline.model import JoinTable

TABLES = [
    pytest.param(join_table("inner"), id="inner"),
    pytest.param(join_table("left"), id="left", marks=pytest.mark.long),
    pytest.param(join_table("left", before=3, after=0), id="left-back"),
    pytest.param(join_table("inner", before=2, after=9), id="inner-both", marks=pytest.mark.long),
    pytest.param(join_table("left", length=15, slide=5), id="left-sliding"),
    pytest.param(join_table("left", group_by=()), id="left-no-keys"),
]
each_table = pytest.mark.parametrize("table", TABLES)
# Each example makes two tables.
few = settings(max_examples=12)


def row(minute: float, key: str | None, right: bool) -> Row:
    return {**event(minute, key), **({"side": RIGHT} if right else {})}


a_row = st.builds(row, st.integers(-40, 120), st.sampled_from(["a", "b", None]), st.booleans())
some_rows = st.lists(a_row, max_size=20)


def operator_of(table: JoinTable, other: InputTable) -> Joins:
    time = partner_pipeline().source.event_time.column
    return Joins("at", table, time).with_inputs({input_name(OTHER): other})


def located(table: JoinTable, found: pa.Table) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    return {
        (one["window_start"], *(one[key] for key in table.group_by)): (
            one["window_end"],
            one["matches"],
            one["rows"],
        )
        for one in found.to_pylist()
    }


def expected(table: JoinTable, rows: Sequence[Row]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    return {row: (values[0], values[-2], values[-1]) for row, values in joins(table)(rows).items()}


def asked(table: JoinTable, windows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns: dict[str, Any] = {
        "window_start": pa.array([one[0] for one in windows], pa.timestamp("us", "UTC"))
    }
    for number, key in enumerate(table.group_by, 1):
        columns[key] = pa.array([one[number] for one in windows], pa.string())
    return pa.table(columns)


@pytest.mark.slow
@each_table
@few
@given(rows=some_rows, odd=st.integers(0, 1), first=st.integers(-40, 120))
def test_windows_asked_for_and_windows_that_end_are_those_of_plain_python(
    table: JoinTable, rows: Sequence[Row], odd: int, first: int
) -> None:
    every = expected(table, rows)
    ends = DAY + first * MINUTE, DAY + (first + 30) * MINUTE
    with both_bronzes(rows[::2], rows[1::2]) as (bronze, _, other):
        operator = operator_of(table, other)
        some = [one for one in every if one[0].minute // 10 % 2 == odd]
        given_windows = asked(table, some)
        assert located(table, operator.rows_in(bronze).rows_in_bronze(given_windows)) == {
            one: every[one] for one in some
        }
        counted = operator.rows_in(bronze).count_touched(given_windows)
        assert counted == sum(every[one][2] for one in some)
        ending = operator.rows_in(bronze).ending(*ends)
        within = {one: told for one, told in every.items() if ends[0] <= told[0] <= ends[1]}
        assert located(table, ending) == within
        counted_ending = operator.rows_in(bronze).count_ending(*ends)
        assert counted_ending == sum(told[2] for told in within.values())


@pytest.mark.slow
@each_table
@few
@given(before=some_rows, new=some_rows, close=st.integers(-40, 140))
def test_new_rows_touch_every_closed_window_that_they_change(
    table: JoinTable, before: Sequence[Row], new: Sequence[Row], close: int
) -> None:
    former, now = expected(table, before), expected(table, [*before, *new])
    changed = {one for one in now if now[one] != former.get(one)}
    closed_to = DAY + close * MINUTE
    batch = BatchRead(1, 2, 2, 0, 0, {input_name(OTHER): (2, 2)})
    with both_bronzes(before, new) as (bronze, place, other):
        operator = operator_of(table, other)
        found = operator.rows_in(bronze).touched(place, [batch], None, epoch_ms(closed_to))
    touched = located(table, found.closed)
    assert touched.items() <= now.items()
    assert {one for one in changed if now[one][0] <= closed_to} <= touched.keys()
    assert all(told[0] <= closed_to for told in touched.values())


def test_new_rows_touch_windows_that_start_before_1970() -> None:
    table = join_table("left", length=15, slide=5)
    before, new = (
        [{**row(0, "a", right), "at": datetime.fromtimestamp(60 * minute, UTC)} for right in sides]
        for minute, sides in ((4, [False]), (3, [False, True]))
    )
    batch = BatchRead(1, 2, 2, 0, 0, {input_name(OTHER): (2, 2)})
    with both_bronzes(before, new) as (bronze, place, other):
        found = operator_of(table, other).rows_in(bronze).touched(place, [batch], None, 20 * 60_000)
    starts = sorted(one[0].timestamp() for one in located(table, found.closed))
    assert starts == [-600, -300, 0]


@pytest.mark.slow
@few
@given(before=some_rows, new=some_rows, watermark=st.integers(-40, 140))
def test_rows_of_either_side_at_or_before_the_watermark_are_late(
    before: Sequence[Row], new: Sequence[Row], watermark: int
) -> None:
    table, at = join_table("left"), DAY + watermark * MINUTE
    batch = BatchRead(1, 2, 2, 0, epoch_ms(at), {input_name(OTHER): (2, 2)})
    with both_bronzes(before, new) as (bronze, place, other):
        (counts,) = (
            operator_of(table, other).rows_in(bronze).touched(place, [batch], None, 0).batches
        )
    assert counts.rows == len([one for one in new if one.get("side") != RIGHT])
    assert counts.wholly_late == len([one for one in new if one["at"] <= at])


def test_a_window_closes_a_millisecond_more_than_the_range_behind_the_watermark() -> None:
    """As the engine's own: the first try saw it emitted at end + range + 1 ms, not before."""
    end = epoch_ms(DAY + 5 * MINUTE)
    for before, after, reach in ((0, 10, 10), (3, 10, 10), (3, 0, 3), (8, 2, 8)):
        operator = Joins("at", join_table("inner", before=before, after=after), "ordered")
        watermark = end + reach * 60_000
        assert operator.traits.closed_to_ms(watermark) == end - 1
        assert operator.traits.closed_to_ms(watermark + 1) == end
    assert Joins("at", join_table("inner"), "ordered").traits.closed_to_ms(0) == 0


def test_a_seal_waits_for_the_later_rows_of_both_sides_and_for_the_range() -> None:
    for delay, other in ((10, 3), (3, 10)):
        operator = Joins(
            "at",
            join_table("inner", before=4, after=7),
            "ordered",
            other_delay=timedelta(minutes=other),
        )
        waits = operator.traits.seal_delay(timedelta(minutes=delay))
        assert waits == timedelta(minutes=10 + 7)


def test_no_row_of_the_other_side_before_what_is_needed_matches_an_open_window() -> None:
    operator = Joins("at", join_table("left", before=3), "ordered")
    first = operator.first_open_start(epoch_ms(DAY + timedelta(hours=1)))
    needed = first - operator.needed_before(input_name(OTHER))
    assert needed == DAY + timedelta(minutes=57)


def test_the_pins_name_the_other_pipeline() -> None:
    operator = Joins("at", join_table("left"), "ordered")
    assert operator.inputs == ("bronze", f"bronze/{OTHER}")
    assert isinstance(DAY, datetime)


def test_a_key_is_found_in_any_letter_case_and_called_as_the_file_calls_it() -> None:
    table = join_table("left", group_by=["KEY"])
    with both_bronzes([row(1, "a", right=False)]) as (left, _, other):
        found = operator_of(table, other).rows_in(left).ending(DAY, DAY + 60 * MINUTE)
    assert found.column("KEY").to_pylist() == ["a"]
