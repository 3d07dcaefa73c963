"""When an idle source's last windows close: pure, on the scheduler's clock.

The engine's watermark moves only with newer events, so the last windows of a source that falls
silent would never close. They are sealed once the source was idle for the pipeline's
`seal_after_idle`; rows that come after that are late rows.
"""

from __future__ import annotations

from datetime import date, timedelta

import duckdb
from deltalake import DeltaTable

from tidemark.operators.windows.assignments import rows_of_dates
from tidemark.operators.windows.in_duckdb import last_start
from tidemark.pipeline.model import Window

_MILLISECOND = timedelta(milliseconds=1)


def seal_frontier_ms(
    scheduled_ms: int,
    last_ingest_ms: int | None,
    idle: timedelta,
    delay: timedelta,
    newest_end_ms: int,
) -> int:
    """Up to where windows are sealed, in milliseconds; 0 where the source is not idle for long
    enough.

    Called for a run that listed its source and found no row. `last_ingest_ms` is the scheduled
    time of the last run that did (None: longer ago than any log knows), `newest_end_ms` the end
    of the newest window with a row.
    """
    idle_ms, delay_ms = idle // _MILLISECOND, delay // _MILLISECOND
    if last_ingest_ms is not None and scheduled_ms - last_ingest_ms < idle_ms:
        return 0
    return max(0, min(scheduled_ms - idle_ms - delay_ms, newest_end_ms))


def newest_window_end_ms(bronze: DeltaTable, event_time: str, window: Window) -> int:
    """The end of the newest window that a row of bronze is in; 0 where bronze is empty.

    Rounded up to milliseconds. Only the newest date's files are read.
    """
    dates = [date.fromisoformat(partition["_event_date"]) for partition in bronze.partitions()]
    if not dates:
        return 0
    length = window.length // timedelta(microseconds=1)
    with duckdb.connect() as connection:
        connection.register("bronze", rows_of_dates(bronze, {max(dates)}))
        ((newest,),) = connection.execute(
            f"SELECT max({last_start(event_time, window)} + {length}) FROM bronze"
        ).fetchall()
    return 0 if newest is None else -(-int(newest) // 1_000)
