"""The Spark half of stretches; apart, so that what needs no Spark loads none."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tests.operators.contract.stretches import Stretches, StretchTable
from tidemark.operators.operator import BRONZE
from tidemark.operators.row_range import RowRange
from tidemark.pipeline.durations import duration_text
from tidemark.storage.delta.history import FAILURE
from tidemark.streaming.inputs import Inputs
from tidemark.streaming.operators.kinds import STREAMED
from tidemark.streaming.operators.operator import StreamedOperator

_TICK = timedelta(microseconds=1)


@dataclass(frozen=True)
class StreamedStretches(StreamedOperator):
    """A window's times of a key, folded in their order."""

    operator: Stretches

    @property
    def table(self) -> StretchTable:
        return self.operator.table

    def plan(self, inputs: Inputs) -> DataFrame:
        return self._stretches(inputs[BRONZE])

    def recompute(self, inputs: Inputs, closed: pa.Table) -> DataFrame:
        spark = inputs[BRONZE].sparkSession
        wanted = F.broadcast(spark.createDataFrame(closed).alias("wanted"))
        rows = inputs[BRONZE].withColumn("_start", self._window()["start"]).alias("rows")
        same = [
            F.col("rows._start") == F.col("wanted.window_start"),
            *[
                F.col(f"rows.`{key}`").eqNullSafe(F.col(f"wanted.`{key}`"))
                for key in self.table.group_by
            ],
        ]
        return self._stretches(rows.join(wanted, same, "left_semi"))

    def ending_in(self, inputs: Inputs, first_end: datetime, last_end: datetime) -> DataFrame:
        ends = F.lit(first_end), F.lit(last_end)
        return self._stretches(inputs[BRONZE]).where(F.col("window_end").between(*ends))

    def starting_in(self, inputs: Inputs, rows: RowRange) -> DataFrame:
        return self.ending_in(inputs, rows.first_start + self.table.window.length, rows.last_end)

    def _window(self) -> Column:
        return F.window("_event_time", duration_text(self.table.window.length))

    def _stretches(self, rows: DataFrame) -> DataFrame:
        keys = [F.col(f"`{key}`") for key in self.table.group_by]
        times = F.sort_array(F.collect_list(F.unix_micros("_event_time"))).alias("_times")
        grouped = rows.groupBy(self._window().alias("_window"), *keys).agg(times)
        found = grouped.select(
            F.col("_window.end").alias("window_end"), *keys, F.inline(self._folded())
        )
        return found.select(
            F.timestamp_micros("first").alias("window_start"),
            "window_end",
            *[F.col(f"`{key}`") for key in self.table.group_by],
            F.timestamp_micros("last").alias("last"),
            "rows",
            F.lit(None).cast("string").alias(FAILURE),
        )

    def _folded(self) -> Column:
        gap, kind = self.table.gap // _TICK, "struct<first:bigint,last:bigint,rows:bigint>"

        def add(stretches: Column, time: Column) -> Column:
            newest = F.try_element_at(stretches, F.lit(-1))
            longer = F.struct(newest["first"], time, newest["rows"] + 1).cast(kind)
            others = F.slice(stretches, F.lit(1), F.size(stretches) - 1)
            alone = F.struct(time, time, F.lit(1).cast("bigint")).cast(kind)
            near = F.coalesce(time - newest["last"] <= gap, F.lit(False))
            return F.when(near, F.concat(others, F.array(longer))).otherwise(
                F.concat(stretches, F.array(alone))
            )

        return F.aggregate("_times", F.array().cast(f"array<{kind}>"), add)


STREAMED[Stretches] = StreamedStretches
