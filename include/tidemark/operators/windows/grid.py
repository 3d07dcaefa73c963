"""The grid that windows lie on: pure arithmetic.

Windows start at multiples of the slide since 1970-01-01 UTC, as in `in_duckdb.py`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tidemark.operators.row_range import RowRange
from tidemark.pipeline.instants import instant_of
from tidemark.pipeline.model import Window

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)


def starting_in(window: Window, start: datetime, end: datetime) -> RowRange | None:
    """The windows with start <= window's start < end; None where there is none."""
    first = _first_at_or_after(window, start)
    last = _first_at_or_after(window, end) - window.slide
    return RowRange(first, last, last + window.length) if first <= last else None


def first_open_start(window: Window, close_ms: int) -> datetime:
    """The start of the first window that ends after the close frontier."""
    return _first_at_or_after(window, instant_of(close_ms) - window.length + _TICK)


def first_kept_start(window: Window, frozen_before_ms: int) -> datetime:
    """The start of the first window that is not frozen."""
    return _first_at_or_after(window, instant_of(frozen_before_ms))


def _first_at_or_after(window: Window, instant: datetime) -> datetime:
    return _EPOCH - (_EPOCH - instant) // window.slide * window.slide
