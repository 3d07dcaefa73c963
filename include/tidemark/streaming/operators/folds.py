"""Folds in Spark: the engine's own state and timers, and rows of bronze folded by key.

The class runs in Python workers either way, and by the same code (`operators/folds/folding.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from tidemark.errors import PipelineInvalid
from tidemark.operators.folds.folding import (
    FoldSpec,
    HeldRow,
    Output,
    folded_rows,
    folded_twice,
)
from tidemark.operators.folds.folds import Folds
from tidemark.operators.folds.loaded import load_fold
from tidemark.operators.folds.values import read_rows
from tidemark.operators.operator import BRONZE
from tidemark.operators.row_range import RowRange
from tidemark.operators.sessions.sessions import spans
from tidemark.pipeline.fold_rules import NUMBER, inexact, nested
from tidemark.pipeline.instants import epoch_us
from tidemark.pipeline.model import FoldTable
from tidemark.storage.delta.history import FAILURE
from tidemark.streaming.inputs import Inputs
from tidemark.streaming.operators.fold_processor import VARIABLE, FoldProcessor
from tidemark.streaming.operators.operator import StreamedOperator
from tidemark.streaming.operators.stretches import (
    Stretch,
    is_in_range,
    joined,
    rows_lying_in,
    rows_within,
)
from tidemark.streaming.state.stored import StateOf

_TIME = "_time"
_TICK = timedelta(microseconds=1)

# The fold of one key's rows, up to a frontier in microseconds.
Fold = Callable[[FoldSpec, Sequence[HeldRow], int | None], list[Output]]


@dataclass(frozen=True)
class StreamedFolds(StreamedOperator):
    """The outputs of one table. Nothing is set aside: what fails in the class fails no query."""

    operator: Folds

    @property
    def table(self) -> FoldTable:
        return self.operator.table

    @classmethod
    def state(cls, side: str | None) -> StateOf | None:
        return StateOf(named=(("stateVarName", VARIABLE),)) if side is None else None

    def columns(self, inputs: Inputs) -> T.StructType:
        """Told without a plan; PipelineInvalid where the class is no fold, or a key is of a type
        that none can be."""
        load_fold(self.table.fold.python, self.table.code)
        keys = [inputs[BRONZE].schema[key] for key in self.table.group_by]
        for key in keys:
            if why := _why_no_key(key.dataType):
                raise PipelineInvalid(
                    f"A key of the fold {self.table.fold.python}, `{key.name}`, {why}"
                )
        emitted = [
            T.StructField(name, T.DataType.fromDDL(kind))
            for name, kind in self.table.fold.emits.items()
        ]
        times = [T.StructField(name, T.TimestampType()) for name in ("window_start", "window_end")]
        number, rows = (T.StructField(name, T.LongType()) for name in (NUMBER, "rows"))
        return T.StructType([*times, *keys, number, *emitted, rows])

    def plan(self, inputs: Inputs) -> DataFrame:
        rows = inputs[BRONZE]
        if not rows.isStreaming:
            return self._folded(inputs, rows, self._frontier_us, folded_rows)
        spec = self.operator.spec(rows.columns)
        schema = self._output_schema(inputs)
        given = self._given(rows, spec, "_event_time")
        processor = FoldProcessor(spec, self._kinds(given, spec), schema.names)
        outputs = given.groupBy(*self._keys).transformWithState(
            processor, schema, "append", "EventTime"
        )
        return self._shown(outputs)

    def recompute(self, inputs: Inputs, closed: pa.Table) -> DataFrame:
        whole = joined(Stretch(start, end) for start, end in spans(closed))
        rows = rows_lying_in(rows_within(inputs[BRONZE], whole), closed, self.table.group_by)
        return self._folded(inputs, rows, self._frontier_us, folded_rows)

    def ending_in(self, inputs: Inputs, first_end: datetime, last_end: datetime) -> DataFrame:
        computed = self._folded(inputs, inputs[BRONZE], epoch_us(last_end), folded_rows)
        return computed.where(F.col("window_end").between(F.lit(first_end), F.lit(last_end)))

    def starting_in(self, inputs: Inputs, rows: RowRange) -> DataFrame:
        """Folded twice: audits and backfills see a class that is not deterministic. A row a timeout
        before the range tells that what follows it did not start there."""
        stretch = Stretch(rows.first_start - self.operator.gap, rows.last_end + _TICK)
        within = rows_within(inputs[BRONZE], [stretch])
        computed = self._folded(inputs, within, epoch_us(rows.last_end), folded_twice)
        return computed.where(is_in_range(rows))

    @property
    def _keys(self) -> list[str]:
        return [f"`{key}`" for key in self.table.group_by]

    @property
    def _frontier_us(self) -> int | None:
        return None if self.up_to_ms is None else self.up_to_ms * 1_000

    def _kinds(self, given: DataFrame, spec: FoldSpec) -> tuple[pa.DataType, ...]:
        """The types in which Arrow has the columns of a fold's rows."""
        names = [f"`{name}`" for name in spec.columns]
        schema = to_arrow_schema(given.select(*names).schema, timezone="UTC")
        return tuple(field.type for field in schema)

    def _given(self, rows: DataFrame, spec: FoldSpec, *others: str) -> DataFrame:
        """What a fold takes of rows: its columns in their order, those that they lack null, and the
        time in microseconds."""
        columns = [
            F.col(f"`{name}`") if name in rows.columns
            else F.lit(None).cast("string").alias(name)
            for name in spec.columns
        ]  # fmt: skip
        return rows.select(*columns, F.unix_micros("_event_time").alias(_TIME), *others)

    def _folded(self, inputs: Inputs, rows: DataFrame, up_to: int | None, fold: Fold) -> DataFrame:
        spec = self.operator.spec(inputs[BRONZE].columns)
        given = self._given(rows, spec)
        schema = self._output_schema(inputs)
        arrow = to_arrow_schema(schema, timezone="UTC")
        # A function: of an object that can be called, the engine counts `self` as an argument.
        one_key = _key_folded(spec, self.table.group_by, up_to, fold, arrow)
        return self._shown(given.groupBy(*self._keys).applyInArrow(one_key, schema))

    def _output_schema(self, inputs: Inputs) -> T.StructType:
        """The columns in which tasks give outputs: times in microseconds."""
        schema = self.columns(inputs)
        fields = [
            T.StructField(one.name, T.LongType()) if one.name in ("window_start", "window_end")
            else one
            for one in schema.fields
        ]  # fmt: skip
        return T.StructType([*fields, T.StructField(FAILURE, T.StringType())])

    def _shown(self, outputs: DataFrame) -> DataFrame:
        times = {name: F.timestamp_micros(F.col(name)) for name in ("window_start", "window_end")}
        return outputs.withColumns(times)


