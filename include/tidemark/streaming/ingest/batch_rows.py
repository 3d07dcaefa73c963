"""The rows that a batch appends to bronze and to rejects, from its judged rows.

Judged rows have `_repeats` besides what `judge` gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from tidemark.pipeline.settings.storage_options import spark_uri
from tidemark.sources.source import OriginColumn, Reading
from tidemark.streaming.ingest.batch import Batch
from tidemark.streaming.ingest.judge import MARK
from tidemark.streaming.schemas import lines_schema, rejects_schema

# No source has a column of this name: a line that holds the mark in it is rejected.
REJECTED = f"rejected{MARK}"


def accepted_rows(judged: DataFrame, batch: Batch) -> DataFrame:
    """The accepted rows, in bronze's columns."""
    return judged.where(_is_accepted()).select(*_of_bronze(batch).values())


def accepted_rows_and_lines(judged: DataFrame, batch: Batch) -> DataFrame:
    """All rows in bronze's columns and `REJECTED`: of a rejected one only where it comes from, and
    the line in `_extra`, where text has room whose bytes are no UTF-8.
    """
    accepted = _is_accepted()
    held = {"_extra": F.when(accepted, F.col("_extra")).otherwise(F.col("_value"))}
    held |= {one.name: F.col(one.name) for one in batch.origin}
    return judged.select(
        *[
            held.get(name, F.when(accepted, column)).alias(name)
            for name, column in _of_bronze(batch).items()
        ],
        (~accepted).alias(REJECTED),
    )


def lines_apart(
    spark: SparkSession, files: Sequence[str], origin: Sequence[OriginColumn]
) -> DataFrame:
    """The lines of files of rejected rows, as `judge` takes them."""
    reader = spark.read.schema(lines_schema("_extra", origin)).option("recursiveFileLookup", True)
    rows = reader.parquet(*[spark_uri(file) for file in files])
    return rows.withColumnRenamed("_extra", "_value")


def rejected_rows(judged: DataFrame, batch: Batch) -> DataFrame:
    """The rejected lines, in the columns of rejects."""
    return judged.where(~_is_accepted()).select(*_of_rejects(batch))


def collected_rows(judged: DataFrame, batch: Batch) -> tuple[pa.Table, pa.Table]:
    """The accepted rows and the rejected lines, both from one pass, in the driver."""
    of_bronze = _of_bronze(batch)
    both = [*of_bronze.values(), *_of_rejects(batch)]
    # By number: a source's column may have the name of one of rejects.
    rows = judged.select(*[column.alias(str(n)) for n, column in enumerate(both)]).toArrow()
    first_of_rejects = len(of_bronze)
    is_accepted = pc.is_null(rows.column(first_of_rejects))
    accepted = rows.filter(is_accepted).select(range(first_of_rejects))
    rejected = rows.filter(pc.invert(is_accepted)).select(range(first_of_rejects, len(both)))
    names = rejects_schema(batch.origin).names
    return accepted.rename_columns(list(of_bronze)), rejected.rename_columns(names)


def rejected_parts(reading: Reading, batch: Batch) -> pa.Table:
    """A row for each part that was rejected as a whole, in the columns of rejects."""
    rows: list[dict[str, Any]] = [
        {
            "reason": verdict.reason,
            "detail": verdict.detail,
            **batch.streamed.placed.origin_of(verdict.part),
            "_batch": batch.number,
            "_batch_time": batch.time_ms * 1_000,
        }
        for verdict in reading.verdicts
    ]
    schema = to_arrow_schema(rejects_schema(batch.origin), timezone="UTC")
    return pa.Table.from_pylist(rows, schema)


def _is_accepted() -> Column:
    return F.col("_reason").isNull()


def _of_bronze(batch: Batch) -> dict[str, Column]:
    """In the order of `bronze_schema`."""
    source = batch.source
    return {
        **{name: F.col(f"`{name}`") for name in (*source.columns, *source.derive)},
        "_extra": F.col("_extra"),
        **_where_from(batch),
        "_event_date": F.col("_event_date"),
    }


def _of_rejects(batch: Batch) -> list[Column]:
    """In the order of `rejects_schema`; a line's bytes only where they are no text."""
    is_text = F.is_valid_utf8("_value")
    return [
        F.col("_reason").alias("reason"),
        F.col("_detail").alias("detail"),
        F.make_valid_utf8("_value").alias("raw"),
        F.when(~is_text, F.col("_value").cast("binary")).alias("raw_bytes"),
        F.col(f"`{batch.source.event_time.column}`").alias("event_time"),
        F.col("_repeats").alias("repeats"),
        *_where_from(batch).values(),
    ]


def _where_from(batch: Batch) -> dict[str, Column]:
    return {
        **{one.name: F.col(one.name) for one in batch.origin},
        "_batch": F.lit(batch.number).cast("bigint").alias("_batch"),
        "_batch_time": F.timestamp_millis(F.lit(batch.time_ms)).alias("_batch_time"),
    }
