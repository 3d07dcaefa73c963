"""Event-time windows in DuckDB's SQL, as Spark's `window` function assigns rows to them.

Spark's rule (class TimeWindowing): windows start at multiples of the slide since 1970-01-01 UTC,
and the offset; a row is in each window with start <= event time < end. Event times are never before
1970, but a window may start there.
All numbers are microseconds.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa

from tidemark.pipeline.model import Window

_MICROSECOND = timedelta(microseconds=1)


def last_start(event_time: str, window: Window) -> str:
    """The start of the newest window that a row is in."""
    slide, offset = window.slide // _MICROSECOND, window.offset // _MICROSECOND
    if not offset:
        return f'(epoch_us("{event_time}") // {slide} * {slide})'
    # A slide more first: DuckDB divides towards zero.
    before = slide - offset
    return f'((epoch_us("{event_time}") + {before}) // {slide} * {slide} - {before})'


def window_count(event_time: str, window: Window) -> str:
    """In how many windows a row is."""
    length, slide = window.length // _MICROSECOND, window.slide // _MICROSECOND
    reach = f'({last_start(event_time, window)} + {length} - epoch_us("{event_time}"))'
    return f"(({reach} + {slide} - 1) // {slide})"


def each_start(event_time: str, window: Window) -> str:
    """The starts of all windows that a row is in: one row of the result for each."""
    slide = window.slide // _MICROSECOND
    count = window_count(event_time, window)
    return f"{last_start(event_time, window)} - unnest(range({count})) * {slide}"


def window_starts(windows: pa.Table) -> list[datetime]:
    """The distinct values of `window_start`, in UTC."""
    return [start for start in windows.column("window_start").unique().to_pylist() if start]
