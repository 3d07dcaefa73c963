"""Windows as an operator: each row of gold is a window of a fixed length, and a key.

Where a row falls follows from its event time alone, so a window that has a row never goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from deltalake import DeltaTable

from tidemark.operators.bronze_rows import BronzeRows
from tidemark.operators.operator import Equation, Operator, Traits, emits_only_closed
from tidemark.operators.row_range import RowRange
from tidemark.operators.windows.counts import WindowRows
from tidemark.pipeline.difference import ChangeVerdict, Difference
from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.instants import instant_of, instant_text
from tidemark.pipeline.model import Table, Window, WindowTable

_TICK = timedelta(microseconds=1)
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
