"""The rows that a batch appends to bronze and to rejects, from its judged rows."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.pipeline.model import Source
from tidemark.streaming.ingest.batch_files import BatchFiles
from tidemark.streaming.schemas import rejects_schema

_BATCH_COLUMNS = ("_batch", "_batch_time")


def accepted_rows(judged: DataFrame, source: Source, batch: int, time_ms: int) -> DataFrame:
    """The accepted rows, in bronze's columns."""
    return judged.where(F.col("_reason").isNull()).select(
        *[F.col(f"`{name}`") for name in (*source.columns, *source.derive)],
        "_extra",
        "_file",
        *_batch_columns(batch, time_ms),
        "_event_date",
    )


def rejected_rows(judged: DataFrame, source: Source, batch: int, time_ms: int) -> DataFrame:
    """The rejected lines, in the columns of rejects; their bytes only where they are no text.

    `judged` has `_repeats` besides what `judge` gives.
    """
    is_text = F.is_valid_utf8("_value")
    return judged.where(F.col("_reason").isNotNull()).select(
        F.col("_reason").alias("reason"),
        F.col("_detail").alias("detail"),
        F.make_valid_utf8("_value").alias("raw"),
        F.when(~is_text, F.col("_value").cast("binary")).alias("raw_bytes"),
        F.col(f"`{source.event_time.column}`").alias("event_time"),
        F.col("_repeats").alias("repeats"),
        "_file",
        *_batch_columns(batch, time_ms),
    )


def rejected_files(spark: SparkSession, files: BatchFiles, batch: int, time_ms: int) -> DataFrame:
    """A row for each file that was rejected as a whole, in the columns of rejects.

    From Arrow: a list of rows would be read by Python workers, which take a second to start.
    """
    known = {
        "reason": [verdict.reason for verdict in files.verdicts],
        "detail": [verdict.detail for verdict in files.verdicts],
        "_file": [verdict.uri for verdict in files.verdicts],
    }
    table = pa.table(known, pa.schema([pa.field(name, pa.string()) for name in known]))
    columns = [
        F.col(field.name)
        if field.name in known
        else F.lit(None).cast(field.dataType).alias(field.name)
        for field in rejects_schema().fields
        if field.name not in _BATCH_COLUMNS
    ]
    verdicts = spark.createDataFrame(table)
    return verdicts.select(*columns, *_batch_columns(batch, time_ms))


def _batch_columns(batch: int, time_ms: int) -> list[Column]:
    return [
        F.lit(batch).cast("bigint").alias("_batch"),
        F.timestamp_millis(F.lit(time_ms)).alias("_batch_time"),
    ]
