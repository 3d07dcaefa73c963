"""A query of Spark's over a topic, by Spark's own connector, run once to the end of what is there.

In a process of its own: the connector's jars are on no other class path.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

_STATE = "spark.sql.streaming.stateStore."
STORES = {
    "hdfs": {f"{_STATE}unloadOnCommit": "true", f"{_STATE}minDeltasForSnapshot": "2"},
    "rocksdb": {
        f"{_STATE}providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        )
    },
}
# Of the topic's messages so many are a batch.
A_BATCH = 6


def main(folder: str, servers: str, topic: str, store: str, sink: str) -> None:
    builder: Any = SparkSession.builder
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.ui.enabled": "false",
        **STORES[store],
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.master("local[2]").getOrCreate()
    messages = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", A_BATCH)
        .load()
    )
    rows = messages.select(
        F.from_json(F.col("value").cast("string"), "at timestamp, key string, amount long").alias(
            "row"
        )
    ).select("row.*")
    counted = (
        rows.withWatermark("at", "5 minutes")
        .groupBy(F.window("at", "10 minutes"), "key")
        .agg(F.count("*").alias("rows"), F.sum("amount").alias("amount"))
    )
    writer = counted.writeStream.format(sink).option("path", f"{folder}/out")
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()
    found = spark.read.format(sink).load(f"{folder}/out").collect()
    print("\n".join(sorted(map(repr, found))), file=pathlib.Path(f"{folder}/rows.txt").open("w"))  # noqa: SIM115
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
