"""A left join of two streams with a window behind it, as the engine gives it; nothing is repaired.

    SPARK_SUBMIT_OPTS='…the JVM flags of .tidemark/env…' spark-submit tuned_join.py INPUT ROOT OTHER

Each event of INPUT with the clicks of its key in the five minutes after it; per window of two
minutes and key the number of joined rows and the sum of the clicks' amounts. OTHER is the clicks'
Delta table, which somebody else fills. With the settings of `tuned.py`.
"""

import sys

from pyspark.sql import functions as F
from tuned_session import STREAMING, ingest, tuned_session

source, root, other = sys.argv[1:]
raw, gold, checkpoints = f"{root}/raw", f"{root}/gold", f"{root}/checkpoints"

spark = tuned_session("tuned_join", STREAMING)

ingest(spark, source, raw, f"{checkpoints}/raw")

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
