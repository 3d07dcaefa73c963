"""What a source is to Spark: the stream that plans its batches.

Rows are read by the names of their parts (`SourceHandle.slices`), not through the stream's own
DataFrame: that is what lets one bad part be found and left out, and a batch be read again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession

from tidemark.checkpoint.log import Checkpoint
from tidemark.sources.source import SourceHandle


@dataclass(frozen=True)
class StreamedSource(ABC):
    """The Spark half of a source; `placed` is the other."""

    placed: SourceHandle

    @abstractmethod
    def stream(self, spark: SparkSession, ingest: Checkpoint) -> DataFrame:
        """The source as a stream, which goes on from the ingest's checkpoint. Only its planning of
        batches is used, its rows are not."""

    @abstractmethod
    def is_from(self, parts: Sequence[str]) -> Column:
        """Does a row of bronze come from one of these parts?"""
