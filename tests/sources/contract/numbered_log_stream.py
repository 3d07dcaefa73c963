"""The Spark half of the numbered log: its stream is a data source in Python."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tests.sources.contract.numbered_log import ENDS, PlacedLog, Span
from tidemark.checkpoint.log import Checkpoint
from tidemark.streaming.sources import streams
from tidemark.streaming.sources.streams import StreamedSource


class LogPlan(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches, all that is there when the query starts in one, and reads nothing."""

    def __init__(self, folder: str) -> None:
        self._ends = Path(folder) / ENDS
        self._target: dict[str, int] = {}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = json.loads(self._ends.read_text())

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        return self._target

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        return iter(())


class LogData(DataSource):
    @classmethod
    def name(cls) -> str:
        return "numbered_log"

    def schema(self) -> str:
        return "value string"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return LogPlan(self.options["folder"])


@dataclass(frozen=True)
class StreamedLog(StreamedSource):
    placed: PlacedLog

    def stream(self, spark: SparkSession, ingest: Checkpoint) -> DataFrame:
        spark.dataSource.register(LogData)
        reader = spark.readStream.format("numbered_log")
        return reader.option("folder", str(self.placed.folder)).load()

    def is_from(self, parts: Sequence[str]) -> Column:
        spans = [Span.of(part) for part in parts]
        each = [
            (F.col("_partition") == span.partition)
            & F.col("_offset").between(span.first, span.last)
            for span in spans
        ]
        return reduce(lambda left, right: left | right, each, F.lit(False))


streams.STREAMED[PlacedLog] = StreamedLog
