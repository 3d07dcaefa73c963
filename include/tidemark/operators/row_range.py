"""A stretch of a table's rows, by their starts: what audits compare and backfills compute."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class RowRange:
    """All rows that start from `first_start` to `last_start` and end at `last_end` or before, in
    UTC, all included. Where a row's length is fixed, none of them ends later."""

    first_start: datetime
    last_start: datetime
    last_end: datetime

    def ending_by(self, end: datetime) -> RowRange:
        """Only those that end by then."""
        return replace(self, last_end=min(self.last_end, end))

    def of(self, rows: pa.Table) -> pa.Table:
        """The rows of the range; `window_end` counts where they have it."""
        start: Any = pc.field("window_start")
        within = (start >= self.first_start) & (start <= self.last_start)
        if "window_end" in rows.column_names:
            within = within & (pc.field("window_end") <= self.last_end)
        return rows.filter(within)
