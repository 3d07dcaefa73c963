"""Sessions as bronze gives them, found by DuckDB from event times and keys alone.

Spark's rule (class MergingSessionsIterator, and seen): rows of a key are one session where each
lies at most the gap after the one before it; the session starts with its first row and ends a gap
after its last. All numbers are microseconds.

A session can be longer than any bound, so nothing tells beforehand which dates of bronze hold it:
dates are read outwards from where it is looked for, until nothing reaches over their edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from tidemark.operators.keys import column_named, selected
from tidemark.operators.operator import listed
from tidemark.pipeline.instants import epoch_us, instant_of, instant_of_us
from tidemark.pipeline.model import GappedTable
from tidemark.storage.delta.dataset import event_dates, rows_on
from tidemark.storage.delta.history import schema_of
from tidemark.storage.duckdb_in_utc import arrow_of, duckdb_in_utc

_DAY = timedelta(days=1)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class SessionsIn:
    """A version of bronze, and what its sessions are made of. Only rows of bronze that fulfil the
    condition count."""

    bronze: DeltaTable
    event_time: str
    table: GappedTable
    condition: str = "true"

    @property
    def gap(self) -> int:
        return self.table.gap // _MICROSECOND

    @property
    def keys(self) -> tuple[str, ...]:
        return self.table.group_by

    def listed_keys(self, relation: str = "") -> str:
        """The keys as SQL lists them."""
        return listed(self.keys, relation)

    def selected_keys(self) -> str:
        """The keys as SQL selects them from bronze."""
        return ", ".join(selected(schema_of(self.bronze), self.keys))

    def same_key(self, one: str, other: str) -> str:
        return same_keys(self.keys, one, other)

    def no_points(self) -> pa.Table:
        """None of the rows that `sessions_of` is asked for."""
        held = schema_of(self.bronze)
        keys = [column_named(held, key).with_name(key) for key in self.keys]
        return pa.schema([*keys, pa.field("_t", pa.int64())]).empty_table()

    def dates_within(self, stretches: pa.Table) -> list[date]:
        """Those of bronze on which these lie, from `window_start` to `window_end`."""
        days, held = day_spans(stretches), event_dates(self.bronze)
        return [day for day in held if any(one <= day <= two for one, two in days)]


def same_keys(keys: Iterable[str], one: str, other: str) -> str:
    """The condition that rows of two relations have the same keys."""
    return " AND ".join(f'{one}."{key}" IS NOT DISTINCT FROM {other}."{key}"' for key in keys)


def day_spans(stretches: pa.Table) -> list[tuple[date, date]]:
    """The dates from `window_start` to `window_end` of each, the first and the last: as few spans
    as there can be, oldest first."""
    starts: list[Any] = stretches.column("window_start").to_pylist()
    ends: list[Any] = stretches.column("window_end").to_pylist()
    spans: list[tuple[date, date]] = []
    days = {(start.date(), end.date()) for start, end in zip(starts, ends, strict=True)}
    for first, last in sorted(days):
        if spans and first <= spans[-1][1] + _DAY:
            spans[-1] = spans[-1][0], max(spans[-1][1], last)
        else:
            spans.append((first, last))
    return spans


def sessions_of(rows: SessionsIn, points: pa.Table) -> pa.Table:
    """The whole sessions that rows of bronze are in: keys, `window_start`, `window_end`, `rows`.

    `points` are keys and the event times of rows, `_t`, in microseconds; those that are no rows of
    bronze find nothing.
    """
    with duckdb_in_utc() as connection:
        connection.register("given", points)
        connection.execute(
            f"CREATE TEMP TABLE points AS SELECT DISTINCT {rows.listed_keys()}, _t FROM given"
        )
        _read_outwards(connection, rows)
        sql = f"""
            SELECT make_timestamptz(_start) AS window_start, {rows.listed_keys()},
                make_timestamptz(_last + {rows.gap}) AS window_end, _rows AS "rows"
            FROM sessions WHERE _asked
        """
        return arrow_of(connection.sql(sql))


def _read_outwards(connection: duckdb.DuckDBPyConnection, rows: SessionsIn) -> None:
    """Make the table `sessions`: those of the points' keys on the dates that were read; whole are
    those that hold a point, `_asked`."""
    connection.execute(
        f"""
        CREATE TEMP TABLE found AS
        SELECT {rows.listed_keys()}, _t, 1::BIGINT AS _rows FROM points LIMIT 0
        """
    )
    connection.execute(f"CREATE TEMP TABLE sessions AS {_sessions(rows)}")
    held, read, further = event_dates(rows.bronze), set[date](), 0
    needed = _around(connection, rows, "SELECT _t AS _low, _t AS _high FROM points", held)
    while lacking := needed - read:
        days = {day for day in held if any(abs(day - one) <= further * _DAY for one in lacking)}
        _load(connection, rows, days - read)
        read |= days
        connection.execute(f"CREATE OR REPLACE TEMP TABLE sessions AS {_sessions(rows)}")
        asked = "SELECT _start AS _low, _last AS _high FROM sessions WHERE _asked"
        needed = _around(connection, rows, asked, held)
        # Each time further: a session of a year is read in a few steps.
        further = 2 * further + 1


def _around(
    connection: duckdb.DuckDBPyConnection, rows: SessionsIn, spans: str, held: Sequence[date]
) -> set[date]:
    """The dates of those held that can have rows within these spans, or at most a gap around them:
    a span may have come by dates that were read for another, over some that nobody read."""
    first, last = _day_sql(f"_low - {rows.gap}"), _day_sql(f"_high + {rows.gap}")
    found = connection.execute(f"SELECT DISTINCT {first}, {last} FROM ({spans})").fetchall()
    return {day for day in held if any(first <= _number(day) <= last for first, last in found)}


def _day_sql(microseconds: str) -> str:
    """The number of a day since 1970: a gap reaches over the years that there are."""
    return f"datediff('day', DATE '1970-01-01', make_timestamptz({microseconds})::DATE)"


def _number(day: date) -> int:
    return (day - date(1970, 1, 1)).days


def _load(connection: duckdb.DuckDBPyConnection, rows: SessionsIn, days: set[date]) -> None:
    """The times of the points' keys on these dates, each with the number of its rows."""
    connection.register("bronze", rows_on(rows.bronze, days))
    connection.execute(
        f"""
        INSERT INTO found
        SELECT {rows.listed_keys("b")}, b._t, count(*) FROM (
            SELECT {rows.selected_keys()}, epoch_us("{rows.event_time}") AS _t FROM bronze
            WHERE {rows.condition}
        ) b SEMI JOIN points p ON {rows.same_key("b", "p")} GROUP BY ALL
        """
    )
    connection.unregister("bronze")


