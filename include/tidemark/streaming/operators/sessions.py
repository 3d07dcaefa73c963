"""Sessions in Spark: the engine's own session window, and rows of bronze put into known sessions.

What is computed again has its bounds from `operators/sessions/in_bronze.py`: here rows are found by
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.operators.operator import BRONZE
from tidemark.operators.row_range import RowRange
from tidemark.operators.sessions.sessions import Sessions, spans
from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.model import SessionTable
from tidemark.storage.delta.history import FAILURE
from tidemark.streaming.inputs import Inputs
from tidemark.streaming.operators.measures import measured
from tidemark.streaming.operators.operator import StreamedOperator
from tidemark.streaming.operators.stretches import (
    Stretch,
    joined,
    rows_lying_in,
    rows_within,
)

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
        return self._measured(rows_lying_in(rows, closed, self.table.group_by), self._window)

    def ending_in(self, inputs: Inputs, first_end: datetime, last_end: datetime) -> DataFrame:
        computed = self._sessions(inputs[BRONZE])
        return computed.where(F.col("window_end").between(F.lit(first_end), F.lit(last_end)))

    def starting_in(self, inputs: Inputs, rows: RowRange) -> DataFrame:
        """A row a gap before the range tells that what follows it did not start there, and one at
        its very end that what it touches ends later."""
        stretch = Stretch(rows.first_start - self.operator.gap, rows.last_end + _TICK)
        computed = self._sessions(rows_within(inputs[BRONZE], [stretch]))
        start, end = F.col("window_start"), F.col("window_end")
        return computed.where(
            start.between(F.lit(rows.first_start), F.lit(rows.last_start))
            & (end <= F.lit(rows.last_end))
        )

    def _sessions(self, rows: DataFrame) -> DataFrame:
        if self.excluded is not None and self.excluded.num_rows:
            rows = rows_lying_in(rows, self.excluded, self.table.group_by, "left_anti")
        return self._measured(rows, self._window)

    @property
    def _window(self) -> Column:
        return F.session_window("_event_time", duration_text(self.operator.gap))

    def _measured(self, rows: DataFrame, window: Column) -> DataFrame:
        table = self.table
        keys = [F.col(f"`{key}`") for key in table.group_by]
        grouped = rows.groupBy(window.alias("_window"), *keys)
        return measured(grouped, table.measures, rows, self.exact).select(
            F.col("_window.start").alias("window_start"),
            F.col("_window.end").alias("window_end"),
            *keys,
            *[F.col(f"`{name}`") for name in table.measures],
            "rows",
            FAILURE,
        )
