"""The engine's view of a Delta table: batches as the driver planned them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.checkpoint.log import Checkpoint
from tidemark.pipeline.delta_columns import FILE, VERSION
from tidemark.sources.delta.handle import DeltaSourceHandle
from tidemark.sources.delta.offsets import DeltaPart
from tidemark.streaming.sources.planned import planned_stream
from tidemark.streaming.sources.source import StreamedSource


@dataclass(frozen=True)
class StreamedTable(StreamedSource):
    """A table, whose versions the checkpoint has as `sources/delta/offsets.py` says."""

    placed: DeltaSourceHandle

    def stream(self, spark: SparkSession, ingest: Checkpoint) -> DataFrame:
        steps = [json.loads(one.text) for one in self.placed.steps(ingest)]
        return planned_stream(spark, steps)

    def is_from(self, parts: Sequence[str]) -> Column:
        return reduce(Column.__or__, map(_is_in, map(DeltaPart.of, parts)), F.lit(False))


def _is_in(part: DeltaPart) -> Column:
    version = F.col(VERSION)
    if part.file:
        return (version == part.version) & (F.col(FILE) == part.file)
    if part.is_open:
        return version >= part.version
    return version.between(part.version, part.version if part.last is None else part.last)
