"""The windows of joined rows as two bronzes give them, counted by DuckDB over keys and times.

Rows match where the columns of `on` are equal, and the other row's time lies within the range of
this row's; null equals nothing. `rows` of a window are its joined rows (behind a left join, each
row that matches nothing is one), `matches` those of them that have both sides. All numbers are
microseconds.

Either bronze only gets rows. So two versions of them that give a window the same `rows` and
`matches` give it the same joined rows: matches are only added, and each row that matches nothing
stops to be one with its first match. Not so where rows were deleted by hand and landed again: what
late rows touch is computed whatever the numbers say (`gold/to_compute.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from tidemark.operators.keys import column_named, selected
from tidemark.operators.windows.in_duckdb import each_start, window_starts
from tidemark.pipeline.instants import epoch_us, instant_of_us
from tidemark.pipeline.model import JoinTable
from tidemark.storage.delta.dataset import event_dates, rows_on
from tidemark.storage.delta.history import schema_of
from tidemark.storage.duckdb_in_utc import arrow_of, duckdb_in_utc

TICK = timedelta(microseconds=1)
_MOST_SPANS = 50


@dataclass(frozen=True)
class BronzeSide:
    """One of the two bronzes at a version. Only its rows that fulfil the condition count."""

    bronze: DeltaTable
    event_time: str
    condition: str = "true"

    def rows_of(self, spans: list[tuple[int, int]]) -> Any:
        """A dataset that has all rows with first <= event time <= last of one of these spans;
        files of other dates are not opened."""
        days = [(_day(first), _day(last)) for first, last in spans]
        held = event_dates(self.bronze)
        within = (day for day in held if any(one <= day <= two for one, two in days))
        return rows_on(self.bronze, within)


@dataclass(frozen=True)
class JoinIn:
    """Both sides, and how they are joined."""

    left: BronzeSide
    right: BronzeSide
    table: JoinTable

    @property
    def low(self) -> int:
        """The other row's time less this row's, at the least."""
        return -(self.table.join.within.before // TICK)

    @property
    def high(self) -> int:
        """The other row's time less this row's, at the most."""
        return self.table.join.within.after // TICK

    @property
    def length(self) -> int:
        return self.table.window.length // TICK

    @property
    def ons(self) -> tuple[str, ...]:
        """What the columns that are equal are called on either side, in these relations."""
        return tuple(f"_on_{number}" for number in range(len(self.table.join.on)))

    @property
    def keys(self) -> tuple[str, ...]:
        return self.table.group_by

    def listed_keys(self, relation: str = "") -> str:
        """The keys as SQL lists them, each behind a comma."""
        before = f"{relation}." if relation else ""
        return "".join(f', {before}"{key}"' for key in self.keys)

    def left_columns(self) -> str:
        """Its keys, what it is joined on, and its time `_at`."""
        schema, on = schema_of(self.left.bronze), self.table.join.on.keys()
        keys = selected(schema, self.keys)
        return ", ".join([self._on(schema, on), f'"{self.left.event_time}" AS _at', *keys])

    def right_columns(self) -> str:
        schema, on = schema_of(self.right.bronze), self.table.join.on.values()
        return f'{self._on(schema, on)}, "{self.right.event_time}" AS _at'

    def _on(self, schema: pa.Schema, names: Iterable[str]) -> str:
        held = [column_named(schema, name).name for name in names]
        return ", ".join(f'"{name}" AS {on}' for name, on in zip(held, self.ons, strict=True))

    def matches(self, left: str, right: str) -> str:
        """The condition that rows of two relations match."""
        same = " AND ".join(f"{left}.{on} = {right}.{on}" for on in self.ons)
        time = f"epoch_us({left}._at)"
        within = f"BETWEEN {time} + ({self.low}) AND {time} + {self.high}"
        return f"{same} AND epoch_us({right}._at) {within}"

    def reached(self, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Where the other side's rows lie that match rows of these spans."""
        return [(first + self.low, last + self.high) for first, last in spans]

    def empty(self) -> pa.Table:
        """No window, in the columns of `windows_given`."""
        schema = schema_of(self.left.bronze)
        fields = [
            pa.field("window_start", pa.timestamp("us", "UTC")),
            *(column_named(schema, key).with_name(key).with_nullable(True) for key in self.keys),
            pa.field("window_end", pa.timestamp("us", "UTC")),
            pa.field("matches", pa.int64()),
            pa.field("rows", pa.int64()),
        ]
        return pa.schema(fields).empty_table()


