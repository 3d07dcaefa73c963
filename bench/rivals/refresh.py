"""A full refresh as one writes it by hand: the aggregate of all of bronze, gold written anew.

    SPARK_SUBMIT_OPTS='…' spark-submit refresh.py BRONZE ROOT

With the settings of `tuned.py`. Readers of ROOT/gold see the former table until the overwrite is
committed. What it leaves to its author: the stream and its checkpoint, which rows came meanwhile,
what changed for whom, and a way back.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

bronze, root = sys.argv[1:]

SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
}
builder = SparkSession.builder.appName("refresh")
for name, value in SETTINGS.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()

windows = (
    spark.read.format("delta")
    .load(bronze)
    .groupBy(F.window("at", "10 minutes"), "key")
    .agg(
        F.count("*").alias("events"),
        F.sum("amount").alias("amount"),
        F.max("amount").alias("largest"),
    )
    .select(F.col("window.start").alias("window_start"), "key", "events", "amount", "largest")
)
(
    windows.withColumn("window_date", F.to_date("window_start"))
    .write.format("delta")
    .mode("overwrite")
    .option("overwriteSchema", "true")
    .partitionBy("window_date")
    .save(f"{root}/gold")
)
spark.stop()
