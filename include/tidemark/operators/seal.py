"""When an idle source's last windows close: pure, on the scheduler's clock.

The engine's watermark moves only with newer events, so the last windows of a source that falls
silent would never close. They are sealed once the source was idle for the pipeline's
`seal_after_idle`; rows that come after that are late rows.
"""

from __future__ import annotations

from datetime import timedelta

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
