"""A full refresh as one writes it by hand: the aggregate of all of bronze, gold written anew.

    SPARK_SUBMIT_OPTS='…' spark-submit refresh.py BRONZE ROOT

With the settings of `tuned.py`. Readers of ROOT/gold see the former table until the overwrite is
committed. What it leaves to its author: the stream and its checkpoint, which rows came meanwhile,
what changed for whom, and a way back.
"""

import sys

from pyspark.sql import functions as F
from tuned_session import tuned_session

bronze, root = sys.argv[1:]

spark = tuned_session("refresh", {})

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
