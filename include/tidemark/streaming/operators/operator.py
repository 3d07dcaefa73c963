"""What Spark does for a table's operator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidemark.operators.operator import Operator
from tidemark.operators.row_range import RowRange
from tidemark.streaming.inputs import Inputs


@dataclass(frozen=True)
class StreamedOperator(ABC):
    """The Spark half of an operator, which is the other one.

    All four give rows in the columns of its identity and values; the last three are the same rows
    that `plan` gives in a batch, and read no more of the inputs than these need. A row without any
    input row is in none of them.
    """

    operator: Operator

    @abstractmethod
    def plan(self, inputs: Inputs) -> DataFrame:
        """The rows of the inputs' rows: of streams and of batches alike."""

    @abstractmethod
    def recompute(self, spark: SparkSession, inputs: Inputs, closed: pa.Table) -> DataFrame:
        """What was touched, computed again (`Touched.closed`)."""

    @abstractmethod
    def ending_in(self, inputs: Inputs, first_end: datetime, last_end: datetime) -> DataFrame:
        """All rows with first_end <= window_end <= last_end."""

    @abstractmethod
    def starting_in(self, inputs: Inputs, rows: RowRange) -> DataFrame:
        """All rows with first_start <= window_start <= last_start."""
