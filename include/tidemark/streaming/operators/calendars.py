"""Days, weeks, months, quarters and years of a zone in Spark, over batch reads of bronze."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.operators.calendars.calendars import Calendars
from tidemark.operators.calendars.grid import Unit, dated, dates_of, units, units_of
from tidemark.operators.operator import BRONZE
from tidemark.operators.row_range import RowRange
from tidemark.pipeline.model import LOCAL_DATE
from tidemark.streaming.arrow_rows import frame_of
from tidemark.streaming.inputs import Inputs
from tidemark.streaming.operators.operator import StreamedOperator
from tidemark.streaming.operators.stretches import Stretch, joined, rows_within
from tidemark.streaming.operators.windows import in_windows, measured_windows

_TICK = timedelta(microseconds=1)


@dataclass(frozen=True)
class StreamedCalendars(StreamedOperator):
    """The windows of one table."""

    operator: Calendars

    def plan(self, inputs: Inputs) -> DataFrame:
        """Of a stream only the columns: its query emits nothing (`Table.recomputes`)."""
        rows = inputs[BRONZE]
        if rows.isStreaming:
            return self._windows(rows, [])
        ((first, last),) = rows.agg(F.min("_event_date"), F.max("_event_date")).collect()
        if first is None:
            return self._windows(rows, [])
        begin, end = datetime.combine(first, time(), UTC), datetime.combine(last, time.max, UTC)
        return self._windows(rows, units(self.operator.table.window, begin, end))

    def recompute(self, inputs: Inputs, closed: pa.Table) -> DataFrame:
        """The wanted windows are taken before their measures are computed: another one of the same
        dates may fail."""
        found = units_of(self.operator.table.window, closed)
        assigned = self._assigned(self._within(inputs[BRONZE], found), found)
        wanted = in_windows(self.operator, assigned, closed, "left_semi")
        return self._measured(wanted)

    def ending_in(self, inputs: Inputs, first_end: datetime, last_end: datetime) -> DataFrame:
        window = self.operator.table.window
        found = [one for one in units(window, first_end - _TICK, last_end) if one.end <= last_end]
        return self._windows(self._within(inputs[BRONZE], found), found)

    def starting_in(self, inputs: Inputs, rows: RowRange) -> DataFrame:
        found = list(units(self.operator.table.window, rows.first_start, rows.last_start))
        return self._windows(self._within(inputs[BRONZE], found), found)

    def _within(self, rows: DataFrame, found: Iterable[Unit]) -> DataFrame:
        stretches = joined(Stretch(one.start, one.end) for one in found)
        days = sorted({day for one in found for day in dates_of(one)})
        return rows_within(rows, stretches, F.col("_event_date").isin(days))

    def _windows(self, rows: DataFrame, found: Iterable[Unit]) -> DataFrame:
        assigned = self._assigned(rows, found)
        if self.excluded is not None and self.excluded.num_rows:
            assigned = in_windows(self.operator, assigned, self.excluded, "left_anti")
        return self._measured(assigned)

    def _assigned(self, rows: DataFrame, found: Iterable[Unit]) -> DataFrame:
        """The rows that are in one of these windows, each with it (`_window`): found by the dates
        on which these have event times."""
        grid = frame_of(rows.sparkSession, dated(found)).select(
            F.struct("start", "end", F.col("local_date").alias(LOCAL_DATE)).alias("_window"),
            F.col("on").alias("_on"),
        )
        time = F.col("_event_time")
        within = (time >= F.col("_window.start")) & (time < F.col("_window.end"))
        on_date = F.col("_event_date") == F.col("_on")
        return rows.join(F.broadcast(grid), [on_date, within], "inner").drop("_on")

    def _measured(self, assigned: DataFrame) -> DataFrame:
        return measured_windows(self.operator, self.exact, assigned, F.col("_window"), LOCAL_DATE)
