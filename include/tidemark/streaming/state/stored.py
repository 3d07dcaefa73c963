"""Read a query's state after a batch, with the engine's own reader (the source `statestore`)."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.checkpoint.reading.state_files import DEFAULT_STORE
from tidemark.pipeline.settings.storage_options import spark_uri

# Times whole: by default their microseconds are cut off.
_AS_TEXT = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
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
    sums = rows.groupBy("partition_id").agg(F.count("*"), F.sum(_hashed(rows)))
    return {partition: (count, int(total)) for partition, count, total in sums.collect()}


@dataclass(frozen=True)
class Held:
    """What a store holds, in whichever partitions: so many rows, a sum of what they hold, and how
    many of them lie in another partition than the engine looks for them in."""

    rows: int
    total: int
    astray: int


def held(rows: DataFrame, partitions: int, by: slice) -> Held:
    """What `stored_rows` hold that lie in so many partitions by these columns of their keys.

    The engine gives rows to partitions by HashPartitioning: Murmur3 of the columns, modulo.
    """
    columns = [F.col(f"key.`{name}`") for name in rows.select("key.*").columns[by]]
    astray = F.pmod(F.hash(*columns), F.lit(partitions)) != F.col("partition_id")
    asked = F.count("*"), F.sum(_hashed(rows)), F.count_if(astray)
    ((count, total, elsewhere),) = rows.agg(*asked).collect()
    return Held(count, int(total or 0), elsewhere)


def _hashed(rows: DataFrame) -> Column:
    # As text: hashes of columns leave nulls out, and know no maps.
    columns = [name for name in rows.columns if name != "partition_id"]
    text = F.to_json(F.struct(*columns), _AS_TEXT)
    return F.xxhash64(text).cast("decimal(38,0)")
