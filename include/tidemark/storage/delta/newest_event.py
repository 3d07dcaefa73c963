"""The newest event of a bronze: by the statistics of its files, or exactly."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from tidemark.pipeline.instants import epoch_ms, instant_of
from tidemark.storage.delta.dataset import event_dates, rows_on
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.duckdb_in_utc import duckdb_in_utc


def newest_event_ms(table: DeltaTable, column: str) -> int | None:
    """The newest event time of a bronze, in milliseconds since 1970, rounded down; None where it
    has no row.

    By the statistics of its files. Where one has none, as of columns behind the first 32, rows are
    read.
    """
    actions: Any = pa.table(table.get_add_actions(flatten=True))
    name = f"max.{column}"
    if name not in actions.column_names or actions[name].null_count:
        exact_us = newest_event_us(table, column)
        return None if exact_us is None else exact_us // 1_000
    newest = max((value for value in actions[name].to_pylist()), default=None)
    if newest is None:
        return None
    return epoch_ms(newest if newest.tzinfo else newest.replace(tzinfo=UTC))


def newest_event(place: TablePlace, column: str) -> datetime | None:
    """`newest_event_ms` of a table that may not be there, as an instant in UTC."""
    table = place.open()
    newest = None if table is None else newest_event_ms(table, column)
    return None if newest is None else instant_of(newest)


def newest_event_us(bronze: DeltaTable, column: str) -> int | None:
    """The newest event time of a bronze, in microseconds since 1970; None where it has no row. Only
    the newest date's files are read."""
    newest_date = event_dates(bronze)[-1:]
    if not newest_date:
        return None
    with duckdb_in_utc() as connection:
        connection.register("bronze", rows_on(bronze, newest_date))
        sql = f'SELECT max(epoch_us("{column}")) FROM bronze'
        ((newest,),) = connection.execute(sql).fetchall()
    return None if newest is None else int(newest)