def _why_no_key(kind: T.DataType) -> str | None:
    if isinstance(kind, T.FloatType | T.DoubleType):
        return inexact()
    if isinstance(kind, T.StructType | T.ArrayType | T.MapType):
        return nested()
    return None


def _key_folded(
    spec: FoldSpec, keys: Sequence[str], up_to: int | None, fold: Fold, schema: pa.Schema
) -> Callable[[pa.Table], pa.Table]:
    """What a task does with all rows of one key."""

    def folded(rows: pa.Table) -> pa.Table:
        times: list[Any] = rows.column(_TIME).to_pylist()
        values = read_rows([rows.column(name) for name in spec.columns])
        held = [HeldRow(*row) for row in zip(times, values, strict=True)]
        outputs = fold(spec, held, up_to)
        emitted = {
            name: [one.values[place] for one in outputs] for place, name in enumerate(spec.emits)
        }
        by_name: dict[str, list[Any]] = {
            "window_start": [one.start for one in outputs],
            "window_end": [one.end for one in outputs],
            **{key: [rows.column(key)[0].as_py()] * len(outputs) for key in keys},
            NUMBER: [one.number for one in outputs],
            **emitted,
            "rows": [one.rows for one in outputs],
            FAILURE: [one.failure for one in outputs],
        }
        columns = [pa.array(by_name[field.name], field.type) for field in schema]
        return pa.table(columns, schema=schema)

    return folded
