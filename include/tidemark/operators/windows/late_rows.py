"""Which rows came too late for the stream, and which windows they touch: counted from bronze.

A row's assignment to a window is late when the window's end is at or before the batch's late
frontier: the watermark by which the engine filters the batch (that of the batch before), or the
close frontier of the table where that is further. The engine's own count is one of groups after
partial aggregation (SPARK-24634); these are rows and assignments, exactly.

DuckDB reads only event time and keys, and only of the batch's new files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from deltalake import DeltaTable

from tidemark.operators.keys import register_rows, selected
from tidemark.operators.lookups import NO_LOOKUPS, Lookups
from tidemark.operators.touched import BatchCounts, BatchRead, Touched
from tidemark.operators.windows.in_duckdb import last_start, window_count
from tidemark.pipeline.model import WindowTable
from tidemark.storage.delta.appended import appended_rows
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.duckdb_in_utc import arrow_of, duckdb_in_utc

_MICROSECOND = timedelta(microseconds=1)


def find_late_rows(
    bronze: DeltaTable,
    place: TablePlace,
    event_time: str,
    table: WindowTable,
    batches: Sequence[BatchRead],
    frozen_before_ms: int | None,
    closed_ms: int,
    lookups: Lookups = NO_LOOKUPS,
) -> Touched:
    """The late rows and what they touch (`Operator.touched`); what is to be computed again are
    windows: `window_start` and keys.

    In append mode nothing else brings a window to gold that has closed since its batch. Keys
    compare as SQL's IS NOT DISTINCT FROM.
    """
    with duckdb_in_utc() as connection:
        counted = []
        for number, batch in enumerate(batches):
            rows = appended_rows(bronze, place, batch.first, batch.last)
            read = register_rows(connection, "read", rows, event_time, table.where, lookups)
            counting = read.counts
            connection.execute(f"CREATE OR REPLACE TEMP VIEW batch AS FROM read WHERE {counting}")
            frontier = max(batch.late_ms, closed_ms)
            keys = "".join(f", {key}" for key in selected(read.schema, table.group_by))
            connection.execute(_late_groups(number, event_time, table, frontier, keys))
            (of_rows,) = connection.execute(_counts(event_time, table, batch.late_ms)).fetchall()
            (groups,) = connection.execute(
                _group_counts(number, table, batch.late_ms, frozen_before_ms)
            ).fetchall()
            ((others, without_match),) = connection.execute(
                f"SELECT count(*) FILTER (NOT ({counting})), "
                f"count(*) FILTER ({read.without_match}) FROM read"
            ).fetchall()
            found = BatchCounts(batch, *of_rows, *groups)
            counted.append(replace(found, not_counted=others, without_match=without_match))
        windows = arrow_of(connection.sql(_windows(table, len(batches), frozen_before_ms)))
    return Touched(tuple(counted), windows)


def _assignments(event_time: str, table: WindowTable, late_ms: int, keys: str = "") -> str:
    """Each row's newest window, how many it is in, and from which of them on it is late; and the
    keys that are selected.

    Counted from the newest, so the late ones are the last ones.
    """
    length, slide = table.window.length // _MICROSECOND, table.window.slide // _MICROSECOND
    newest = last_start(event_time, table.window)
    # The newest window that is late starts here, or before.
    late_start = late_ms * 1_000 - length
    return f"""
        SELECT *, greatest(_windows - _first_late, 0) AS _late FROM (
            SELECT {newest} AS _newest, {window_count(event_time, table.window)} AS _windows,
                (greatest({newest} - ({late_start}), 0) + {slide} - 1) // {slide} AS _first_late
                {keys}
            FROM batch
        )
    """


def _counts(event_time: str, table: WindowTable, late_ms: int) -> str:
    return f"""
        SELECT count(*), coalesce(sum(_windows), 0)::BIGINT,
            count(*) FILTER (_late = _windows),
            count(*) FILTER (_late > 0 AND _late < _windows),
            coalesce(sum(_late), 0)::BIGINT
        FROM ({_assignments(event_time, table, late_ms)})
    """


def _late_groups(
    number: int, event_time: str, table: WindowTable, late_ms: int, selected_keys: str
) -> str:
    slide = table.window.slide // _MICROSECOND
    keys = "".join(f', "{key}"' for key in table.group_by)
    return f"""
        CREATE TEMP TABLE late_{number} AS
        SELECT _start {keys}, count(*) AS _assigned FROM (
            SELECT _newest - unnest(range(_first_late, _windows)) * {slide} AS _start {keys}
            FROM ({_assignments(event_time, table, late_ms, selected_keys)}) WHERE _late > 0
        ) GROUP BY ALL
    """


def _is_frozen(frozen_before_ms: int | None) -> str:
    return "false" if frozen_before_ms is None else f"_start < {frozen_before_ms * 1_000}"


def _group_counts(
    number: int, table: WindowTable, late_ms: int, frozen_before_ms: int | None
) -> str:
    late = f"_start <= {late_ms * 1_000 - table.window.length // _MICROSECOND}"
    frozen = f"{late} AND {_is_frozen(frozen_before_ms)}"
    return f"""
        SELECT count(*) FILTER ({late}),
            coalesce(sum(_assigned) FILTER ({frozen}), 0)::BIGINT, count(*)
        FROM late_{number}
    """


def _windows(table: WindowTable, batches: int, frozen_before_ms: int | None) -> str:
    keys = "".join(f', "{key}"' for key in table.group_by)
    found = " UNION ALL ".join(f"SELECT * FROM late_{number}" for number in range(batches))
    return f"""
        SELECT DISTINCT make_timestamptz(_start) AS window_start {keys} FROM ({found})
        WHERE NOT ({_is_frozen(frozen_before_ms)})
    """
