"""How many rows of bronze belong to given windows: counted without Spark, to check Spark by it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, timedelta

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from pyarrow.dataset import Dataset

from tidemark.operators.keys import does_count, selected
from tidemark.operators.windows.in_duckdb import each_start, last_start, window_starts
from tidemark.pipeline.instants import epoch_us
from tidemark.pipeline.model import Window, WindowTable
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.history import schema_of
from tidemark.storage.duckdb_in_utc import duckdb_in_utc

_TICK = timedelta(microseconds=1)


def count_of_windows(
    bronze: DeltaTable,
    event_time: str,
    table: WindowTable,
    windows: pa.Table,
    condition: str = "true",
) -> int:
    """The assignments of bronze's rows to these windows (`window_start` and keys).

    Only rows of bronze that fulfil the condition count.
    """
    dates = dates_of(window_starts(windows), table.window.length)
    rows = rows_of_dates(bronze, dates)
    return count_in_windows(rows, event_time, table, windows, condition=condition)


def count_in_windows(
    rows: Dataset,
    event_time: str,
    table: WindowTable,
    windows: pa.Table,
    late_ms: int = 0,
    condition: str = "true",
) -> int:
    """The assignments of these rows to those of the windows that end after a frontier."""
    length = table.window.length // _TICK
    keys = "".join(f", {key}" for key in selected(rows.schema, table.group_by))
    same = "".join(f' AND a."{key}" IS NOT DISTINCT FROM w."{key}"' for key in table.group_by)
    with duckdb_in_utc() as connection:
        connection.register("bronze", rows)
        connection.register("windows", windows)
        return _number(
            connection,
            f"""
            SELECT count(*)
            FROM (
                SELECT {each_start(event_time, table.window)} AS _start {keys} FROM bronze
                WHERE {condition} AND {does_count(rows.schema, table.where)}
            ) a
            JOIN windows w ON a._start = epoch_us(w.window_start) {same}
            WHERE a._start + {length} > {late_ms * 1_000}
            """,
        )


def count_of_range(
    bronze: DeltaTable,
    event_time: str,
    table: WindowTable,
    first_end: datetime,
    last_end: datetime,
    condition: str = "true",
) -> int:
    """The assignments to all windows with first_end <= end <= last_end.

    Only rows of bronze that fulfil the condition count.
    """
    length = table.window.length // _TICK
    with duckdb_in_utc() as connection:
        opened = (first_end - table.window.length).date(), last_end.date()
        connection.register("bronze", _between(bronze, *opened))
        return _number(
            connection,
            f"""
            SELECT count(*)
            FROM (
                SELECT {each_start(event_time, table.window)} AS _start FROM bronze
                WHERE {condition} AND {does_count(schema_of(bronze), table.where)}
            )
            WHERE _start + {length} BETWEEN {epoch_us(first_end)} AND {epoch_us(last_end)}
            """,
        )


def windows_of_range(
    bronze: DeltaTable,
    event_time: str,
    table: WindowTable,
    first_end: datetime,
    last_end: datetime,
) -> pa.Table:
    """The windows with a row that end in the same range (`window_start` and keys)."""
    length = table.window.length // _TICK
    listed = "".join(f', "{key}"' for key in table.group_by)
    keys = "".join(f", {key}" for key in selected(schema_of(bronze), table.group_by))
    opened = (first_end - table.window.length).date(), last_end.date()
    with duckdb_in_utc() as connection:
        connection.register("bronze", _between(bronze, *opened))
        found = connection.sql(
            f"""
            SELECT DISTINCT make_timestamptz(_start) AS window_start {listed} FROM (
                SELECT {each_start(event_time, table.window)} AS _start {keys} FROM bronze
                WHERE {does_count(schema_of(bronze), table.where)}
            ) WHERE _start + {length} BETWEEN {epoch_us(first_end)} AND {epoch_us(last_end)}
            """
        ).to_arrow_table()
    return pa.table(found)


def dates_of(starts: Iterable[datetime], length: timedelta) -> set[date]:
    """The dates of the event times that windows with these starts hold."""
    return {day for start in starts for day in days(start.date(), (start + length - _TICK).date())}


def rows_of_dates(bronze: DeltaTable, dates: set[date]) -> Dataset:
    """Bronze's rows of these dates: files of others are not opened."""
    listed = ", ".join(f"DATE '{day}'" for day in sorted(dates))
    return dataset_of(bronze, f"_event_date IN ({listed})")


def _between(bronze: DeltaTable, first: date, last: date) -> Dataset:
    """Bronze's rows of a range of dates, which may be all that there are."""
    dates = f"_event_date BETWEEN DATE '{first}' AND DATE '{last}'"
    return dataset_of(bronze, dates)


def days(first: date, last: date) -> list[date]:
    """All dates from first to last."""
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]


def _number(connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    ((number,),) = connection.execute(sql).fetchall()
    return int(number)


def newest_window_end_ms(bronze: DeltaTable, event_time: str, window: Window) -> int:
    """The end of the newest window that a row of bronze is in, whether it counts or not; 0 where
    bronze is empty.

    Rounded up to milliseconds. Only the newest date's files are read.
    """
    dates = [date.fromisoformat(partition["_event_date"]) for partition in bronze.partitions()]
    if not dates:
        return 0
    length = window.length // timedelta(microseconds=1)
    with duckdb_in_utc() as connection:
        connection.register("bronze", rows_of_dates(bronze, {max(dates)}))
        ((newest,),) = connection.execute(
            f"SELECT max({last_start(event_time, window)} + {length}) FROM bronze"
        ).fetchall()
    return 0 if newest is None else -(-int(newest) // 1_000)