def windows_given(joined: JoinIn, asked: pa.Table) -> pa.Table:
    """These windows (`window_start` and keys), as far as they have a row: `window_start`, keys,
    `window_end`, `matches`, `rows`."""
    starts = {epoch_us(start) for start in window_starts(asked)}
    if not starts:
        return joined.empty()
    spans = [*_joining([(start, start + joined.length - 1) for start in sorted(starts)])]
    with duckdb_in_utc() as connection:
        connection.register("asked", asked)
        same = "".join(f' AND q."{key}" IS NOT DISTINCT FROM w."{key}"' for key in joined.keys)
        wanted = (
            "EXISTS (SELECT 1 FROM asked q WHERE epoch_us(q.window_start) = w._start" + same + ")"
        )
        return _windows(connection, joined, spans, wanted)


def windows_starting(joined: JoinIn, first: datetime, last: datetime) -> pa.Table:
    """All windows with first <= start <= last, in the same columns."""
    low, high = epoch_us(first), epoch_us(last)
    if low > high:
        return joined.empty()
    with duckdb_in_utc() as connection:
        wanted = f"w._start BETWEEN {low} AND {high}"
        return _windows(connection, joined, [(low, high + joined.length - 1)], wanted)


def _windows(
    connection: duckdb.DuckDBPyConnection,
    joined: JoinIn,
    spans: list[tuple[int, int]],
    wanted: str,
) -> pa.Table:
    """The windows of the left rows in these spans that fulfil a condition on `w`."""
    connection.register("left_bronze", joined.left.rows_of(spans))
    connection.register("right_bronze", joined.right.rows_of(joined.reached(spans)))
    # A filter of many conditions costs more than the rows that it spares.
    few = spans if len(spans) <= _MOST_SPANS else [(spans[0][0], spans[-1][1])]
    within = " OR ".join(f"epoch_us(_at) BETWEEN {first} AND {last}" for first, last in few)
    # Rows that are alike are one, with their number: `_rows`.
    connection.execute(
        f"""
        CREATE TEMP TABLE alike AS SELECT *, row_number() OVER () AS _id FROM (
            SELECT *, count(*) AS _rows FROM (
                SELECT {joined.left_columns()} FROM left_bronze WHERE {joined.left.condition}
            ) WHERE {within} GROUP BY ALL
        )
        """
    )
    connection.execute(
        f"""
        CREATE TEMP TABLE others AS SELECT *, count(*) AS _rows FROM (
            SELECT {joined.right_columns()} FROM right_bronze WHERE {joined.right.condition}
        ) GROUP BY ALL
        """
    )
    unmatched = 1 if joined.table.join.type == "left" else 0
    sql = f"""
        SELECT make_timestamptz(_start) AS window_start{joined.listed_keys()},
            make_timestamptz(_start + {joined.length}) AS window_end,
            sum(_rows * _matches)::BIGINT AS matches,
            sum(_rows * greatest(_matches, {unmatched}))::BIGINT AS "rows"
        FROM (
            SELECT w._start, w._rows{joined.listed_keys("w")}, coalesce(m._matches, 0) AS _matches
            FROM (
                SELECT _id, _rows{joined.listed_keys()},
                    {each_start("_at", joined.table.window)} AS _start
                FROM alike
            ) w LEFT JOIN (
                SELECT l._id, sum(r._rows)::BIGINT AS _matches
                FROM alike l JOIN others r ON {joined.matches("l", "r")} GROUP BY l._id
            ) m USING (_id)
            WHERE {wanted}
        ) GROUP BY ALL HAVING "rows" > 0
    """
    found = arrow_of(connection.sql(sql))
    schema = joined.empty().schema
    return found.rename_columns(schema.names).cast(schema)


def _joining(spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Spans in their order, those that touch as one."""
    first, last = spans[0]
    for one, two in spans[1:]:
        if one > last + 1:
            yield first, last
            first = one
        last = max(last, two)
    yield first, last


def _day(microseconds: int) -> date:
    # What reaches over the years that there are is of the first or the last of them.
    low, high = -(62_135_596_800 * 10**6), 253_402_300_799 * 10**6
    return instant_of_us(min(max(microseconds, low), high)).date()
