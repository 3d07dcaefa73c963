"""Windows in Spark: the engine's own aggregation, and the same plan over a batch read of bronze."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.operators.operator import BRONZE, Operator
from tidemark.operators.row_range import RowRange
from tidemark.operators.windows.counts import dates_of
from tidemark.operators.windows.in_duckdb import window_starts
from tidemark.operators.windows.windows import Windows
from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.model import Window, WindowTable
from tidemark.storage.delta.history import FAILURE
from tidemark.streaming.arrow_rows import frame_of
from tidemark.streaming.inputs import Inputs
from tidemark.streaming.operators.measures import measured
from tidemark.streaming.operators.operator import StreamedOperator
from tidemark.streaming.operators.stretches import Stretch, joined, rows_within


@dataclass(frozen=True)
class StreamedWindows(StreamedOperator):
    """The windows of one table."""

    operator: Windows

    @property
    def table(self) -> WindowTable:
        return self.operator.table

    def plan(self, inputs: Inputs) -> DataFrame:
        return self._windows(inputs[BRONZE])

    def recompute(self, inputs: Inputs, closed: pa.Table) -> DataFrame:
        """The wanted windows are taken before their measures are computed: another one of the same
        dates may fail."""
        starts, length = window_starts(closed), self.table.window.length
        on_dates = F.col("_event_date").isin(sorted(dates_of(starts, length)))
        rows = rows_within(inputs[BRONZE], stretches_of(starts, length), on_dates)
        wanted = in_windows(self.operator, self._assigned(rows), closed, "left_semi")
        return measured_windows(self.operator, self.exact, wanted, F.col("_window"))

    def ending_in(self, inputs: Inputs, first_end: datetime, last_end: datetime) -> DataFrame:
        stretch = Stretch(first_end - self.table.window.length, last_end)
        on_dates = F.col("_event_date").between(stretch.start.date(), stretch.end.date())
        computed = self._windows(rows_within(inputs[BRONZE], [stretch], on_dates))
        return computed.where(F.col("window_end").between(F.lit(first_end), F.lit(last_end)))

    def starting_in(self, inputs: Inputs, rows: RowRange) -> DataFrame:
        first_end = rows.first_start + self.table.window.length
        return self.ending_in(inputs, first_end, rows.last_end)

    def _windows(self, rows: DataFrame) -> DataFrame:
        if self.excluded is None or not self.excluded.num_rows:
            # By the window itself: the state's column is called by what is grouped by.
            return measured_windows(
                self.operator, self.exact, rows, event_window(self.table.window)
            )
        assigned = in_windows(self.operator, self._assigned(rows), self.excluded, "left_anti")
        return measured_windows(self.operator, self.exact, assigned, F.col("_window"))

    def _assigned(self, rows: DataFrame) -> DataFrame:
        """Each row once for each window that it is in: `_window`."""
        return rows.withColumn("_window", event_window(self.table.window))


def event_window(window: Window) -> Column:
    """The engine's window of each row's `_event_time`: of a row in several, one row for each."""
    length, slide = duration_text(window.length), duration_text(window.slide)
    return F.window("_event_time", length, slide, duration_text(window.offset))


def stretches_of(starts: Iterable[datetime], length: timedelta) -> list[Stretch]:
    """The event times that windows with these starts cover: few stretches, in order."""
    return joined(Stretch(start, start + length) for start in starts)


def in_windows(operator: Operator, assigned: DataFrame, windows: pa.Table, how: str) -> DataFrame:
    """The rows, each with the window that it is assigned to (`_window`), that are in these windows
    and keys, or in none of them. Null keys are keys."""
    identity = windows.select(list(operator.identity))
    listed = F.broadcast(frame_of(assigned.sparkSession, identity).alias("_listed"))
    same = [
        F.col("_window.start").eqNullSafe(F.col("_listed.window_start")),
        *[
            F.col(f"_assigned.`{key}`").eqNullSafe(F.col(f"_listed.`{key}`"))
            for key in operator.table.group_by
        ],
    ]
    return assigned.alias("_assigned").join(listed, same, how)


def measured_windows(
    operator: Operator,
    exact: bool,
    rows: DataFrame,
    window: Column,
    *more: str,
    counted: Mapping[str, str] = MappingProxyType({}),
) -> DataFrame:
    """One row for each window and key, with the window's `more` fields behind its bounds, and what
    is `counted` behind the table's measures."""
    keys = [F.col(f"`{key}`") for key in operator.table.group_by]
    grouped = rows.groupBy(window.alias("_window"), *keys)
    measures = {**operator.table.measures, **counted}
    return measured(grouped, measures, rows, exact).select(
        F.col("_window.start").alias("window_start"),
        F.col("_window.end").alias("window_end"),
        *[F.col(f"_window.{name}") for name in more],
        *keys,
        *[F.col(f"`{name}`") for name in measures],
        "rows",
        FAILURE,
    )
