"""Sessions in Spark: the engine's own session window, and rows of bronze put into known sessions.

What is computed again has its bounds from `operators/sessions/in_bronze.py`: here rows are found by
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.operators.operator import BRONZE
from tidemark.operators.row_range import RowRange
from tidemark.operators.sessions.sessions import Sessions, spans
from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.model import SessionTable
from tidemark.streaming.inputs import Inputs
from tidemark.streaming.operators.operator import StreamedOperator
from tidemark.streaming.operators.stretches import (
    Stretch,
    is_in_range,
    joined,
    rows_lying_in,
    rows_within,
)
from tidemark.streaming.operators.windows import measured_windows

_TICK = timedelta(microseconds=1)


@dataclass(frozen=True)
class StreamedSessions(StreamedOperator):
    """The sessions of one table."""

    operator: Sessions

    @property
    def table(self) -> SessionTable:
        table = self.operator.table
        assert isinstance(table, SessionTable)
        return table

    def plan(self, inputs: Inputs) -> DataFrame:
        return self._sessions(inputs[BRONZE])

    def recompute(self, inputs: Inputs, closed: pa.Table) -> DataFrame:
        """Of a session that has lost rows what is left: maybe several."""
        whole = joined(Stretch(start, end) for start, end in spans(closed))
        rows = rows_within(inputs[BRONZE], whole)
        return self._measured(rows_lying_in(rows, closed, self.table.group_by))

    def ending_in(self, inputs: Inputs, first_end: datetime, last_end: datetime) -> DataFrame:
        computed = self._sessions(inputs[BRONZE])
        return computed.where(F.col("window_end").between(F.lit(first_end), F.lit(last_end)))

    def starting_in(self, inputs: Inputs, rows: RowRange) -> DataFrame:
        """A row a gap before the range tells that what follows it did not start there, and one at
        its very end that what it touches ends later."""
        stretch = Stretch(rows.first_start - self.operator.gap, rows.last_end + _TICK)
        return self._sessions(rows_within(inputs[BRONZE], [stretch])).where(is_in_range(rows))

    def _sessions(self, rows: DataFrame) -> DataFrame:
        if self.excluded is not None and self.excluded.num_rows:
            rows = rows_lying_in(rows, self.excluded, self.table.group_by, "left_anti")
        return self._measured(rows)

    def _measured(self, rows: DataFrame) -> DataFrame:
        window = F.session_window("_event_time", duration_text(self.operator.gap))
        return measured_windows(self.operator, self.exact, rows, window)
