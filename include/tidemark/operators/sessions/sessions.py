"""Sessions as an operator: each row of gold is a stretch of a key's rows that hang together.

The engine drops a row that is late by itself though its session is still open, and keeps one that
touches a session which it has emitted: that row comes later, in a session that overlaps. So what it
emits is held against bronze before a publish (`checks_emitted`), and what differs is computed from
it.

A session is closed a gap before the watermark: a row in time is then too far from it to touch it.
So a session can stand in gold before it is closed. Late rows make sessions begin earlier, last
longer, or merge; what merged goes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyarrow.dataset import Dataset

from tidemark.operators.bronze_rows import BronzeRows
from tidemark.operators.keys import does_count, selected
from tidemark.operators.operator import Covered, Operator, Traits, emits_only_closed
from tidemark.operators.row_range import RowRange
from tidemark.operators.sessions.in_bronze import (
    SessionsIn,
    day_spans,
    first_start_of_those_ending,
    same_keys,
    sessions_of,
    times_between,
)
from tidemark.operators.sessions.late_rows import find_late_rows
from tidemark.operators.touched import NEVER_MS, BatchRead, Touched
from tidemark.pipeline.difference import ChangeVerdict, Difference
from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.instants import epoch_ms, epoch_us, instant_of, instant_text
from tidemark.pipeline.model import GappedTable, SessionTable, Table
from tidemark.storage.delta.appended import appended_rows
from tidemark.storage.delta.dataset import rows_on
from tidemark.storage.delta.history import schema_of
from tidemark.storage.delta.newest_event import newest_event_us
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.duckdb_in_utc import arrow_of, duckdb_in_utc, one_number

_TICK = timedelta(microseconds=1)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Gapped(Operator):
    """What tables whose rows a gap divides have in common."""

    table: GappedTable

    @property
    def gap(self) -> timedelta:
        return self.table.gap

    @property
    def located(self) -> tuple[str, ...]:
        return (*self.identity, "window_end")

    @property
    def gap_ms(self) -> int:
        """Rounded up, so that nothing is taken for closed too early."""
        return -(-self.gap // _MILLISECOND)

    def late_us(self, batch: BatchRead) -> int:
        """The event time up to which rows came late to a batch, in microseconds; -1 for none. A
        late frontier of 0 is none while no watermark closes what lies there: then a row of the
        first instant of 1970 is in time."""
        none = not batch.late_ms and batch.watermark_ms < self.traits.closes_behind_ms
        return -1 if none else batch.late_ms * 1_000

    def why_due(self, before_ms: int, after_ms: int) -> str | None:
        """A watermark that has moved frees state: complete mode never frees any, and what is
        recomputed has none."""
        if after_ms <= before_ms or self.table.output_mode == "complete" or self.table.recomputes:
            return None
        return f"a batch without data is due, for the watermark {instant_text(after_ms)}"

    def kept_from_ms(self, first_ms: int) -> int:
        """What is left of a session that is cut starts less than a gap after what was dropped, and
        so before that time: there it is frozen."""
        return first_ms - self.gap_ms

    def first_start_touching(self, event_time: datetime) -> datetime:
        return event_time

    def starting_in(self, start: datetime, end: datetime) -> RowRange | None:
        """They end whenever they do."""
        return RowRange(start, end - _TICK, _NEVER) if start < end else None

    def first_kept_start(self, frozen_before_ms: int) -> datetime:
        return instant_of(frozen_before_ms)


@dataclass(frozen=True)
class GappedRows(BronzeRows):
    """What rows that a gap divides have in common, by bronze. `Touched.closed` has `located` and
    `rows`."""

    operator: Gapped

    @property
    def gap(self) -> timedelta:
        return self.operator.gap

    def seeded_from(self, close_ms: int) -> datetime:
        return instant_of(self.first_needed_ms(close_ms))

    def frozen_before_ms(self, frozen_ms: int) -> int:
        """Also what has begun before `keep` is not frozen as long as a row can touch it."""
        return self.first_needed_ms(frozen_ms)

    def newest_end_ms(self) -> int:
        newest = newest_event_us(self.bronze, self.operator.event_time)
        return 0 if newest is None else -(-(newest + self.gap // _TICK) // 1_000)

    def touched(
        self,
        place: TablePlace,
        batches: Sequence[BatchRead],
        frozen_before_ms: int | None,
        closed_ms: int,
    ) -> Touched:
        late_us = [self.operator.late_us(batch) for batch in batches]
        return find_late_rows(self._in(), place, batches, late_us, frozen_before_ms, closed_ms)

    def rows_in_bronze(self, rows: pa.Table, condition: str = "true") -> pa.Table:
        starts = pc.cast(rows.column("window_start"), pa.timestamp("us", "UTC"))
        points = rows.select(list(self.operator.table.group_by)).append_column(
            "_t", starts.cast("int64")
        )
        return self._located(sessions_of(self._in(condition), points))

    def holding(self, rows: pa.Table) -> pa.Table:
        keys = ", ".join(selected(rows.schema, self.operator.table.group_by))
        with duckdb_in_utc() as connection:
            connection.register("given", rows)
            at = f'epoch_us("{self.operator.event_time}")'
            points = arrow_of(connection.sql(f"SELECT DISTINCT {keys}, {at} AS _t FROM given"))
        return self._located(sessions_of(self._in(), points))

    def covered(self, closed: pa.Table) -> Covered:
        started = f"EXISTS (SELECT 1 FROM touched t WHERE {self.starts_in('k', 't')})"
        return Covered(started, closed, _dates_of(closed))

    def starts_in(self, known: str, row: str) -> str:
        return self._in_a_session(f"{known}.window_start", known, row)

    def hanging_with(
        self, changed: pa.Table, gold: Dataset, condition: str
    ) -> tuple[datetime, datetime] | None:
        """In gold what overlaps with these, and by bronze what has rows of that."""
        if not changed.num_rows:
            return None
        rows, first = self._in(condition), pc.min(changed.column("window_start"))
        last = pc.max(changed.column("window_end"))
        held = gold.to_table(
            ["window_start", "window_end", *rows.keys],
            filter=(pc.field("window_end") >= first) & (pc.field("window_start") <= last),
        )
        overlapping = "SELECT g.* FROM gold g JOIN changed c ON"
        keys = ", ".join(selected(held.schema, rows.keys))
        with duckdb_in_utc() as connection:
            # Outputs of a fold's episode start together: of all pairs of them one is asked for.
            for name, table in (("gold", held), ("changed", changed)):
                connection.register(f"all_{name}", table)
                connection.execute(
                    f"CREATE TEMP TABLE {name} AS SELECT {keys}, window_start, "
                    f"max(window_end) AS window_end FROM all_{name} GROUP BY ALL"
                )
            ways = [self.starts_in("g", "c"), self.starts_in("c", "g")]
            sql = " UNION ".join(f"{overlapping} {one}" for one in ways)
            before = arrow_of(connection.sql(sql))
            connection.register("bronze", rows_on(self.bronze, rows.dates_within(before)))
            connection.register("before", before)
            sql = f"""
                SELECT DISTINCT {rows.listed_keys("b")}, epoch_us(b._time) AS _t FROM (
                    SELECT "{rows.event_time}" AS _time, {rows.selected_keys()} FROM bronze
                    WHERE {rows.condition}
                ) b JOIN before s ON {self._in_a_session("b._time", "b", "s")}
            """
            points = arrow_of(connection.sql(sql))
        now = sessions_of(rows, points)
        every: list[Any] = [changed, before, now]
        starts = [start for one in every for start in one.column("window_start").to_pylist()]
        return min(starts), max(starts)

    def count_touched(self, closed: pa.Table, condition: str = "true") -> int:
        if not closed.num_rows:
            return 0
        held = rows_on(self.bronze, self._in().dates_within(closed))
        return self._count_in(held, closed, condition)

    def ends(self, closed: pa.Table) -> pa.Array[Any]:
        ends: pa.Array[Any] = closed.column("window_end").combine_chunks()
        return ends

    def count_in_batch(
        self,
        place: TablePlace,
        batch: BatchRead,
        rows: pa.Table,
        late_ms: int,
    ) -> int:
        added = appended_rows(self.bronze, place, batch.first, batch.last)
        late_us = self.operator.late_us(replace(batch, late_ms=late_ms))
        in_time = f'epoch_us("{self.operator.event_time}") > {late_us}'
        return self._count_in(added, rows, in_time)

    def count_ending(self, first_end: datetime, last_end: datetime) -> int:
        return _sum_of_rows(self.ending(first_end, last_end))

    def count_starting(self, rows: RowRange, condition: str) -> int:
        within = self._in(condition)
        starts = epoch_us(rows.first_start), epoch_us(rows.last_start)
        found = sessions_of(within, times_between(within, *starts))
        return _sum_of_rows(rows.of(found))

    def _in(self, condition: str = "true") -> SessionsIn:
        operator = self.operator
        counting = does_count(schema_of(self.bronze), operator.table.where)
        condition = f"{condition} AND {counting}"
        return SessionsIn(self.bronze, operator.event_time, operator.table, condition)

    @abstractmethod
    def ending(self, first_end: datetime, last_end: datetime) -> pa.Table:
        """Listed always: bronze tells where they end."""

    @abstractmethod
    def _located(self, found: pa.Table) -> pa.Table:
        """What `Touched.closed` has of sessions that were found."""

    def _in_a_session(self, time: str, one: str, session: str) -> str:
        """The condition that a time of the row `one` lies in a session of its key."""
        same = same_keys(self.operator.table.group_by, one, session)
        return f"{same} AND {time} BETWEEN {session}.window_start AND {session}.window_end"

    def _count_in(self, rows: Dataset, sessions: pa.Table, condition: str) -> int:
        event_time, table = self.operator.event_time, self.operator.table
        keys = ", ".join(selected(rows.schema, table.group_by))
        counting = does_count(rows.schema, table.where)
        with duckdb_in_utc() as connection:
            connection.register("bronze", rows)
            connection.register("sessions", sessions)
            sql = f"""
                SELECT count(*) FROM (
                    SELECT "{event_time}" AS _time, {keys} FROM bronze
                    WHERE {condition} AND {counting}
                ) b JOIN sessions s ON {self._in_a_session("b._time", "b", "s")}
            """
            return one_number(connection, sql)


@dataclass(frozen=True)
class Sessions(Gapped):
    """Sessions over bronze's column `event_time`."""

    @property
    def identity(self) -> tuple[str, ...]:
        return ("window_start", *self.table.group_by)

    @property
    def values(self) -> tuple[str, ...]:
        return ("window_end", *self.table.measures, "rows")

    @property
    def traits(self) -> Traits:
        """No equation: a batch in append mode emits what other batches read, and in complete mode
        the engine drops late rows too. All that is emitted is held against bronze, one by one."""
        return Traits(
            None,
            emits_only_closed(self.table),
            checks_emitted=True,
            closes_behind_ms=self.gap_ms,
            emits_ahead_ms=self.gap_ms,
        )

    def rows_in(self, bronze: DeltaTable) -> BronzeRows:
        return SessionRows(self, bronze)

    def first_open_start(self, close_ms: int) -> datetime:
        """From there on all are open; some that start before may be too."""
        return instant_of(close_ms) - self.gap + _TICK

    def definition_changes(self, query: str, asked: Table) -> Iterator[Difference]:
        assert isinstance(asked, SessionTable)
        if asked.gap != self.gap:
            yield Difference(
                query,
                "window.session",
                duration_text(self.gap),
                duration_text(asked.gap),
                ChangeVerdict.NEW_GENERATION,
                "The state and the table hold the sessions as they were, and the engine does not "
                "notice",
            )


