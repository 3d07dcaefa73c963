"""Stretches: a second kind of operator, so that the seam does not take the shape of windows.

Within each window a key's rows that are no further apart than `gap` are one row of gold; it begins
with the first of them and ends, for the frontier, with the window. So a late row can make a
stretch begin earlier, lengthen it, or join two of them: rows of gold merge, and go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from deltalake import DeltaTable

from tidemark.gold.spans import dates_predicate
from tidemark.operators.bronze_rows import BronzeRows
from tidemark.operators.kinds import KINDS
from tidemark.operators.operator import Covered, Traits
from tidemark.operators.row_range import RowRange
from tidemark.operators.windows.counts import WindowRows
from tidemark.operators.windows.windows import Windows
from tidemark.pipeline.difference import ChangeVerdict, Difference
from tidemark.pipeline.model import TABLE_KINDS, Table, WindowTable

if TYPE_CHECKING:
    pass

_TICK = timedelta(microseconds=1)


class StretchTable(WindowTable):
    """The stretches of each key, in windows that do not overlap."""

    gap: timedelta
    # Of an open window any stretch may still merge: only what is closed is emitted.
    output_mode: Literal["append"] = "append"


@dataclass(frozen=True)
class Stretches(Windows):
    """Late rows, counts and the seal are those of the windows around the stretches."""

    table: StretchTable

    @property
    def values(self) -> tuple[str, ...]:
        return ("window_end", "last", "rows")

    @property
    def traits(self) -> Traits:
        return replace(super().traits, emits_per_row=1)

    def rows_in(self, bronze: DeltaTable) -> BronzeRows:
        return StretchRows(self, bronze)

    def starting_in(self, start: datetime, end: datetime) -> RowRange | None:
        """All stretches of the windows that start in the range."""
        found = super().starting_in(start, end)
        return found and replace(found, last_start=found.last_end - _TICK)

    def definition_changes(self, query: str, asked: Table) -> Iterator[Difference]:
        assert isinstance(asked, StretchTable)
        yield from super().definition_changes(query, asked)
        if asked.gap != self.table.gap:
            gaps = str(self.table.gap), str(asked.gap)
            reason = "The table holds the stretches as they were"
            yield Difference(query, "gap", *gaps, ChangeVerdict.NEW_GENERATION, reason)


@dataclass(frozen=True)
class StretchRows(WindowRows):
    """Known stretches of a window that is computed again go, where it does not give them."""

    operator: Stretches

    def covered(self, closed: pa.Table) -> Covered:
        length = self.table.window.length // _TICK
        same = "".join(
            f' AND k."{key}" IS NOT DISTINCT FROM t."{key}"' for key in self.table.group_by
        )
        within = f"""
            epoch_us(k.window_start) >= epoch_us(t.window_start)
            AND epoch_us(k.window_start) < epoch_us(t.window_start) + {length}
        """
        starts = closed.column("window_start").to_pylist()
        days = {day for start in starts for day in (start, start + self.table.window.length)}
        return Covered(
            f"EXISTS (SELECT 1 FROM touched t WHERE {within} {same})",
            closed,
            dates_predicate(tuple(sorted({day.date() for day in days}))),
        )

    def covered_ending(self, first_end: datetime, last_end: datetime) -> Covered:
        ends = " AND ".join(f"TIMESTAMPTZ '{end.isoformat()}'" for end in (first_end, last_end))
        first, last = (first_end - self.table.window.length).date(), last_end.date()
        dates = f"window_date BETWEEN DATE '{first}' AND DATE '{last}'"
        return Covered(f"k.window_end BETWEEN {ends}", pa.table({"none": []}), dates)


TABLE_KINDS["gap"] = StretchTable
KINDS[StretchTable] = Stretches
