"""The rows of a table's inputs as its operator takes them: their event time is `_event_time`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.storage_options import spark_uri
from tidemark.storage.delta.place import TablePlace

# Rows by the names of the inputs, as an operator has them (`Operator.inputs`).
Inputs = Mapping[str, DataFrame]

# The Delta source's default is 1,000 files.
_NO_LIMIT = 2**31 - 1


def with_event_time(bronze: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Bronze with its event time as `_event_time`, whatever the pipeline calls it."""
    return bronze.withColumn("_event_time", F.col(f"`{pipeline.source.event_time.column}`"))


def input_stream(
    spark: SparkSession, place: TablePlace, pipeline: Pipeline, since: datetime | None = None
) -> DataFrame:
    """An input as a stream, with its watermark. All that is new is one batch: a batch of whole
    versions is what late rows are counted by, and files cut into several could come out of order.

    Without the rows of an earlier event time than `since`; files of earlier dates are not opened.
    """
    reader = spark.readStream.format("delta").option("maxFilesPerTrigger", _NO_LIMIT)
    # Retention drops whole partitions, which the stream has long read.
    rows = reader.option("skipChangeCommits", "true").load(spark_uri(place.uri))
    rows = with_event_time(rows, pipeline)
    if since is not None:
        rows = rows.where(F.col("_event_date") >= F.lit(since.date()))
        rows = rows.where(F.col("_event_time") >= F.lit(since))
    return rows.withWatermark("_event_time", duration_text(pipeline.watermark.delay))


def input_at(spark: SparkSession, place: TablePlace, pipeline: Pipeline, version: int) -> DataFrame:
    """An input as it was at a version, whoever appends meanwhile."""
    reader = spark.read.format("delta").option("versionAsOf", version)
    return with_event_time(reader.load(spark_uri(place.uri)), pipeline)
