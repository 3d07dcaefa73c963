"""A left join of two streams with a window behind it, as the engine gives it; nothing is repaired.

    SPARK_SUBMIT_OPTS='…the JVM flags of .tidemark/env…' spark-submit tuned_join.py INPUT ROOT OTHER

Each event of INPUT with the clicks of its key in the five minutes after it; per window of two
minutes and key the number of joined rows and the sum of the clicks' amounts. OTHER is the clicks'
Delta table, which somebody else fills. With the settings of `tuned.py`.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

source, root, other = sys.argv[1:]
raw, gold, checkpoints = f"{root}/raw", f"{root}/gold", f"{root}/checkpoints"

SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
}
builder = SparkSession.builder.appName("tuned_join")
for name, value in SETTINGS.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()

incoming = spark.readStream.schema("at TIMESTAMP, key STRING, amount BIGINT").json(source)
accepted = incoming.where("at IS NOT NULL AND key IS NOT NULL")
(
    accepted.writeStream.format("delta")
    .option("checkpointLocation", f"{checkpoints}/raw")
    .trigger(availableNow=True)
    .start(raw)
    .awaitTermination()
)

events = (
    spark.readStream.format("delta").load(raw).select("at", "key").withWatermark("at", "10 minutes")
)
clicks = (
    spark.readStream.format("delta")
    .load(other)
    .select(F.col("at").alias("clicked"), F.col("key").alias("clicked_key"), "amount")
    .withWatermark("clicked", "10 minutes")
)
matches = F.expr("clicked_key = key AND clicked BETWEEN at AND at + INTERVAL 5 minutes")
windows = (
    events.join(clicks, matches, "left")
    .groupBy(F.window("at", "2 minutes").alias("window"), "key")
    .agg(F.count("*").alias("events"), F.sum("amount").alias("amount"))
    .select(F.col("window.start").alias("window_start"), "key", "events", "amount")
)
(
    windows.writeStream.outputMode("append")
    .format("delta")
    .option("checkpointLocation", f"{checkpoints}/gold")
    .trigger(availableNow=True)
    .start(gold)
    .awaitTermination()
)
spark.stop()
