"""How many rows of bronze belong to given windows: counted without Spark, to check Spark by it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from pyarrow.dataset import Dataset

from tidemark.operators.keys import RowsRead, register_rows, selected
from tidemark.operators.looked_up_rows import Found, found_within
from tidemark.operators.operator import Operator
from tidemark.operators.windows.in_duckdb import each_start, window_starts
from tidemark.pipeline.instants import epoch_us
from tidemark.pipeline.model import Window, WindowTable
from tidemark.storage.delta.dataset import rows_from, rows_on
from tidemark.storage.delta.newest_event import newest_event_us
from tidemark.storage.duckdb_in_utc import arrow_of, duckdb_in_utc

_TICK = timedelta(microseconds=1)


def count_of_windows(
    bronze: DeltaTable,
    operator: Operator,
    table: WindowTable,
    windows: pa.Table,
    condition: str = "true",
    found: Found | None = None,
) -> int:
    """The assignments of bronze's rows to these windows (`window_start` and keys).

    Only rows of bronze that fulfil the condition count. `found`: what those of these windows find
    in large lookups.
    """
    dates = dates_of(window_starts(windows), table.window.length)
    rows = rows_on(bronze, dates)
    return count_in_windows(rows, operator, table, windows, 0, condition, found)


def count_in_windows(
    rows: Dataset,
    operator: Operator,
    table: WindowTable,
    windows: pa.Table,
    late_ms: int = 0,
    condition: str = "true",
    found: Found | None = None,
) -> int:
    """The assignments of these rows to those of the windows that end after a frontier."""
    length = table.window.length // _TICK
    starts = window_starts(windows)
    # Files and row groups of other times are left out by their statistics.
    within = "false"
    if starts:
        first, last = min(starts), max(starts) + table.window.length
        times = f"TIMESTAMPTZ '{first.isoformat()}'", f"TIMESTAMPTZ '{last.isoformat()}'"
        within = f'"{operator.event_time}" >= {times[0]} AND "{operator.event_time}" < {times[1]}'
    same = "".join(f' AND a."{key}" IS NOT DISTINCT FROM w."{key}"' for key in table.group_by)
    with duckdb_in_utc() as connection:
        beside = _registered(connection, rows, operator, found)
        keys = "".join(f", {key}" for key in selected(beside.schema, table.group_by))
        connection.register("windows", windows)
        return _number(
            connection,
            f"""
            SELECT count(*)
            FROM (
                SELECT {each_start(operator.event_time, table.window)} AS _start {keys} FROM bronze
                WHERE {condition} AND {within} AND {beside.counts}
            ) a
            JOIN windows w ON a._start = epoch_us(w.window_start) {same}
            WHERE a._start + {length} > {late_ms * 1_000}
            """,
        )


def count_of_range(
    bronze: DeltaTable,
    operator: Operator,
    table: WindowTable,
    first_end: datetime,
    last_end: datetime,
    condition: str = "true",
) -> int:
    """The assignments to all windows with first_end <= end <= last_end.

    Only rows of bronze that fulfil the condition count.
    """
    length = table.window.length // _TICK
    first = first_end - table.window.length
    found = found_within(operator, bronze, [first], [last_end])
    with duckdb_in_utc() as connection:
        rows = rows_from(bronze, first.date(), last_end.date())
        beside = _registered(connection, rows, operator, found)
        return _number(
            connection,
            f"""
            SELECT count(*)
            FROM (
                SELECT {each_start(operator.event_time, table.window)} AS _start FROM bronze
                WHERE {condition} AND {beside.counts}
            )
            WHERE _start + {length} BETWEEN {epoch_us(first_end)} AND {epoch_us(last_end)}
            """,
        )


def windows_of_range(
    bronze: DeltaTable,
    operator: Operator,
    table: WindowTable,
    first_end: datetime,
    last_end: datetime,
) -> pa.Table:
    """The windows with a row that end in the same range (`window_start` and keys)."""
    length = table.window.length // _TICK
    ends = f"_start + {length} BETWEEN {epoch_us(first_end)} AND {epoch_us(last_end)}"
    first = first_end - table.window.length
    found = found_within(operator, bronze, [first], [last_end])
    rows = rows_from(bronze, first.date(), last_end.date())
    return windows_holding(rows, operator, table, ends, found)


def windows_holding(
    rows: Any,
    operator: Operator,
    table: WindowTable,
    condition: str = "true",
    found: Found | None = None,
) -> pa.Table:
    """The windows that these rows of bronze are in (`window_start` and keys), where these fulfil a
    condition on `_start`. `found`: what those in such windows find in large lookups."""
    listed = "".join(f', "{key}"' for key in table.group_by)
    with duckdb_in_utc() as connection:
        beside = _registered(connection, rows, operator, found)
        keys = "".join(f", {key}" for key in selected(beside.schema, table.group_by))
        sql = f"""
            SELECT DISTINCT make_timestamptz(_start) AS window_start {listed} FROM (
                SELECT {each_start(operator.event_time, table.window)} AS _start {keys} FROM bronze
                WHERE {beside.counts}
            ) WHERE {condition}
        """
        return arrow_of(connection.sql(sql))


def _registered(
    connection: duckdb.DuckDBPyConnection, rows: Any, operator: Operator, found: Found | None
) -> RowsRead:
    of = operator.event_time, operator.table.where, operator.lookups, found
    return register_rows(connection, "bronze", rows, *of)


def dates_of(starts: Iterable[datetime], length: timedelta) -> set[date]:
    """The dates of the event times that windows with these starts hold."""
    return {day for start in starts for day in days(start.date(), (start + length - _TICK).date())}


def days(first: date, last: date) -> list[date]:
    """All dates from first to last."""
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]


def _number(connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    ((number,),) = connection.execute(sql).fetchall()
    return int(number)


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
