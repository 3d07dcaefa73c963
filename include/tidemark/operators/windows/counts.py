"""Windows of a fixed length by bronze: found and counted without Spark, to check Spark by it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from pyarrow.dataset import Dataset

from tidemark.operators.bronze_rows import BronzeRows
from tidemark.operators.keys import RowsRead, register_rows, selected
from tidemark.operators.looked_up_rows import Found, found_within
from tidemark.operators.operator import Covered, covered_exactly
from tidemark.operators.row_range import RowRange
from tidemark.operators.touched import BatchRead, Touched
from tidemark.operators.windows.in_duckdb import each_start, window_starts
from tidemark.operators.windows.late_rows import find_late_rows
from tidemark.pipeline.instants import epoch_us
from tidemark.pipeline.model import Window, WindowTable
from tidemark.storage.delta.appended import appended_rows
from tidemark.storage.delta.dataset import rows_from, rows_on
from tidemark.storage.delta.newest_event import newest_event_us
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.duckdb_in_utc import arrow_of, duckdb_in_utc, one_number

if TYPE_CHECKING:
    # Its module imports this one.
    from tidemark.operators.windows.windows import FixedWindows

_TICK = timedelta(microseconds=1)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True)
class FixedWindowRows(BronzeRows):
    """What the rows of windows of a fixed length have in common."""

    operator: FixedWindows

    @property
    def table(self) -> WindowTable:
        return self.operator.table

    def first_needed_ms(self, close_ms: int) -> int:
        """A window that is open ends after the frontier."""
        return close_ms - self.table.window.length // _MILLISECOND

    def seeded_from(self, close_ms: int) -> datetime:
        return self.operator.first_open_start(close_ms)

    def newest_end_ms(self) -> int:
        return newest_window_end_ms(self.bronze, self.operator.event_time, self.table.window)

    def holding(self, rows: pa.Table) -> pa.Table:
        return self.rows_in_bronze(self._holding(rows))

    def ends(self, closed: pa.Table) -> pa.Array[Any]:
        starts: list[Any] = closed.column("window_start").to_pylist()
        ends = [start + self.table.window.length for start in starts]
        return pa.array(ends, pa.timestamp("us", "UTC"))

    def count_in_batch(
        self, place: TablePlace, batch: BatchRead, rows: pa.Table, late_ms: int
    ) -> int:
        added = appended_rows(self.bronze, place, batch.first, batch.last)
        return self._count_in(added, rows, late_ms)

    def _count_in(
        self,
        rows: Dataset,
        windows: pa.Table,
        late_ms: int = 0,
        condition: str = "true",
        found: Found | None = None,
    ) -> int:
        """The assignments of these rows to those of the windows that end after a frontier. `found`:
        what those of these windows find in large lookups."""
        table, event_time = self.table, self.operator.event_time
        length = table.window.length // _TICK
        starts = window_starts(windows)
        # Files and row groups of other times are left out by their statistics.
        within = "false"
        if starts:
            first, last = min(starts), max(starts) + table.window.length
            times = f"TIMESTAMPTZ '{first.isoformat()}'", f"TIMESTAMPTZ '{last.isoformat()}'"
            within = f'"{event_time}" >= {times[0]} AND "{event_time}" < {times[1]}'
        same = "".join(f' AND a."{key}" IS NOT DISTINCT FROM w."{key}"' for key in table.group_by)
        with duckdb_in_utc() as connection:
            beside = self._registered(connection, rows, found)
            keys = "".join(f", {key}" for key in selected(beside.schema, table.group_by))
            connection.register("windows", windows)
            sql = f"""
                SELECT count(*)
                FROM (
                    SELECT {each_start(event_time, table.window)} AS _start {keys} FROM bronze
                    WHERE {condition} AND {within} AND {beside.counts}
                ) a
                JOIN windows w ON a._start = epoch_us(w.window_start) {same}
                WHERE a._start + {length} > {late_ms * 1_000}
            """
            return one_number(connection, sql)

    def _holding(self, rows: Any, condition: str = "true", found: Found | None = None) -> pa.Table:
        """The windows that these rows of bronze are in (`window_start` and keys), where these
        fulfil a condition on `_start`. `found`: what those in such windows find in large
        lookups."""
        listed = "".join(f', "{key}"' for key in self.table.group_by)
        start = each_start(self.operator.event_time, self.table.window)
        with duckdb_in_utc() as connection:
            beside = self._registered(connection, rows, found)
            keys = "".join(f", {key}" for key in selected(beside.schema, self.table.group_by))
            sql = f"""
                SELECT DISTINCT make_timestamptz(_start) AS window_start {listed} FROM (
                    SELECT {start} AS _start {keys} FROM bronze WHERE {beside.counts}
                ) WHERE {condition}
            """
            return arrow_of(connection.sql(sql))

    def _registered(
        self, connection: duckdb.DuckDBPyConnection, rows: Any, found: Found | None
    ) -> RowsRead:
        of = self.operator.event_time, self.table.where, self.operator.lookups, found
        return register_rows(connection, "bronze", rows, *of)


@dataclass(frozen=True)
class WindowRows(FixedWindowRows):
    """Windows by bronze: a row is in those that its event time lies in."""

    def touched(
        self,
        place: TablePlace,
        batches: Sequence[BatchRead],
        frozen_before_ms: int | None,
        closed_ms: int,
    ) -> Touched:
        return find_late_rows(
            self.bronze,
            place,
            self.operator.event_time,
            self.table,
            batches,
            frozen_before_ms,
            closed_ms,
            self.operator.lookups,
        )

    def ending(self, first_end: datetime, last_end: datetime) -> pa.Table | None:
        """Listed where the table is recomputed: its query has met none that fails, and each can be
        computed alone then."""
        if not self.table.recomputes:
            return None
        rows, found, ends = self._of_range(first_end, last_end)
        return self._holding(rows, ends, found)

    def covered(self, closed: pa.Table) -> Covered | None:
        return covered_exactly(self.operator, closed)

    def count_touched(self, closed: pa.Table, condition: str = "true") -> int:
        rows = rows_on(self.bronze, dates_of(window_starts(closed), self.table.window.length))
        return self._count_in(rows, closed, 0, condition, self.looked_up(closed))

    def count_ending(self, first_end: datetime, last_end: datetime, condition: str = "true") -> int:
        rows, found, ends = self._of_range(first_end, last_end)
        start = each_start(self.operator.event_time, self.table.window)
        with duckdb_in_utc() as connection:
            beside = self._registered(connection, rows, found)
            sql = f"""
                SELECT count(*) FROM (
                    SELECT {start} AS _start FROM bronze WHERE {condition} AND {beside.counts}
                ) WHERE {ends}
            """
            return one_number(connection, sql)

    def count_starting(self, rows: RowRange, condition: str) -> int:
        first_end = rows.first_start + self.table.window.length
        return self.count_ending(first_end, rows.last_end, condition)

    def _of_range(self, first_end: datetime, last_end: datetime) -> tuple[Dataset, Found, str]:
        """The rows of bronze that windows with first_end <= end <= last_end hold, and some more;
        what they find in large lookups, and the condition on `_start` that it is such a window."""
        length = self.table.window.length
        first = first_end - length
        found = found_within(self.operator, self.bronze, [first], [last_end])
        times = f"{epoch_us(first_end)} AND {epoch_us(last_end)}"
        rows = rows_from(self.bronze, first.date(), last_end.date())
        return rows, found, f"_start + {length // _TICK} BETWEEN {times}"


def dates_of(starts: Iterable[datetime], length: timedelta) -> set[date]:
    """The dates of the event times that windows with these starts hold."""
    return {day for start in starts for day in days(start.date(), (start + length - _TICK).date())}


def days(first: date, last: date) -> list[date]:
    """All dates from first to last."""
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]


def newest_window_end_ms(bronze: DeltaTable, event_time: str, window: Window) -> int:
    """The end of the newest window that a row of bronze is in, whether it counts or not; 0 where
    bronze is empty.

    Rounded up to milliseconds.
    """
    newest = newest_event_us(bronze, event_time)
    if newest is None:
        return 0
    length, slide, offset = (one // _TICK for one in (window.length, window.slide, window.offset))
    return -(-((newest - offset) // slide * slide + offset + length) // 1_000)
