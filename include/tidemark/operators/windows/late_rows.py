"""Which rows came too late for the stream, and which windows they touch: counted from bronze.

A row's assignment to a window is late when the window's end is at or before the batch's late
frontier: the watermark by which the engine filters the batch (that of the batch before), or the
close frontier of the table where that is further. The engine's own count is one of groups after
partial aggregation (SPARK-24634); these are rows and assignments, exactly.

DuckDB reads only event time and keys, and only of the batch's new files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from tidemark.operators.windows.in_duckdb import last_start, window_count
from tidemark.pipeline.model import Table
from tidemark.storage.delta.appended import appended_rows
from tidemark.storage.delta.place import TablePlace

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class BatchRead:
    """What one batch of a table's query read: the versions first..last of bronze.

    `late_ms` is its late frontier in milliseconds, 0 for none. `number` is None for batches
    that the checkpoint no longer keeps; their rows count as one batch, and as late up to the
    oldest watermark that it keeps, which no such batch was ahead of.
    """

    number: int | None
    first: int
    last: int
    late_ms: int


@dataclass(frozen=True)
class BatchCounts:
    """The rows of a batch, and their assignments to windows.

    A row is wholly late when all its assignments are late, partly late when only some are.
    `late_groups` are the distinct windows with key that late assignments belong to, `frozen`
    the late assignments to windows that are not repaired any more (`keep`). `closed_groups`
    counts those windows, and those that were open to the batch and are closed now.
    """

    batch: BatchRead
    rows: int
    assigned: int
    wholly_late: int
    partly_late: int
    late_assigned: int
    late_groups: int
    frozen: int
    closed_groups: int


@dataclass(frozen=True)
class LateRows:
    """The counts of each batch, and the windows to repair: `window_start` and keys, distinct."""

    batches: tuple[BatchCounts, ...]
    windows: pa.Table


def find_late_rows(
    bronze: DeltaTable,
    place: TablePlace,
    event_time: str,
    table: Table,
    batches: Sequence[BatchRead],
    frozen_before_ms: int | None,
    closed_ms: int,
) -> LateRows:
    """Count each batch's late rows; windows that start before `frozen_before_ms` stay as they are.

    `closed_ms` is the close frontier that gold holds now. Where that is further than the one that
    a batch ran under, its rows were not late, but their windows are to be repaired all the same:
    in append mode nothing else brings them to gold.
    Pure in what it changes: it only reads. Keys compare as SQL's IS NOT DISTINCT FROM.
    """
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        counts = []
        for number, batch in enumerate(batches):
            rows = appended_rows(bronze, place, batch.first, batch.last)
            connection.register("batch", rows)
            frontier = max(batch.late_ms, closed_ms)
            connection.execute(_late_groups(number, event_time, table, frontier))
            (counted,) = connection.execute(_counts(event_time, table, batch.late_ms)).fetchall()
            (groups,) = connection.execute(
                _group_counts(number, table, batch.late_ms, frozen_before_ms)
            ).fetchall()
            counts.append(BatchCounts(batch, *counted, *groups))
        windows = connection.sql(_windows(table, len(batches), frozen_before_ms)).to_arrow_table()
    return LateRows(tuple(counts), windows)


def _assignments(event_time: str, table: Table, late_ms: int) -> str:
    """Each row's newest window, how many it is in, and from which of them on it is late.

    Counted from the newest, so the late ones are the last ones.
    """
    length, slide = table.window.length // _MICROSECOND, table.window.slide // _MICROSECOND
    newest = last_start(event_time, table.window)
    # The newest window that is late starts here, or before.
    late_start = late_ms * 1_000 - length
    keys = "".join(f', "{key}"' for key in table.group_by)
    return f"""
        SELECT *, greatest(_windows - _first_late, 0) AS _late FROM (
            SELECT {newest} AS _newest, {window_count(event_time, table.window)} AS _windows,
                (greatest({newest} - ({late_start}), 0) + {slide} - 1) // {slide} AS _first_late
                {keys}
            FROM batch
        )
    """


def _counts(event_time: str, table: Table, late_ms: int) -> str:
    return f"""
        SELECT count(*), coalesce(sum(_windows), 0)::BIGINT,
            count(*) FILTER (_late = _windows),
            count(*) FILTER (_late > 0 AND _late < _windows),
            coalesce(sum(_late), 0)::BIGINT
        FROM ({_assignments(event_time, table, late_ms)})
    """


def _late_groups(number: int, event_time: str, table: Table, late_ms: int) -> str:
    slide = table.window.slide // _MICROSECOND
    keys = "".join(f', "{key}"' for key in table.group_by)
    return f"""
        CREATE TEMP TABLE late_{number} AS
        SELECT _start {keys}, count(*) AS _assigned FROM (
            SELECT _newest - unnest(range(_first_late, _windows)) * {slide} AS _start {keys}
            FROM ({_assignments(event_time, table, late_ms)}) WHERE _late > 0
        ) GROUP BY ALL
    """


def _is_frozen(frozen_before_ms: int | None) -> str:
    return "false" if frozen_before_ms is None else f"_start < {frozen_before_ms * 1_000}"


def _group_counts(number: int, table: Table, late_ms: int, frozen_before_ms: int | None) -> str:
    late = f"_start <= {late_ms * 1_000 - table.window.length // _MICROSECOND}"
    frozen = f"{late} AND {_is_frozen(frozen_before_ms)}"
    return f"""
        SELECT count(*) FILTER ({late}),
            coalesce(sum(_assigned) FILTER ({frozen}), 0)::BIGINT, count(*)
        FROM late_{number}
    """


def _windows(table: Table, batches: int, frozen_before_ms: int | None) -> str:
    keys = "".join(f', "{key}"' for key in table.group_by)
    found = " UNION ALL ".join(f"SELECT * FROM late_{number}" for number in range(batches))
    return f"""
        SELECT DISTINCT make_timestamptz(_start) AS window_start {keys} FROM ({found})
        WHERE NOT ({_is_frozen(frozen_before_ms)})
    """
