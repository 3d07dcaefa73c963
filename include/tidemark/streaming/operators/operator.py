"""What Spark does for a table's operator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from tidemark.operators.operator import Operator
from tidemark.operators.row_range import RowRange
from tidemark.pipeline.settings.state import PROVIDER, provider_class
from tidemark.storage.delta.history import FAILURE
from tidemark.streaming.inputs import Inputs
from tidemark.streaming.state.stored import StateOf


@dataclass(frozen=True)
class StreamedOperator(ABC):
    """The Spark half of an operator, which is the other one.

    All four give rows in the columns of its identity and values, and FAILURE; the last three are
    the same rows that `plan` gives in a batch, and read no more of the inputs than these need. A
    row without any input row is in none of them. `excluded`, which has the columns of
    `Touched.closed`, is left out of all but `recompute`: input rows go into none of it. Rows that
    end after `up_to_ms` are not wanted, and need not be right.

    Sums of longs are exact in a batch whatever the order of its rows (`exact_sums.py`). A stream's
    are not, for its state has longs: `exact` false is for a batch that fails as a stream does.

    What fails when a measure is evaluated is null, and FAILURE says so. What fails before that, on
    an input row or while values are put together, fails the query.
    """

    operator: Operator
    excluded: pa.Table | None = None
    up_to_ms: int | None = None
    exact: bool = True

    @property
    def settings(self) -> Mapping[str, str]:
        """Settings of Spark that the streaming query has to start with."""
        store = self.operator.table.state_store
        return {PROVIDER: provider_class(store)} if store else {}

    @classmethod
    def state(cls, side: str | None) -> StateOf | None:
        """Where the query keeps what it remembers of each key, or of a side of a join (`left`,
        `right`); None where it has no sides."""
        return StateOf() if side is None else None

    def columns(self, inputs: Inputs) -> StructType:
        """Those of the identity and values, as Spark types them."""
        return self.plan(inputs).drop(FAILURE).schema

    @abstractmethod
    def plan(self, inputs: Inputs) -> DataFrame:
        """The rows of the inputs' rows: of streams and of batches alike."""

    @abstractmethod
    def recompute(self, inputs: Inputs, closed: pa.Table) -> DataFrame:
        """What was touched, computed again (`Touched.closed`)."""

    @abstractmethod
    def ending_in(self, inputs: Inputs, first_end: datetime, last_end: datetime) -> DataFrame:
        """All rows with first_end <= window_end <= last_end."""

    @abstractmethod
    def starting_in(self, inputs: Inputs, rows: RowRange) -> DataFrame:
        """All rows with first_start <= window_start <= last_start."""
