"""Which windows a range holds, an audit compares, and a backfill may change: no table is read."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.windows import at, millis
from tidemark.errors import BackfillRefused
from tidemark.operators.row_range import RowRange
from tidemark.operators.windows.in_duckdb import each_start
from tidemark.operators.windows.windows import Windows, first_open_start, starting_in
from tidemark.pipeline.instants import epoch_us
from tidemark.pipeline.model import LONGEST_RANGE, Window, WindowTable
from tidemark.recompute.audit_range import audited_range
from tidemark.recompute.backfill_range import backfill_range
from tidemark.runs.requests import AuditRequest, BackfillRequest
from tidemark.storage.duckdb_in_utc import duckdb_in_utc

MINUTE, TICK = timedelta(minutes=1), timedelta(microseconds=1)
TUMBLING = Window(length=10 * MINUTE)
SLIDING = Window(length=15 * MINUTE, slide=5 * MINUTE)

minutes = st.integers(0, 600).map(lambda n: at(0) + n * MINUTE)


def sliding(slide: int, longer: int, offset: int) -> Window:
    length = (slide + longer) * MINUTE
    return Window(length=length, slide=slide * MINUTE, offset=offset % slide * MINUTE)


@given(minutes, minutes, st.integers(1, 40), st.integers(1, 40), st.integers(0, 40))
def test_a_range_holds_exactly_the_starts_on_the_grid(
    start: datetime, end: datetime, slide: int, longer: int, offset: int
) -> None:
    window = sliding(slide, longer, offset)
    epoch = datetime(1970, 1, 1, tzinfo=UTC) + window.offset
    instants = (start + n * MINUTE for n in range((end - start) // MINUTE))
    starts = [instant for instant in instants if (instant - epoch) % window.slide == timedelta(0)]
    found = starting_in(window, start, end)
    assert (starts == []) == (found is None)
    if found is not None:
        assert (found.first_start, found.last_start) == (starts[0], starts[-1])


@given(minutes, st.integers(1, 40), st.integers(1, 40), st.integers(0, 40))
def test_the_first_open_window_ends_after_the_frontier_and_the_one_before_does_not(
    close: datetime, slide: int, longer: int, offset: int
) -> None:
    window = sliding(slide, longer, offset)
    start = first_open_start(window, millis(close))
    assert start + window.length > close >= start - window.slide + window.length


@given(st.integers(0, 200), st.integers(1, 40), st.integers(1, 40), st.integers(0, 40))
def test_a_row_is_in_each_window_that_its_time_lies_in_also_where_one_starts_before_1970(
    minute: int, slide: int, longer: int, offset: int
) -> None:
    window = sliding(slide, longer, offset)
    time = datetime(1970, 1, 1, tzinfo=UTC) + minute * MINUTE
    found = starting_in(window, time - window.length + timedelta(microseconds=1), time + MINUTE / 2)
    assert found is not None
    with duckdb_in_utc() as connection:
        sql = f"SELECT {each_start('at', window)} FROM (SELECT $1 AS at)"
        starts = connection.execute(sql, [time]).fetchall()
    expected = range(
        epoch_us(found.first_start), epoch_us(found.last_start) + 1, slide * 60_000_000
    )
    assert sorted(start for (start,) in starts) == [*expected]


def table(window: Window, **changes: Any) -> Windows:
    return Windows("at", WindowTable(window=window, **changes))


@given(st.integers(1, 12), st.integers(0, 30), st.integers(0, 40))
def test_no_row_is_in_more_windows_than_a_batch_is_said_to_emit_for_each(
    slide: int, longer: int, offset: int
) -> None:
    window = sliding(slide, longer, offset)
    numbers = set()
    for minute in range(slide):
        event = at(0) + minute * MINUTE
        held = starting_in(window, event - window.length + TICK, event + TICK)
        assert held is not None
        numbers.add((held.last_start - held.first_start) // window.slide + 1)
    assert table(window).traits.emits_per_row == max(numbers)


def test_a_backfill_of_closed_windows_is_allowed_to_the_last_one() -> None:
    found = backfill_range(table(SLIDING), at(10), at(10, 50), millis(at(11)), None)
    assert found == RowRange(at(10), at(10, 45), at(11))


@pytest.mark.parametrize(
    ("start", "end", "told"),
    [
        (at(10), at(10, 51), "The largest range that starts there is --from 2026-07-01T10:00:00Z "
         "--to 2026-07-01T10:50:00Z."),
        (at(10, 50), at(11), "All of the range is open."),
        (at(10), at(10), "No window starts from 2026-07-01T10:00:00Z up to"),
        (at(10, 1), at(10, 4), "No window starts"),
        (at(11), at(10), "No window starts"),
    ],
)  # fmt: skip
def test_a_range_with_open_windows_or_none_is_refused(
    start: datetime, end: datetime, told: str
) -> None:
    with pytest.raises(BackfillRefused) as raised:
        backfill_range(table(SLIDING), start, end, millis(at(11)), None)
    assert told in str(raised.value)
    assert str(raised.value).endswith("Nothing was written.")


def test_before_the_first_publish_all_is_open() -> None:
    with pytest.raises(BackfillRefused, match="closed up to none yet"):
        backfill_range(table(TUMBLING), at(10), at(11), 0, None)


def test_frozen_windows_are_refused_with_the_earliest_start_allowed() -> None:
    with pytest.raises(BackfillRefused, match="--from 2026-07-01T08:10:00Z"):
        backfill_range(table(TUMBLING), at(8), at(9), millis(at(11)), millis(at(8, 1)))
    assert backfill_range(table(TUMBLING), at(8, 10), at(9), millis(at(11)), millis(at(8, 1)))


def test_an_audit_without_bounds_has_all_windows_that_touch_a_date_with_rows() -> None:
    found = audited_range(table(SLIDING), None, None, [date(2026, 7, 2), date(2026, 7, 1)], 0, None)
    assert found == RowRange(at(0) - SLIDING.length, at(23, 55, day=2), at(0, 10, day=3))


def test_an_audit_in_append_mode_ends_with_the_last_closed_window() -> None:
    appending = table(TUMBLING, output_mode="append")
    found = audited_range(appending, at(9), None, [date(2026, 7, 1)], millis(at(10, 9)), None)
    assert found == RowRange(at(9), at(9, 50), at(10))
    assert audited_range(appending, at(10), None, [date(2026, 7, 1)], millis(at(10)), None) is None


def test_an_audit_begins_with_the_first_window_that_is_not_frozen() -> None:
    found = audited_range(table(TUMBLING), None, at(9), [date(2026, 7, 1)], 0, millis(at(8, 1)))
    assert found == RowRange(at(8, 10), at(8, 50), at(9))


def test_an_audit_of_empty_tables_has_no_window() -> None:
    assert audited_range(table(TUMBLING), None, None, [], 0, None) is None


@pytest.mark.parametrize("days", [1, 2, 7, LONGEST_RANGE.days])
def test_times_that_stand_for_no_bound_are_brought_to_where_windows_lie(days: int) -> None:
    """No gap and no length takes one of them to a year that there is not."""
    known = table(Window(length=timedelta(days=days)))
    asked = {"pipeline": "p", "table": "t", "from": "0001-01-01", "to": "9999-12-31T23:59:59Z"}
    for request in (BackfillRequest(**asked), AuditRequest(**asked)):
        start, end = request.start, request.end
        assert start is not None
        assert end is not None
        found = audited_range(known, start, end, [date(2026, 7, 1)], 0, None)
        assert found is not None
        assert found.first_start - LONGEST_RANGE < at(0) < found.last_start
        with pytest.raises(BackfillRefused, match="still open"):
            backfill_range(known, start, end, millis(at(11)), None)
    exact = BackfillRequest(**{**asked, "from": "2026-07-01", "to": at(1).isoformat()})
    assert (exact.start, exact.end) == (at(0), at(1))
