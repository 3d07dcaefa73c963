"""A stretch of a table's rows, by their starts: what audits compare and backfills compute."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class RowRange:
    """All rows that start from `first_start` to `last_start`, in UTC, both included; none of them
    ends after `last_end`."""

    first_start: datetime
    last_start: datetime
    last_end: datetime