def _sessions(rows: SessionsIn) -> str:
    """The sessions of the relation `found`."""
    keys = rows.listed_keys()
    return f"""
        SELECT {keys}, min(_t) AS _start, max(_t) AS _last, sum(_rows)::BIGINT AS _rows,
            bool_or(_point) AS _asked
        FROM (
            SELECT *, sum(_begins) OVER (
                PARTITION BY {keys} ORDER BY _t ROWS UNBOUNDED PRECEDING) AS _number
            FROM (
                SELECT {rows.listed_keys("f")}, f._t, f._rows, p._t IS NOT NULL AS _point,
                    CASE WHEN f._t - lag(f._t) OVER (
                        PARTITION BY {rows.listed_keys("f")} ORDER BY f._t) <= {rows.gap}
                        THEN 0 ELSE 1 END AS _begins
                FROM found f LEFT JOIN points p ON f._t = p._t AND {rows.same_key("f", "p")}
            )
        ) GROUP BY {keys}, _number
    """


def first_start_of_those_ending(rows: SessionsIn, from_ms: int) -> datetime | None:
    """When the first of the sessions starts that end at this time or later; None where there are
    none. Of those that start after it, only that there are some counts: then the time itself."""
    held, gap = event_dates(rows.bronze), rows.table.gap
    end = instant_of(from_ms)
    days = [day for day in held if (end - gap).date() <= day <= end.date()]
    later = [day for day in held if day > end.date()]
    further = 1
    while True:
        first = _first_start(rows, days, end)
        if first is None:
            return end if later else None
        before = [day for day in held if day < min(days)]
        if not any(day >= (first - gap).date() for day in before):
            return first
        reached = (first - gap).date() - further * _DAY
        days = [*(day for day in before if day >= reached), *days]
        further *= 2


