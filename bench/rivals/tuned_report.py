"""What the engine's streams cannot keep, by hand: local days, distinct counts, a lookup.

    SPARK_SUBMIT_OPTS='…' spark-submit tuned_report.py INPUT ROOT KIND

    KIND: days, distinct, lookup or large_lookup

With the settings of `tuned.py`. Each batch of new rows tells which windows it touches; these are
computed again from all raw rows, of which files of other times are skipped, and merged into gold.
What it leaves to its author: a batch that dies between its commit and its merge, rows that are
counted twice, and a dimension that changes.
"""

import sys

from delta.tables import DeltaTable
from pyspark.sql import functions as F
from tuned_session import STREAMING, ingest, tuned_session

source, root, kind = sys.argv[1:]
raw, gold, checkpoints = f"{root}/raw", f"{root}/gold", f"{root}/checkpoints"
ZONE = "Europe/Vienna"

spark = tuned_session("tuned report", STREAMING)


def windowed(rows):
    """Rows with the start of their window, and with their key."""
    if kind == "days":
        day = F.date_trunc("day", F.from_utc_timestamp("at", ZONE))
        return rows.withColumn("window_start", F.to_utc_timestamp(day, ZONE))
    if kind.endswith("lookup"):
        names = spark.read.schema("id STRING, name STRING").csv(f"{root}/../names.csv", header=True)
        names = F.broadcast(names) if kind == "lookup" else names
        rows = rows.join(names, rows.key == names.id, "left")
        rows = rows.withColumn("key", F.col("name")).drop("id", "name")
    return rows.withColumn("window_start", F.window("at", "10 minutes").start)


amount = F.count_distinct("amount") if kind == "distinct" else F.sum("amount")


def upsert(batch, batch_id):
    touched = windowed(batch).select("window_start", "key").distinct().persist()
    first, last = touched.agg(F.min("window_start"), F.max("window_start")).first()
    if first is None:
        touched.unpersist()
        return
    until = F.lit(last) + F.expr("INTERVAL 26 HOURS" if kind == "days" else "INTERVAL 10 MINUTES")
    rows = windowed(
        spark.read.format("delta").load(raw).where((F.col("at") >= first) & (F.col("at") < until))
    )
    windows = (
        rows.join(F.broadcast(touched), ["window_start", "key"])
        .groupBy("window_start", "key")
        .agg(F.count("*").alias("events"), amount.alias("amount"))
    )
    if not DeltaTable.isDeltaTable(spark, gold):
        windows.coalesce(1).write.format("delta").save(gold)
    else:
        between = f"g.window_start BETWEEN '{first}' AND '{last}'"
        (
            DeltaTable.forPath(spark, gold)
            .alias("g")
            .merge(
                windows.alias("w"),
                f"{between} AND g.window_start = w.window_start AND g.key = w.key",
            )
            .whenMatchedUpdateAll()
            .whenNotMatchedInsertAll()
            .execute()
        )
    touched.unpersist()


ingest(spark, source, raw, f"{checkpoints}/raw")
(
    spark.readStream.format("delta")
    .load(raw)
    .writeStream.option("checkpointLocation", f"{checkpoints}/gold")
    .trigger(availableNow=True)
    .foreachBatch(upsert)
    .start()
    .awaitTermination()
)
spark.stop()
