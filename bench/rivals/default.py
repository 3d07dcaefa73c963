"""JSON → raw Delta table → windowed aggregate merged into gold, as the official examples do it.

    spark-submit --packages io.delta:delta-spark_4.2_2.13:4.4.0 default.py INPUT ROOT

Structured Streaming's guide for the source and the aggregate, Delta's for the stream from a table
and the merge in `foreachBatch`. The engine's and Delta's defaults throughout.
"""

import sys

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

source, root = sys.argv[1:]
raw, gold, checkpoints = f"{root}/raw", f"{root}/gold", f"{root}/checkpoints"

spark = (
    SparkSession.builder.appName("default")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .getOrCreate()
)


def upsert(batch, batch_id):
    if not DeltaTable.isDeltaTable(spark, gold):
        batch.write.format("delta").save(gold)
        return
    (
        DeltaTable.forPath(spark, gold)
        .alias("g")
        .merge(batch.alias("b"), "g.window_start = b.window_start AND g.key = b.key")
        .whenMatchedUpdateAll()
        .whenNotMatchedInsertAll()
        .execute()
    )


events = spark.readStream.schema("at TIMESTAMP, key STRING, amount BIGINT").json(source)
accepted = events.where("at IS NOT NULL AND key IS NOT NULL")
(
    accepted.writeStream.format("delta")
    .option("checkpointLocation", f"{checkpoints}/raw")
    .trigger(availableNow=True)
    .start(raw)
    .awaitTermination()
)

windows = (
    spark.readStream.format("delta")
    .load(raw)
    .withWatermark("at", "10 minutes")
    .groupBy(F.window("at", "10 minutes"), "key")
    .agg(F.count("*").alias("events"), F.sum("amount").alias("amount"))
    .select(F.col("window.start").alias("window_start"), "key", "events", "amount")
)
(
    windows.writeStream.outputMode("update")
    .foreachBatch(upsert)
    .option("checkpointLocation", f"{checkpoints}/gold")
    .trigger(availableNow=True)
    .start()
    .awaitTermination()
)
spark.stop()
