"""Which windows an audit can compare: pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta

from tidemark.operators.windows.window_range import (
    WindowRange,
    first_kept_start,
    first_open_start,
    starting_in,
)
from tidemark.pipeline.model import Table

_DAY = timedelta(days=1)


def audited_range(
    table: Table,
    start: datetime | None,
    end: datetime | None,
    dates: Iterable[date],
    close_ms: int,
    frozen_before_ms: int | None,
) -> WindowRange | None:
    """The windows to compare; None where there is none.

    Without `start` or `end` all windows that touch `dates`, of which bronze or gold have files.
    In append mode only those that are closed by the frontier: gold gets a window once it closes.
    With `keep` only those that are not frozen: bronze may have dropped rows of the others.
    """
    known = sorted(dates)
    if not known:
        return None
    window = table.window
    starts = [start or _midnight(known[0]) - window.length]
    ends = [end or _midnight(known[-1]) + _DAY]
    if table.output_mode == "append":
        ends.append(first_open_start(window, close_ms))
    if frozen_before_ms is not None:
        starts.append(first_kept_start(window, frozen_before_ms))
    return starting_in(window, max(starts), min(ends))


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
