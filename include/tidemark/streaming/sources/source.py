"""What a source is to Spark: the stream that plans its batches, and the rows of a slice.

Rows are read by the names of their parts, not through the stream's own DataFrame: that is what
lets one bad part be found and left out, and a batch be read again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession

from tidemark.checkpoint.log import Checkpoint
from tidemark.sources.source import PlacedSource, Reading


@dataclass(frozen=True)
class StreamedSource(ABC):
    """The Spark half of a source; `placed` is the other."""

    placed: PlacedSource

    @abstractmethod
    def stream(self, spark: SparkSession) -> DataFrame:
        """The source as a stream. Only its planning of batches is used, its rows are not."""

    @abstractmethod
    def lines(self, spark: SparkSession, parts: Sequence[str]) -> DataFrame:
        """The rows of these parts: `_value` (a line's bytes as they are, as text) and the origin's
        columns. Where a part cannot be read, reading them fails in the engine."""

    @abstractmethod
    def without_unreadable(
        self, spark: SparkSession, ingest: Checkpoint, batch: int, reading: Reading, repeated: bool
    ) -> Reading:
        """After reading failed: the same with verdicts on what cannot be read to its end.

        `repeated`: bronze of the batch is committed, so that such a part is one that changed since.
        Raises the engine's error where the fault is not a part's own.
        """

    @abstractmethod
    def is_from(self, parts: Sequence[str]) -> Column:
        """Does a row of bronze come from one of these parts?"""
