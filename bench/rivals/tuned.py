"""The same tables as `default.py`, with every setting that is known to help a short run.

    SPARK_SUBMIT_OPTS='…the JVM flags of .tidemark/env…' spark-submit tuned.py INPUT ROOT [GAP]

INPUT is a folder of JSON lines, or `kafka:SERVERS/TOPIC` (the jars of Spark's Kafka source on the
class path too). With GAP, as in `2 minutes`, the sessions of that gap in append mode, as the
engine emits them.

Jars on the class path, no resolution at each start; class-data archive, serial collector and, for
a small input, the JVM's first compiler only (from the environment); few shuffle and snapshot
partitions, no adaptive execution, no user interface; the empty batch that only evicts state is not
merged; the merge names the dates that it can touch, so that it reads no others.
"""

import sys

from delta.tables import DeltaTable
from pyspark.sql import functions as F
from tuned_session import STREAMING, ingest, tuned_session

source, root, *gap = sys.argv[1:]
raw, gold, checkpoints = f"{root}/raw", f"{root}/gold", f"{root}/checkpoints"

spark = tuned_session("tuned", STREAMING)


def upsert(batch, batch_id):
    batch.persist()
    first, last = batch.agg(F.min("window_start"), F.max("window_start")).first()
    if first is None:
        batch.unpersist()
        return
    if not DeltaTable.isDeltaTable(spark, gold):
        batch.coalesce(1).write.format("delta").save(gold)
    else:
        touched = f"g.window_start BETWEEN '{first}' AND '{last}'"
        (
            DeltaTable.forPath(spark, gold)
            .alias("g")
            .merge(
                batch.alias("b"), f"{touched} AND g.window_start = b.window_start AND g.key = b.key"
            )
            .whenMatchedUpdateAll()
            .whenNotMatchedInsertAll()
            .execute()
        )
    batch.unpersist()


ingest(spark, source, raw, f"{checkpoints}/raw")

window = F.session_window("at", gap[0]) if gap else F.window("at", "10 minutes")
windows = (
    spark.readStream.format("delta")
    .load(raw)
    .withWatermark("at", "10 minutes")
    .groupBy(window.alias("window"), "key")
    .agg(F.count("*").alias("events"), F.sum("amount").alias("amount"))
    .select(F.col("window.start").alias("window_start"), "key", "events", "amount")
)
writer = windows.writeStream.option("checkpointLocation", f"{checkpoints}/gold")
writer = writer.trigger(availableNow=True)
if gap:
    started = writer.outputMode("append").format("delta").start(gold)
else:
    started = writer.outputMode("update").foreachBatch(upsert).start()
started.awaitTermination()
spark.stop()
