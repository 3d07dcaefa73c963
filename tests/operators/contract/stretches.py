"""Stretches: a second kind of operator, so that the seam does not take the shape of windows.

Within each window a key's rows that are no further apart than `gap` are one row of gold; it begins
with the first of them and ends, for the frontier, with the window. So a late row can make a
stretch begin earlier, lengthen it, or join two of them: rows of gold merge, and go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from tidemark.gold.row_values import dates_predicate
from tidemark.operators.kinds import operator_for
from tidemark.operators.operator import BRONZE, Covered, Equation, Operator
from tidemark.operators.row_range import RowRange
from tidemark.operators.windows.windows import Windows
from tidemark.pipeline.difference import ChangeVerdict, Difference
from tidemark.pipeline.model import Source, Table, WindowTable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from tidemark.streaming.inputs import Inputs

_TICK = timedelta(microseconds=1)


class StretchTable(WindowTable):
    """The stretches of each key, in windows that do not overlap."""

    gap: timedelta
    # Of an open window any stretch may still merge: only what is closed is emitted.
    output_mode: Literal["append"] = "append"


@dataclass(frozen=True)
class Stretches(Windows):
    """Late rows, counts and the seal are those of the windows around the stretches."""

    table: StretchTable

    @property
    def values(self) -> tuple[str, ...]:
        return ("window_end", "last", "rows")

    @property
    def equation(self) -> Equation | None:
        return None

    def most_emitted(self, rows: int) -> int | None:
        return rows

    def covered(self, closed: pa.Table) -> Covered:
        length = self.table.window.length // _TICK
        same = "".join(
            f' AND k."{key}" IS NOT DISTINCT FROM t."{key}"' for key in self.table.group_by
        )
        within = f"""
            epoch_us(k.window_start) >= epoch_us(t.window_start)
            AND epoch_us(k.window_start) < epoch_us(t.window_start) + {length}
        """
        starts = closed.column("window_start").to_pylist()
        days = {day for start in starts for day in (start, start + self.table.window.length)}
        return Covered(
            f"EXISTS (SELECT 1 FROM touched t WHERE {within} {same})",
            closed,
            dates_predicate(tuple(sorted({day.date() for day in days}))),
        )

    def covered_ending(self, first_end: datetime, last_end: datetime) -> Covered:
        ends = " AND ".join(f"TIMESTAMPTZ '{end.isoformat()}'" for end in (first_end, last_end))
        first, last = (first_end - self.table.window.length).date(), last_end.date()
        dates = f"window_date BETWEEN DATE '{first}' AND DATE '{last}'"
        return Covered(f"k.window_end BETWEEN {ends}", pa.table({"none": []}), dates)

    def starting_in(self, start: datetime, end: datetime) -> RowRange | None:
        """All stretches of the windows that start in the range."""
        found = super().starting_in(start, end)
        return found and replace(found, last_start=found.last_end - _TICK)

    def definition_changes(self, query: str, asked: Table) -> Iterator[Difference]:
        assert isinstance(asked, StretchTable)
        yield from super().definition_changes(query, asked)
        if asked.gap != self.table.gap:
            gaps = str(self.table.gap), str(asked.gap)
            reason = "The table holds the stretches as they were"
            yield Difference(query, "gap", *gaps, ChangeVerdict.NEW_GENERATION, reason)


@dataclass(frozen=True)
class StreamedStretches:
    """Their Spark half: a window's times of a key, folded in their order."""

    table: StretchTable

    def plan(self, inputs: Inputs) -> DataFrame:
        return self._stretches(inputs[BRONZE])

    def recompute(self, spark: SparkSession, inputs: Inputs, closed: pa.Table) -> DataFrame:
        from pyspark.sql import functions as F

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
        from pyspark.sql import functions as F

        ends = F.lit(first_end), F.lit(last_end)
        return self._stretches(inputs[BRONZE]).where(F.col("window_end").between(*ends))

    def starting_in(self, inputs: Inputs, rows: RowRange) -> DataFrame:
        return self.ending_in(inputs, rows.first_start + self.table.window.length, rows.last_end)

    def _window(self) -> Column:
        from pyspark.sql import functions as F

        from tidemark.pipeline.durations import duration_text

        return F.window("_event_time", duration_text(self.table.window.length))

    def _stretches(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

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
        )

    def _folded(self) -> Column:
        from pyspark.sql import functions as F

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


@operator_for.register
def _(table: StretchTable, source: Source) -> Operator:
    return Stretches(source.event_time.column, table)


def register_in_spark() -> None:
    """Make the Spark half known; apart, so that what needs no Spark loads none."""
    from tidemark.streaming.operators.operator import StreamedOperator, streamed

    def half(operator: Stretches) -> StreamedOperator:
        return StreamedStretches(operator.table)

    streamed.register(Stretches, half)
