"""Days, weeks, months, quarters and years of a zone: each row of gold is one of them, and a key.

All of it is computed from bronze (`Table.recomputes`): Spark's streams know no windows whose
lengths differ. Where a row falls follows from its event time alone, so a window that has a row
never goes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from pyarrow.dataset import Dataset

from tidemark.operators.bronze_rows import BronzeRows
from tidemark.operators.calendars.grid import (
    dated,
    dates_of,
    first_at_or_after,
    unit_at,
    units,
    units_of,
)
from tidemark.operators.keys import RowsRead, register_rows, selected
from tidemark.operators.looked_up_rows import Found, found_within
from tidemark.operators.operator import Covered, Operator, Traits, covered_exactly
from tidemark.operators.row_range import RowRange
from tidemark.operators.touched import NEVER_MS, BatchCounts, BatchRead, Touched
from tidemark.pipeline.difference import ChangeVerdict, Difference
from tidemark.pipeline.instants import epoch_ms, epoch_us, instant_of, instant_of_us
from tidemark.pipeline.model import LOCAL_DATE, CalendarTable, Table
from tidemark.storage.delta.appended import appended_rows
from tidemark.storage.delta.dataset import rows_from, rows_on
from tidemark.storage.delta.newest_event import newest_event_us
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.duckdb_in_utc import arrow_of, duckdb_in_utc, one_number

_TICK = timedelta(microseconds=1)
_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Calendars(Operator):
    """Windows of a zone's calendar over bronze's column `event_time`."""

    table: CalendarTable

    @property
    def traits(self) -> Traits:
        return Traits(None, emits_without_input=False, fails_again=bool(self.lookups))

    @property
    def identity(self) -> tuple[str, ...]:
        return ("window_start", *self.table.group_by)

    @property
    def values(self) -> tuple[str, ...]:
        return ("window_end", LOCAL_DATE, *self.table.measures, "rows")

    def rows_in(self, bronze: DeltaTable) -> BronzeRows:
        return CalendarRows(self, bronze)

    def why_due(self, before_ms: int, after_ms: int) -> str | None:
        """There is no state that a watermark could free."""
        return None

    def first_start_touching(self, event_time: datetime) -> datetime:
        return unit_at(self.table.window, event_time).start

    def starting_in(self, start: datetime, end: datetime) -> RowRange | None:
        first = first_at_or_after(self.table.window, start)
        if first >= end:
            return None
        last = unit_at(self.table.window, end - _TICK)
        return RowRange(first, last.start, last.end)

    def first_open_start(self, close_ms: int) -> datetime:
        return self.first_ending_after(instant_of(close_ms)) if close_ms < NEVER_MS else _NEVER

    def first_ending_after(self, instant: datetime) -> datetime:
        """The start of the first window that ends after an instant."""
        return unit_at(self.table.window, instant).start

    def first_kept_start(self, frozen_before_ms: int) -> datetime:
        return first_at_or_after(self.table.window, instant_of(frozen_before_ms))

    def definition_changes(self, query: str, asked: Table) -> Iterator[Difference]:
        assert isinstance(asked, CalendarTable)
        for name in ("calendar", "zone", "starts"):
            before, after = getattr(self.table.window, name), getattr(asked.window, name)
            if before != after:
                reason = "The table holds the windows as they were"
                verdict = ChangeVerdict.NEW_GENERATION
                yield Difference(query, f"window.{name}", before, after, verdict, reason)


@dataclass(frozen=True)
class CalendarRows(BronzeRows):
    """Windows by bronze: a row is in the one that its event time lies in."""

    operator: Calendars

    def first_needed_ms(self, close_ms: int) -> int:
        return epoch_ms(self.operator.first_open_start(close_ms))

    def seeded_from(self, close_ms: int) -> datetime:
        return self.operator.first_open_start(close_ms)

    def newest_end_ms(self) -> int:
        newest = newest_event_us(self.bronze, self.operator.event_time)
        if newest is None:
            return 0
        return epoch_ms(unit_at(self.operator.table.window, instant_of_us(newest)).end)

    def touched(
        self,
        place: TablePlace,
        batches: Sequence[BatchRead],
        frozen_before_ms: int | None,
        closed_ms: int,
    ) -> Touched:
        """In append mode nothing else brings a window to gold that has closed since its batch."""
        kept = "true" if frozen_before_ms is None else f"_start >= {frozen_before_ms * 1_000}"
        keys = _listed(self.operator.table.group_by)
        found, counts = [], []
        with duckdb_in_utc() as connection:
            for number, batch in enumerate(batches):
                rows = appended_rows(self.bronze, place, batch.first, batch.last)
                beside = self._assign(connection, rows)
                closed = self._before(max(batch.late_ms, closed_ms))
                late = self._before(batch.late_ms)
                connection.execute(
                    f"""
                    CREATE TEMP TABLE touched_{number} AS
                    SELECT _start {keys}, count(*) AS _rows FROM assigned WHERE {closed}
                    GROUP BY ALL
                    """
                )
                (of_rows,) = connection.execute(
                    f"SELECT count(*), count(*) FILTER ({late}) FROM assigned"
                ).fetchall()
                (of_groups,) = connection.execute(
                    f"""
                    SELECT count(*) FILTER ({late}),
                        coalesce(sum(_rows) FILTER ({late} AND NOT ({kept})), 0)::BIGINT, count(*)
                    FROM touched_{number}
                    """
                ).fetchall()
                counting, of_late = of_rows
                ((read, without_match),) = connection.execute(
                    f"SELECT count(*), count(*) FILTER ({beside.without_match}) FROM bronze"
                ).fetchall()
                of_batch = BatchCounts(batch, counting, counting, of_late, 0, of_late, *of_groups)
                others = read - counting
                counts.append(replace(of_batch, not_counted=others, without_match=without_match))
                found.append(f"SELECT _start {keys} FROM touched_{number}")
            sql = f"""
                SELECT DISTINCT make_timestamptz(_start) AS window_start {keys}
                FROM ({" UNION ALL ".join(found)}) WHERE {kept}
            """
            windows = arrow_of(connection.sql(sql))
        return Touched(tuple(counts), windows)

    def ending(self, first_end: datetime, last_end: datetime) -> pa.Table:
        rows, found, ends = self._of_range(first_end, last_end)
        return self._holding(rows, ends, found)

    def holding(self, rows: pa.Table) -> pa.Table:
        return self._holding(rows)

    def covered(self, closed: pa.Table) -> Covered | None:
        return covered_exactly(self.operator, closed)

    def ends(self, closed: pa.Table) -> pa.Array[Any]:
        window = self.operator.table.window
        starts: list[Any] = closed.column("window_start").to_pylist()
        ends = {start: unit_at(window, start).end for start in set(starts)}
        return pa.array([ends[start] for start in starts], pa.timestamp("us", "UTC"))

    def count_touched(self, closed: pa.Table, condition: str = "true") -> int:
        found = units_of(self.operator.table.window, closed)
        rows = rows_on(self.bronze, {day for one in found for day in dates_of(one)})
        return self._count_in(rows, closed, condition, found=self.looked_up(closed))

    def count_in_batch(
        self, place: TablePlace, batch: BatchRead, rows: pa.Table, late_ms: int
    ) -> int:
        added = appended_rows(self.bronze, place, batch.first, batch.last)
        return self._count_in(added, rows, f"NOT ({self._before(late_ms)})", of_windows=True)

    def count_ending(self, first_end: datetime, last_end: datetime) -> int:
        rows, found, ends = self._of_range(first_end, last_end)
        return self._count(rows, "true", ends, found)

    def count_starting(self, rows: RowRange, condition: str) -> int:
        bronze = rows_from(self.bronze, rows.first_start.date(), rows.last_end.date())
        starts = f"_start BETWEEN {epoch_us(rows.first_start)} AND {epoch_us(rows.last_start)}"
        found = found_within(self.operator, self.bronze, [rows.first_start], [rows.last_end])
        return self._count(bronze, condition, starts, found)

    def _holding(
        self, rows: Dataset | pa.Table, condition: str = "true", found: Found | None = None
    ) -> pa.Table:
        with duckdb_in_utc() as connection:
            self._assign(connection, rows, found=found)
            sql = f"""
                SELECT DISTINCT make_timestamptz(_start) AS window_start
                    {_listed(self.operator.table.group_by)}
                FROM assigned WHERE {condition}
            """
            return arrow_of(connection.sql(sql))

    def _count_in(
        self,
        rows: Dataset,
        windows: pa.Table,
        condition: str,
        of_windows: bool = False,
        found: Found | None = None,
    ) -> int:
        same = "".join(
            f' AND a."{key}" IS NOT DISTINCT FROM w."{key}"' for key in self.operator.table.group_by
        )
        of_rows, of_assigned = ("true", condition) if of_windows else (condition, "true")
        with duckdb_in_utc() as connection:
            self._assign(connection, rows, of_rows, found)
            connection.register("windows", windows)
            sql = f"""
                SELECT count(*) FROM assigned a
                JOIN windows w ON a._start = epoch_us(w.window_start) {same}
                WHERE {of_assigned}
            """
            return one_number(connection, sql)

    def _count(self, rows: Dataset, condition: str, starts: str, found: Found) -> int:
        with duckdb_in_utc() as connection:
            self._assign(connection, rows, condition, found)
            return one_number(connection, f"SELECT count(*) FROM assigned WHERE {starts}")

    def _assign(
        self,
        connection: duckdb.DuckDBPyConnection,
        rows: Dataset | pa.Table,
        condition: str = "true",
        found: Found | None = None,
    ) -> RowsRead:
        """The view `assigned`: of each of these rows of bronze that counts and fulfils a condition
        the start of its window in microseconds, and its keys. `found` as `register_rows` has it."""
        event_time, window = self.operator.event_time, self.operator.table.window
        of = event_time, self.operator.table.where, self.operator.lookups
        beside = register_rows(connection, "bronze", rows, *of, found)
        keys = "".join(f", {key}" for key in selected(beside.schema, self.operator.table.group_by))
        connection.register("rows_alone", rows)
        ((first, last),) = connection.execute(
            f'SELECT min(epoch_us("{event_time}")), max(epoch_us("{event_time}")) FROM rows_alone'
        ).fetchall()
        empty = first is None
        grid = [] if empty else units(window, instant_of_us(first), instant_of_us(last))
        connection.register("grid", dated(grid).rename_columns(["_from", "_to", "_day", "_on"]))
        connection.execute(
            f"""
            CREATE OR REPLACE TEMP VIEW assigned AS SELECT epoch_us(_from) AS _start {keys}
            FROM (FROM bronze WHERE {condition} AND {beside.counts}) b JOIN grid
            ON b."{event_time}"::DATE = _on AND b."{event_time}" >= _from
                AND b."{event_time}" < _to
            """
        )
        return beside

    def _before(self, close_ms: int) -> str:
        """The condition that a window ends at or before a frontier."""
        return f"_start < {epoch_us(self.operator.first_open_start(close_ms))}"

    def _of_range(self, first_end: datetime, last_end: datetime) -> tuple[Dataset, Found, str]:
        """The rows of bronze that windows with first_end <= end <= last_end hold, and some more;
        what they find in large lookups, and the condition on `_start` that it is such a window."""
        first = self.operator.first_ending_after(first_end - _TICK)
        behind = self.operator.first_ending_after(last_end)
        rows = rows_from(self.bronze, first.date(), last_end.date())
        found = found_within(self.operator, self.bronze, [first], [last_end])
        return rows, found, f"_start >= {epoch_us(first)} AND _start < {epoch_us(behind)}"


def _listed(keys: Sequence[str]) -> str:
    return "".join(f', "{key}"' for key in keys)
