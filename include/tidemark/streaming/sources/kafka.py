"""The engine's view of topics: batches as the driver planned them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.checkpoint.log import Checkpoint
from tidemark.pipeline.kafka_columns import OFFSET, PARTITION, TOPIC
from tidemark.sources.kafka.handle import KafkaSourceHandle
from tidemark.sources.kafka.offsets import OffsetRange, offset_text
from tidemark.streaming.sources.planned import planned_stream
from tidemark.streaming.sources.source import StreamedSource


@dataclass(frozen=True)
class StreamedTopics(StreamedSource):
    """Topics, whose offsets the checkpoint has as `sources/kafka/offsets.py` says."""

    placed: KafkaSourceHandle

    def stream(self, spark: SparkSession, ingest: Checkpoint) -> DataFrame:
        steps = [json.loads(offset_text(one)) for one in self.placed.steps(ingest)]
        return planned_stream(spark, steps)

    def is_from(self, parts: Sequence[str]) -> Column:
        return reduce(Column.__or__, map(_is_in, map(OffsetRange.of, parts)), F.lit(False))


def _is_in(one: OffsetRange) -> Column:
    own = (F.col(TOPIC) == one.topic) & (F.col(PARTITION) == one.partition)
    last = F.lit(True) if one.last is None else F.col(OFFSET) <= one.last
    return own & (F.col(OFFSET) >= one.first) & last
