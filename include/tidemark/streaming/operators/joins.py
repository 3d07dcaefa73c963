"""Joins in Spark: the engine's own join of two streams with a window behind it, and the same in a
batch over known windows.

The other pipeline's columns are the fields of a struct that has its name; of a row that matches
nothing it is null.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.errors import SourceNotFound
from tidemark.operators.joins.joins import Joins
from tidemark.operators.operator import BRONZE
from tidemark.operators.row_range import RowRange
from tidemark.operators.windows.in_duckdb import window_starts
from tidemark.pipeline.expressions.sql import names_read
from tidemark.pipeline.join_rules import MATCHES
from tidemark.pipeline.model import JoinTable
from tidemark.pipeline.names import same_column
from tidemark.streaming.inputs import Inputs
from tidemark.streaming.operators.operator import StreamedOperator
from tidemark.streaming.operators.stretches import Stretch, is_in_range, joined, rows_within
from tidemark.streaming.operators.windows import (
    event_window,
    in_windows,
    measured_windows,
    stretches_of,
)
from tidemark.streaming.state.stored import StateOf

_OTHER_TIME = "_other_time"
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class StreamedJoins(StreamedOperator):
    """The windows of one table over joined rows."""

    operator: Joins

    @property
    def table(self) -> JoinTable:
        return self.operator.table

    def left_columns(self, known: Iterable[str]) -> list[str]:
        """Those of this pipeline's columns that the table needs: keys, what is joined on, and what
        measures read."""
        asked = {*self.table.group_by, *self.table.join.on}
        asked |= {parts[0] for parts in self._read() if not self._is_of_other(parts)}
        return [name for name in known if any(same_column(one, name) for one in asked)]

    def right_columns(self, known: Iterable[str]) -> list[str]:
        """Those of the other pipeline's columns that the table needs."""
        asked = {*self.table.join.on.values(), *(one[1] for one in self._read_of_other())}
        return [name for name in known if any(same_column(one, name) for one in asked)]

    def _read(self) -> list[tuple[str, ...]]:
        return [parts for sql in self.table.measures.values() for parts in names_read(sql) if parts]

    def _read_of_other(self) -> list[tuple[str, ...]]:
        return [one for one in self._read() if self._is_of_other(one) and one[1:]]

    def _is_of_other(self, parts: tuple[str, ...]) -> bool:
        return same_column(parts[0], self.table.join.other)

    @classmethod
    def state(cls, side: str | None) -> StateOf:
        """The windows, or the rows of a side that may match yet, with whether they have matched:
        of format 2 the store that has both."""
        if side is None:
            return StateOf()
        return StateOf(1, (("storeName", f"{side}-keyWithIndexToValue"),))

    def plan(self, inputs: Inputs) -> DataFrame:
        """What is set aside is left out behind the join: the state of that has no windows."""
        both = self._joined(self._left(inputs[BRONZE]), self._right(inputs[self.operator.other]))
        if self.excluded is None or not self.excluded.num_rows:
            return self._measured(both, event_window(self.table.window))
        assigned = both.withColumn("_window", event_window(self.table.window))
        kept = in_windows(self.operator, assigned, self.excluded, "left_anti")
        return self._measured(kept, F.col("_window"))

    def recompute(self, inputs: Inputs, closed: pa.Table) -> DataFrame:
        starts, length = window_starts(closed), self.table.window.length
        stretches = stretches_of(starts, length)
        left = self._assigned(rows_within(inputs[BRONZE], stretches))
        wanted = in_windows(self.operator, left, closed, "left_semi")
        right = rows_within(inputs[self.operator.other], self._reached(stretches))
        return self._measured(self._joined(wanted, self._right(right)), F.col("_window"))

    def ending_in(self, inputs: Inputs, first_end: datetime, last_end: datetime) -> DataFrame:
        length = self.table.window.length
        rows = RowRange(first_end - length, last_end - length, last_end)
        return self.starting_in(inputs, rows)

    def starting_in(self, inputs: Inputs, rows: RowRange) -> DataFrame:
        last = rows.last_start + self.table.window.length
        stretches = [Stretch(rows.first_start, last)]
        left = rows_within(inputs[BRONZE], stretches)
        right = rows_within(inputs[self.operator.other], self._reached(stretches))
        within = is_in_range(rows, "_window.start", "_window.end")
        assigned = self._assigned(left).where(within)
        if self.excluded is not None and self.excluded.num_rows:
            assigned = in_windows(self.operator, assigned, self.excluded, "left_anti")
        return self._measured(self._joined(assigned, self._right(right)), F.col("_window"))

    def _reached(self, stretches: list[Stretch]) -> list[Stretch]:
        """Where the right side's rows lie that match left rows of these stretches."""
        within = self.table.join.within
        return joined(
            Stretch(one.start - within.before, one.end + within.after + _MICROSECOND)
            for one in stretches
        )

    def _left(self, rows: DataFrame) -> DataFrame:
        return rows.select("_event_time", *map(_quoted, self.left_columns(rows.columns)))

    def _right(self, rows: DataFrame) -> DataFrame:
        """Its time, what it is joined on, and all columns that measures read as one struct.
        SourceNotFound where its bronze lacks one of these yet."""
        self._check_there(rows.columns)
        ons = [
            _quoted(name).alias(f"_other_on_{number}")
            for number, name in enumerate(self.table.join.on.values())
        ]
        columns = [_quoted(name) for name in self.right_columns(rows.columns)]
        return rows.select(
            F.col("_event_time").alias(_OTHER_TIME),
            *ons,
            F.struct(*columns).alias(self.table.join.other),
        )

    def _check_there(self, known: Sequence[str]) -> None:
        asked = dict.fromkeys(
            (*self.table.join.on.values(), *(one[1] for one in self._read_of_other()))
        )
        lacking = [one for one in asked if not any(same_column(one, name) for name in known)]
        if lacking:
            other = self.table.join.other
            raise SourceNotFound(
                f"The bronze of {other} has no column {', '.join(map(repr, lacking))} yet, which a "
                "table reads that joins with it: the next run of that pipeline adds what its file "
                f"has. What is in bronze stays. Run {other} first, then this one again."
            )

    def _joined(self, left: DataFrame, right: DataFrame) -> DataFrame:
        within = self.table.join.within
        time, other = F.col("_event_time"), F.col(_OTHER_TIME)
        low = time - F.expr(f"interval {within.before // _MICROSECOND} microseconds")
        high = time + F.expr(f"interval {within.after // _MICROSECOND} microseconds")
        matches = (other >= low) & (other <= high)
        for number, name in enumerate(self.table.join.on):
            matches = matches & (_quoted(name) == F.col(f"_other_on_{number}"))
        return left.join(right, matches, "inner" if self.table.join.type == "inner" else "left")

    def _assigned(self, rows: DataFrame) -> DataFrame:
        """Each left row once for each window that it is in: `_window`."""
        return self._left(rows).withColumn("_window", event_window(self.table.window))

    def _measured(self, rows: DataFrame, window: Column) -> DataFrame:
        matches = {MATCHES: f"count({_OTHER_TIME})"}
        return measured_windows(self.operator, self.exact, rows, window, counted=matches)


def _quoted(name: str) -> Column:
    return F.col(f"`{name}`")