@dataclass(frozen=True)
class SessionRows(GappedRows):
    """Sessions by bronze. `Touched.closed` has the identity, `window_end` and `rows`."""

    def first_needed_ms(self, close_ms: int) -> int:
        """Sessions that could still be touched at the frontier count as open."""
        first = first_start_of_those_ending(self._in(), close_ms)
        latest = close_ms - self.operator.gap_ms
        return latest if first is None else min(latest, epoch_ms(first))

    def ending(self, first_end: datetime, last_end: datetime) -> pa.Table:
        rows = self._in()
        lasts = epoch_us(first_end - self.gap), epoch_us(last_end - self.gap)
        found = self._located(sessions_of(rows, times_between(rows, *lasts)))
        ends = found.column("window_end")
        within = pc.and_(
            pc.greater_equal(ends, pa.scalar(first_end, ends.type)),
            pc.less_equal(ends, pa.scalar(last_end, ends.type)),
        )
        return found.filter(within)

    def _located(self, found: pa.Table) -> pa.Table:
        return found.select([*self.operator.located, "rows"])


# Later than any end; what takes it to another zone stays within the years that there are.
_NEVER = instant_of(NEVER_MS) - timedelta(days=2)


def _sum_of_rows(sessions: pa.Table) -> int:
    return int(pc.sum(sessions.column("rows")).as_py() or 0)


def spans(sessions: pa.Table) -> Iterator[tuple[datetime, datetime]]:
    """The start and the end of each."""
    starts: list[Any] = sessions.column("window_start").to_pylist()
    ends: list[Any] = sessions.column("window_end").to_pylist()
    return zip(starts, ends, strict=True)


def _dates_of(closed: pa.Table) -> str:
    """The dates on which a session that one of these holds can start."""
    days = [f"window_date BETWEEN DATE '{one}' AND DATE '{two}'" for one, two in day_spans(closed)]
    return f"({' OR '.join(days)})" if days else "false"
