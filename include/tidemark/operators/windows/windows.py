"""Windows as an operator: each row of gold is a window of a fixed length, and a key.

Where a row falls follows from its event time alone, so a window that has a row never goes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from tidemark.operators.bronze_rows import BronzeRows
from tidemark.operators.operator import (
    Covered,
    Equation,
    Operator,
    Traits,
    covered_exactly,
    emits_only_closed,
)
from tidemark.operators.row_range import RowRange
from tidemark.operators.touched import BatchRead, Touched
from tidemark.operators.windows import counts
from tidemark.operators.windows.late_rows import find_late_rows
from tidemark.pipeline.difference import ChangeVerdict, Difference
from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.instants import instant_of, instant_text
from tidemark.pipeline.model import Table, Window, WindowTable
from tidemark.storage.delta.appended import appended_rows
from tidemark.storage.delta.place import TablePlace

_TICK = timedelta(microseconds=1)

_MILLISECOND = timedelta(milliseconds=1)
_EQUATIONS = {"update": Equation.CHANGED, "complete": Equation.ALL}


@dataclass(frozen=True)
class FixedWindows(Operator):
    """What windows of a fixed length have in common, whatever is measured in them."""

    table: WindowTable

    @property
    def identity(self) -> tuple[str, ...]:
        return ("window_start", *self.table.group_by)

    def why_due(self, before_ms: int, after_ms: int) -> str | None:
        """A watermark that has moved frees state: complete mode never frees any, and what is
        recomputed has none."""
        if after_ms <= before_ms or self.table.output_mode == "complete" or self.table.recomputes:
            return None
        return f"a batch without data is due, for the watermark {instant_text(after_ms)}"

    def first_start_touching(self, event_time: datetime) -> datetime:
        return event_time - self.table.window.length

    def starting_in(self, start: datetime, end: datetime) -> RowRange | None:
        return starting_in(self.table.window, start, end)

    def first_open_start(self, close_ms: int) -> datetime:
        return first_open_start(self.table.window, close_ms)

    def first_kept_start(self, frozen_before_ms: int) -> datetime:
        return first_kept_start(self.table.window, frozen_before_ms)

    def window_changes(self, query: str, asked: Window) -> Iterator[Difference]:
        """What differs between its window and the one that is asked for."""
        for name in ("length", "slide", "offset"):
            before, after = getattr(self.table.window, name), getattr(asked, name)
            if before != after:
                yield Difference(
                    query,
                    f"window.{name}",
                    duration_text(before),
                    duration_text(after),
                    ChangeVerdict.NEW_GENERATION,
                    "The state and the table hold the windows as they were",
                )


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
        return counts.newest_window_end_ms(self.bronze, self.operator.event_time, self.table.window)

    def holding(self, rows: pa.Table) -> pa.Table:
        found = counts.windows_holding(rows, self.operator, self.table)
        return self.rows_in_bronze(found)

    def ends(self, closed: pa.Table) -> pa.Array[Any]:
        starts: list[Any] = closed.column("window_start").to_pylist()
        ends = [start + self.table.window.length for start in starts]
        return pa.array(ends, pa.timestamp("us", "UTC"))

    def count_in_batch(
        self, place: TablePlace, batch: BatchRead, rows: pa.Table, late_ms: int
    ) -> int:
        added = appended_rows(self.bronze, place, batch.first, batch.last)
        return counts.count_in_windows(added, self.operator, self.table, rows, late_ms)


@dataclass(frozen=True)
class Windows(FixedWindows):
    """Windows over bronze's column `event_time`."""

    @property
    def values(self) -> tuple[str, ...]:
        return ("window_end", *self.table.measures, "rows")

    @property
    def traits(self) -> Traits:
        emits = not self.table.recomputes
        equation = _EQUATIONS.get(self.table.output_mode) if emits else None
        window = self.table.window
        return Traits(
            equation,
            emits_only_closed(self.table),
            fails_again=bool(self.lookups),
            emits_per_row=-(-window.length // window.slide),
        )

    def rows_in(self, bronze: DeltaTable) -> BronzeRows:
        return WindowRows(self, bronze)

    def definition_changes(self, query: str, asked: Table) -> Iterator[Difference]:
        assert isinstance(asked, WindowTable)
        return self.window_changes(query, asked.window)


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
        return counts.windows_of_range(self.bronze, self.operator, self.table, first_end, last_end)

    def covered(self, closed: pa.Table) -> Covered | None:
        return covered_exactly(self.operator, closed)

    def count_touched(self, closed: pa.Table, condition: str = "true") -> int:
        found = self.looked_up(closed)
        return counts.count_of_windows(
            self.bronze, self.operator, self.table, closed, condition, found
        )

    def count_ending(self, first_end: datetime, last_end: datetime) -> int:
        return counts.count_of_range(self.bronze, self.operator, self.table, first_end, last_end)

    def count_starting(self, rows: RowRange, condition: str) -> int:
        first_end = rows.first_start + self.table.window.length
        return counts.count_of_range(
            self.bronze, self.operator, self.table, first_end, rows.last_end, condition
        )


def starting_in(window: Window, start: datetime, end: datetime) -> RowRange | None:
    """The windows with start <= window's start < end; None where there is none."""
    first = _first_at_or_after(window, start)
    last = _first_at_or_after(window, end) - window.slide
    return RowRange(first, last, last + window.length) if first <= last else None


def first_open_start(window: Window, close_ms: int) -> datetime:
    """The start of the first window that ends after the close frontier."""
    return _first_at_or_after(window, instant_of(close_ms) - window.length + _TICK)


def first_kept_start(window: Window, frozen_before_ms: int) -> datetime:
    """The start of the first window that is not frozen."""
    return _first_at_or_after(window, instant_of(frozen_before_ms))


def _first_at_or_after(window: Window, instant: datetime) -> datetime:
    """By the rule of `in_duckdb.py`."""
    first = instant_of(0) + window.offset
    return first - (first - instant) // window.slide * window.slide
