"""Read a query's state after a batch, with the engine's own reader (the source `statestore`)."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.checkpoint.reading.state_files import DEFAULT_STORE
from tidemark.pipeline.settings.storage_options import spark_uri

# By partition: how many rows of state, and a sum of what they hold.
Digest = dict[int, tuple[int, int]]


@dataclass(frozen=True)
class StateOf:
    """Whose state: of an operator by its number in the query, and the options of the engine's
    reader that name the store or the variable (`stateVarName`)."""

    operator: int = 0
    named: tuple[tuple[str, str], ...] = (("storeName", DEFAULT_STORE),)


def stored_rows(spark: SparkSession, checkpoint: str, batch: int, of: StateOf) -> DataFrame:
    """The rows that are held after a committed batch: key, value (structs), partition_id.

    The engine loads the version that the batch left, as a start after it would; nothing is changed.
    """
    # The engine's coordinator of stores, which the reader asks, starts with this list.
    assert spark.streams.active is not None
    reader = spark.read.format("statestore").option("batchId", batch)
    options = {"operatorId": str(of.operator), **dict(of.named)}
    return reader.options(**options).load(spark_uri(checkpoint))


def digest(rows: DataFrame) -> Digest:
    """What `stored_rows` hold, whatever their order: equal for equal rows in equal partitions."""
    # As text: hashes of columns leave nulls out, and know no maps.
    text = F.to_json(F.struct("key", "value"), {"ignoreNullFields": "false"})
    number = F.xxhash64(text).cast("decimal(38,0)")
    sums = rows.groupBy("partition_id").agg(F.count("*"), F.sum(number))
    return {partition: (count, int(total)) for partition, count, total in sums.collect()}