def _first_start(rows: SessionsIn, days: list[date], end: datetime) -> datetime | None:
    if not days:
        return None
    up_to = epoch_us(end)
    with duckdb_in_utc() as connection:
        connection.register("bronze", rows_on(rows.bronze, days))
        connection.execute(
            f"""
            CREATE TEMP TABLE points AS
            SELECT {rows.selected_keys()}, epoch_us("{rows.event_time}") AS _t FROM bronze LIMIT 0
            """
        )
        connection.execute(
            f"""
            CREATE TEMP TABLE found AS
            SELECT {rows.selected_keys()}, epoch_us("{rows.event_time}") AS _t, 1 AS _rows
            FROM bronze
            WHERE {rows.condition} AND epoch_us("{rows.event_time}") <= {up_to}
            """
        )
        ((first,),) = connection.execute(
            f"SELECT min(_start) FROM ({_sessions(rows)}) WHERE _last >= {up_to - rows.gap}"
        ).fetchall()
    return None if first is None else instant_of_us(first)


def times_between(rows: SessionsIn, first_us: int, last_us: int) -> pa.Table:
    """The times of bronze's rows with first <= event time <= last, as points."""
    first, last = instant_of_us(first_us).date(), instant_of_us(last_us).date()
    days = [day for day in event_dates(rows.bronze) if first <= day <= last]
    with duckdb_in_utc() as connection:
        connection.register("bronze", rows_on(rows.bronze, days))
        sql = f"""
            SELECT DISTINCT {rows.selected_keys()}, epoch_us("{rows.event_time}") AS _t FROM bronze
            WHERE {rows.condition}
                AND epoch_us("{rows.event_time}") BETWEEN {first_us} AND {last_us}
        """
        return arrow_of(connection.sql(sql))


def outputs_unlike(
    rows: SessionsIn, known: pa.Table, found: pa.Table, number: str, verdict: int
) -> pa.Table:
    """Of the stretches `found`, as bronze gives them, those of which an output is known that is not
    of them: it starts elsewhere, or counts other rows than the stretch has up to its end. So also
    where something is known beside the verdict on a stretch, the output of that number."""
    with duckdb_in_utc() as connection:
        connection.register("known", known)
        connection.register("found", found)
        connection.register("bronze", rows_on(rows.bronze, rows.dates_within(found)))
        sql = f"""
            WITH times AS (
                SELECT f.window_start, {rows.listed_keys("f")}, b._t, count(*) AS _rows
                FROM found f JOIN (
                    SELECT {rows.selected_keys()}, make_timestamptz(epoch_us("{rows.event_time}"))
                        AS _t FROM bronze WHERE {rows.condition}
                ) b ON {rows.same_key("b", "f")} AND b._t BETWEEN f.window_start AND f.window_end
                GROUP BY ALL
            ), ends AS (
                SELECT window_start, {rows.listed_keys()}, _t, sum(_rows) OVER (
                    PARTITION BY window_start, {rows.listed_keys()} ORDER BY _t) AS _rows
                FROM times
                UNION ALL SELECT window_start, {rows.listed_keys()}, window_end, "rows" FROM found
            ), judged AS (
                SELECT f.window_start, {rows.listed_keys("f")}, k."{number}" AS _number,
                    k.window_start = f.window_start AND e._rows IS NOT NULL AS _like
                FROM known k JOIN found f ON {rows.same_key("k", "f")}
                    AND k.window_start BETWEEN f.window_start AND f.window_end
                LEFT JOIN ends e ON {rows.same_key("e", "f")} AND e.window_start = f.window_start
                    AND e._t = k.window_end AND e._rows = k."rows"
            ), wrong AS (
                SELECT window_start, {rows.listed_keys()} FROM judged
                GROUP BY ALL HAVING NOT bool_and(_like)
                    OR (bool_or(_number = {verdict}) AND count(*) > 1)
            )
            SELECT f.* FROM found f SEMI JOIN wrong w
            ON {rows.same_key("f", "w")} AND f.window_start = w.window_start
        """
        unlike = arrow_of(connection.sql(sql))
    return unlike.cast(found.schema)
