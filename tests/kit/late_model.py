"""The rule for late rows, row by row and window by window, in plain Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tidemark.pipeline.model import Window, WindowTable

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)

Group = tuple[Any, ...]


@dataclass(frozen=True)
class LateCounts:
    """What a batch counts as, in the words of the ledger; and the late windows with key."""

    assigned: int
    late_rows: int
    partly_late_rows: int
    late_assigned: int
    groups: frozenset[Group]

    @property
    def numbers(self) -> tuple[int, ...]:
        counts = (self.assigned, self.late_rows, self.partly_late_rows, self.late_assigned)
        return (*counts, len(self.groups))


def starts_of(at: datetime, window: Window) -> list[datetime]:
    """The windows that hold an event time, tried out one by one from the newest."""
    start = EPOCH + (at - EPOCH) // window.slide * window.slide
    starts = []
    while start + window.length > at:
        starts.append(start)
        start -= window.slide
    return starts


def late_counts(rows: Sequence[Mapping[str, Any]], table: WindowTable, late_ms: int) -> LateCounts:
    """Count rows with `at` and keys; a window is late when its end is at or before the frontier."""
    late = EPOCH + late_ms * MILLISECOND
    assigned = wholly = partly = late_assigned = 0
    groups: set[Group] = set()
    for row in rows:
        starts = starts_of(row["at"], table.window)
        too_late = [start for start in starts if start + table.window.length <= late]
        assigned += len(starts)
        late_assigned += len(too_late)
        wholly += len(too_late) == len(starts)
        partly += 0 < len(too_late) < len(starts)
        groups |= {(start, *(row[key] for key in table.group_by)) for start in too_late}
    return LateCounts(assigned, wholly, partly, late_assigned, frozenset(groups))
