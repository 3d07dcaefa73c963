"""What Spark does for a table's operator, and which module does it for which kind."""

from __future__ import annotations

from datetime import datetime
from functools import singledispatch
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidemark.operators.operator import Operator
from tidemark.operators.row_range import RowRange
from tidemark.operators.windows.windows import Windows
from tidemark.streaming.inputs import Inputs
from tidemark.streaming.operators.windows import StreamedWindows


class StreamedOperator(Protocol):
    """The Spark half of an operator. All four give rows in the columns of its identity and values;
    the last three are the same rows that `plan` gives in a batch, and read no more of the inputs
    than these need. A row without any input row is in none of them.
    """

    def plan(self, inputs: Inputs) -> DataFrame:
        """The rows of the inputs' rows: of streams and of batches alike."""
        ...

    def recompute(self, spark: SparkSession, inputs: Inputs, closed: pa.Table) -> DataFrame:
        """What was touched, computed again (`Touched.closed`)."""
        ...

    def ending_in(self, inputs: Inputs, first_end: datetime, last_end: datetime) -> DataFrame:
        """All rows with first_end <= window_end <= last_end."""
        ...

    def starting_in(self, inputs: Inputs, rows: RowRange) -> DataFrame:
        """All rows with first_start <= window_start <= last_start."""
        ...


@singledispatch
def streamed(operator: Operator) -> StreamedOperator:
    """The Spark half of an operator."""
    raise NotImplementedError(f"Spark has no plan for {type(operator).__name__}.")


@streamed.register
def _windows(operator: Windows) -> StreamedOperator:
    return StreamedWindows(operator.table)
