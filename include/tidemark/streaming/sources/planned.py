"""A stream whose batches were planned before it began: the engine logs them, and reads nothing.

The engine asks for offsets in a Python process of its own. What it answers was decided by the
driver, where the source was asked: so there is one client, one login, and errors have their names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

_NAME = "tidemark_planned"


class _Planned(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """After an offset that is among the steps comes the next one, after any other the first; after
    the last one nothing."""

    def __init__(self, steps: list[dict[str, Any]]) -> None:
        self._steps = steps

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """All is planned already."""

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """A batch for each step, whatever is in it."""
        return ReadAllAvailable()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Before all."""
        return {}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The next step."""
        if start not in self._steps:
            return self._steps[0] if self._steps else start
        place = self._steps.index(start)
        return self._steps[min(place + 1, len(self._steps) - 1)]

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """None with rows."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        """Nothing: rows are read by the names of their parts."""
        return iter(())


class _PlannedSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return _NAME

    def schema(self) -> str:
        return "value string"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return _Planned(json.loads(self.options["steps"]))


def planned_stream(spark: SparkSession, steps: Sequence[Mapping[str, Any]]) -> DataFrame:
    """A stream with a batch up to each of these offsets (JSON objects), in their order. A batch
    that an earlier run planned and did not commit runs again first, as it was planned."""
    spark.dataSource.register(_PlannedSource)
    reader = spark.readStream.format(_NAME).option("steps", json.dumps(list(steps)))
    return reader.load()
