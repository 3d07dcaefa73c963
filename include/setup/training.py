"""What the class-data archive is made from: a small run of the same kind as the real job.

Submitted by the set-up with `spark-submit training.py FOLDER`, under a JVM that writes down the
classes that it loaded when it ends. So it touches what a run touches: a file stream judged and
written by `foreachBatch`, a windowed stream over the Delta table, both with `availableNow`.
Nothing reads the tables that it leaves in FOLDER, and the set-up deletes them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
SCHEMA = "at timestamp, place string, size long, _corrupt string"


def main(folder: Path) -> None:
    spark = open_session(folder)
    write_input(folder / "landing")
    ingest(spark, folder)
    aggregate(spark, folder)
    spark.read.format("delta").load(str(folder / "changes")).collect()
    spark.stop()


def open_session(folder: Path) -> SparkSession:
    builder = SparkSession.builder.master("local[2]").appName("class-data archive")
    builder = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def write_input(landing: Path) -> None:
    landing.mkdir(parents=True)
    good = '{"at": "2024-05-01T10:%02d:00Z", "place": "p%d", "size": %d}\n'
    lines = [good % (n % 60, n % 3, n) for n in range(200)]
    (landing / "one.json").write_text("".join(lines) + "not json\n", encoding="utf-8")


def ingest(spark: SparkSession, folder: Path) -> None:
    """File stream → one judged, persisted batch → two appends, as the real ingest does it."""

    def write_batch(batch: DataFrame, batch_id: int) -> None:
        judged = batch.withColumn("reason", F.when(F.col("_corrupt").isNotNull(), "malformed"))
        judged.persist()
        good, bad = judged.where("reason is null"), judged.where("reason is not null")
        for name, rows in (("bronze", good.drop("_corrupt", "reason")), ("rejects", bad)):
            writer = rows.write.format("delta").mode("append")
            writer = writer.option("txnAppId", name).option("txnVersion", str(batch_id))
            writer.save(str(folder / name))
        judged.unpersist()

    text = spark.readStream.format("text").load(str(folder / "landing" / "*.json*"))
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt"}
    parsed = text.select(F.from_json("value", SCHEMA, options).alias("row"), "_metadata.file_path")
    rows = parsed.select("row.*", "file_path").withColumn("day", F.to_date("at"))
    run_to_its_end(rows.writeStream.foreachBatch(write_batch), folder / "checkpoints" / "ingest")


def aggregate(spark: SparkSession, folder: Path) -> None:
    """Delta stream → windows with a watermark, in update mode → one append a batch."""

    def write_batch(batch: DataFrame, batch_id: int) -> None:
        rows = batch.withColumn("batch", F.lit(batch_id))
        rows.write.format("delta").mode("append").save(str(folder / "changes"))

    bronze = spark.readStream.format("delta").load(str(folder / "bronze"))
    windows = F.window("at", "10 minutes", "5 minutes")
    counted = (
        bronze.withWatermark("at", "10 minutes")
        .groupBy(windows.alias("window"), "place")
        .agg(F.count("*").alias("rows"), F.sum("size").alias("size"), F.avg("size").alias("mean"))
    )
    writer = counted.writeStream.outputMode("update").foreachBatch(write_batch)
    run_to_its_end(writer, folder / "checkpoints" / "aggregate")


def run_to_its_end(writer, checkpoint: Path) -> None:  # type: ignore[no-untyped-def]
    """`writer` is a DataStreamWriter, whose generic type pyspark does not export."""
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.start().awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
