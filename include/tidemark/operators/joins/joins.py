"""Joins as an operator: windows over the rows of this pipeline's bronze, the left side, with the
matching rows of another one's.

The engine drops a row of either side that lies at or before the watermark, though the windows that
it belongs to are open: behind the join they close later, by the range. A row whose match was
dropped comes out as unmatched. So all that is emitted, and all that closes, is held against both
bronzes (`checks_emitted`, `checks_closing`), by `rows` and `matches`.

The watermark is the least over both sides of (newest event time - delay): each run tells it to the
engine by clock rows (`runs/clocks.py`).

Where rows fall follows from their own times, and rows only come: a window that has one never goes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from tidemark.operators.bronze_rows import BronzeRows
from tidemark.operators.joins.in_bronze import BronzeSide, JoinIn, windows_given, windows_starting
from tidemark.operators.joins.new_rows import find_touched
from tidemark.operators.keys import does_count
from tidemark.operators.operator import BRONZE, Covered, InputTable, Traits, emits_only_closed
from tidemark.operators.row_range import RowRange
from tidemark.operators.touched import BatchRead, Touched
from tidemark.operators.windows.counts import FixedWindowRows
from tidemark.operators.windows.in_duckdb import window_starts
from tidemark.operators.windows.windows import FixedWindows
from tidemark.pipeline.difference import ChangeVerdict, Difference
from tidemark.pipeline.instants import instant_of
from tidemark.pipeline.join_rules import MATCHES
from tidemark.pipeline.model import JoinTable, Pipeline, Table
from tidemark.storage.delta.history import schema_of
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.duckdb_in_utc import distinct_rows

_MILLISECOND = timedelta(milliseconds=1)


def input_name(pipeline: str) -> str:
    """What pins and gold's transactions call another pipeline's bronze."""
    return f"{BRONZE}/{pipeline}"


@dataclass(frozen=True)
class Joins(FixedWindows):
    """Windows over bronze's column `event_time`, joined with another bronze's rows by the time
    `other_event_time`. `others` has that one where it is read (`beside`)."""

    table: JoinTable
    other_event_time: str = ""
    other_delay: timedelta = timedelta(0)
    others: Mapping[str, InputTable] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, pipeline: Pipeline, table: Table) -> Self:
        assert isinstance(table, JoinTable)
        other = pipeline.partners[table.join.other]
        return cls(
            pipeline.source.event_time.column,
            table,
            other.source.event_time.column,
            other.watermark.delay,
        )

    @property
    def inputs(self) -> tuple[str, ...]:
        return (BRONZE, self.other)

    @property
    def other(self) -> str:
        """The name of the right side."""
        return input_name(self.table.join.other)

    def with_inputs(self, others: Mapping[str, InputTable]) -> Self:
        return replace(self, others=others)

    @property
    def located(self) -> tuple[str, ...]:
        return (*self.identity, "window_end", MATCHES)

    @property
    def values(self) -> tuple[str, ...]:
        return ("window_end", *self.table.measures, MATCHES, "rows")

    @property
    def traits(self) -> Traits:
        """No equation: what a row becomes depends on the rows that it matches, of any batch. All
        that is emitted is held against bronze, one by one."""
        return Traits(
            None,
            emits_only_closed(self.table),
            checks_emitted=True,
            checks_closing=True,
            # A millisecond more than the range behind the watermark: so the engine's window emits.
            closes_behind_ms=self.reach // _MILLISECOND + 1,
            # The first match of a row that matched nothing adds none to `rows`.
            grows=("rows", MATCHES),
            delay_of_others=self.other_delay,
            reach=self.reach,
        )

    @property
    def reach(self) -> timedelta:
        """How far from a row's time the other side's may lie, before or after."""
        within = self.table.join.within
        return max(within.before, within.after)

    def needed_before(self, name: str) -> timedelta:
        """A row of the right side may lie before the one that it matches."""
        return timedelta(0) if name == BRONZE else self.table.join.within.before

    def rows_in(self, bronze: DeltaTable) -> BronzeRows:
        return JoinedRows(self, bronze)

    def definition_changes(self, query: str, asked: Table) -> Iterator[Difference]:
        assert isinstance(asked, JoinTable)
        yield from self.window_changes(query, asked.window)
        before, after = _told(self.table), _told(asked)
        for name, one in before.items():
            if one != after[name]:
                yield Difference(
                    query,
                    f"join.{name}",
                    one,
                    after[name],
                    ChangeVerdict.NEW_GENERATION,
                    "The state holds the rows that wait for a match as they were, and the engine "
                    "does not notice",
                )


@dataclass(frozen=True)
class JoinedRows(FixedWindowRows):
    """Joined windows by both bronzes, each at its version."""

    operator: Joins

    @property
    def table(self) -> JoinTable:
        return self.operator.table

    def touched(
        self,
        place: TablePlace,
        batches: Sequence[BatchRead],
        frozen_before_ms: int | None,
        closed_ms: int,
    ) -> Touched:
        joined = self._in()
        other = self.operator.others[self.operator.other]
        found = find_touched(
            joined, place, other, self.operator.other, batches, frozen_before_ms, closed_ms
        )
        return Touched(found.batches, self._located(found.closed))

    def evaluated(self, place: TablePlace, batch: BatchRead, before_ms: int) -> pa.Table:
        """Behind a left join also the windows of rows that the batch may give up as unmatched."""
        touched = super().evaluated(place, batch, before_ms)
        if self.table.join.type == "inner":
            return touched
        reach = self.operator.reach + self.table.window.length + _MILLISECOND
        first = instant_of(before_ms - reach // _MILLISECOND)
        given_up = windows_starting(self._in(), first, instant_of(batch.watermark_ms))
        both = pa.concat_tables([touched, self._located(given_up).cast(touched.schema)])
        return distinct_rows(both)

    def rows_in_bronze(self, rows: pa.Table, condition: str = "true") -> pa.Table:
        return self._located(windows_given(self._in(condition), rows))

    def ending(self, first_end: datetime, last_end: datetime) -> pa.Table:
        length = self.table.window.length
        found = windows_starting(self._in(), first_end - length, last_end - length)
        return self._located(found)

    def covered(self, closed: pa.Table) -> Covered:
        """No known row goes; only the dates are told."""
        days = sorted({start.date() for start in window_starts(closed)})
        listed = ", ".join(f"DATE '{day}'" for day in days)
        return Covered("false", closed, f"window_date IN ({listed})" if days else "false")

    def count_touched(self, closed: pa.Table, condition: str = "true") -> int:
        return _sum_of_rows(windows_given(self._in(condition), closed))

    def count_ending(self, first_end: datetime, last_end: datetime) -> int:
        return _sum_of_rows(self.ending(first_end, last_end))

    def count_starting(self, rows: RowRange, condition: str) -> int:
        joined = self._in(condition)
        return _sum_of_rows(rows.of(windows_starting(joined, rows.first_start, rows.last_start)))

    def _in(self, condition: str = "true") -> JoinIn:
        operator = self.operator
        other = operator.others[operator.other]
        right = BronzeSide(other.table, operator.other_event_time, other.condition)
        counting = does_count(schema_of(self.bronze), self.table.where)
        left = BronzeSide(self.bronze, operator.event_time, f"{condition} AND {counting}")
        return JoinIn(left, right, self.table)

    def _located(self, found: pa.Table) -> pa.Table:
        return found.select([*self.operator.located, "rows"])


def _told(table: JoinTable) -> dict[str, str]:
    join = table.join
    on = ", ".join(
        name if name == other else f"{name} = {other}" for name, other in join.on.items()
    )
    return {"with": join.other, "on": on, "within": str(join.within), "type": join.type}


def _sum_of_rows(windows: pa.Table) -> int:
    return int(pc.sum(windows.column("rows")).as_py() or 0)
