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

from tidemark.pipeline.model import Source
from tidemark.pipeline.settings.storage_options import spark_uri
from tidemark.sources.files.batch_files import BatchFiles
from tidemark.streaming.ingest.judge import MARK
from tidemark.streaming.schemas import rejects_schema

# No source has a column of this name: a line that holds the mark in it is rejected.
REJECTED = f"rejected{MARK}"
_OF_BRONZE = ("_extra", "_file", "_batch", "_batch_time", "_event_date")


def accepted_rows(judged: DataFrame, source: Source, batch: int, time_ms: int) -> DataFrame:
    """The accepted rows, in bronze's columns."""
    return judged.where(_is_accepted()).select(*_of_bronze(source, batch, time_ms))


def accepted_rows_and_lines(
    judged: DataFrame, source: Source, batch: int, time_ms: int
) -> DataFrame:
    """All rows in bronze's columns and `REJECTED`: of a rejected one only its file, and the line in
    `_extra`, where text has room whose bytes are no UTF-8.
    """
    accepted = _is_accepted()
    held = {"_extra": F.when(accepted, F.col("_extra")).otherwise(F.col("_value"))}
    held |= {"_file": F.col("_file")}
    names = [*source.columns, *source.derive, *_OF_BRONZE]
    columns = _of_bronze(source, batch, time_ms)
    return judged.select(
        *[
            held.get(name, F.when(accepted, column)).alias(name)
            for name, column in zip(names, columns, strict=True)
        ],
        (~accepted).alias(REJECTED),
    )


def lines_apart(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """The lines of files of rejected rows, as `judge` takes them."""
    reader = spark.read.schema("_extra string, _file string").option("recursiveFileLookup", True)
    rows = reader.parquet(*[spark_uri(file) for file in files])
    return rows.select(F.col("_extra").alias("_value"), "_file")


def rejected_rows(judged: DataFrame, source: Source, batch: int, time_ms: int) -> DataFrame:
    """The rejected lines, in the columns of rejects."""
    return judged.where(~_is_accepted()).select(*_of_rejects(source, batch, time_ms))


def collected_rows(
    judged: DataFrame, source: Source, batch: int, time_ms: int
) -> tuple[pa.Table, pa.Table]:
    """The accepted rows and the rejected lines, both from one pass, in the driver."""
    both = [*_of_bronze(source, batch, time_ms), *_of_rejects(source, batch, time_ms)]
    # By number: a source's column may have the name of one of rejects.
    rows = judged.select(*[column.alias(str(n)) for n, column in enumerate(both)]).toArrow()
    accepted_names = [*source.columns, *source.derive, *_OF_BRONZE]
    first_of_rejects = len(accepted_names)
    is_accepted = pc.is_null(rows.column(first_of_rejects))
    accepted = rows.filter(is_accepted).select(range(first_of_rejects))
    rejected = rows.filter(pc.invert(is_accepted)).select(range(first_of_rejects, len(both)))
    return accepted.rename_columns(accepted_names), rejected.rename_columns(rejects_schema().names)


def rejected_files(files: BatchFiles, batch: int, time_ms: int) -> pa.Table:
    """A row for each file that was rejected as a whole, in the columns of rejects."""
    rows: list[dict[str, Any]] = [
        {
            "reason": verdict.reason,
            "detail": verdict.detail,
            "_file": verdict.uri,
            "_batch": batch,
            "_batch_time": time_ms * 1_000,
        }
        for verdict in files.verdicts
    ]
    return pa.Table.from_pylist(rows, to_arrow_schema(rejects_schema(), timezone="UTC"))


def _is_accepted() -> Column:
    return F.col("_reason").isNull()


def _of_bronze(source: Source, batch: int, time_ms: int) -> list[Column]:
    """In the order of the columns, the derived ones and `_OF_BRONZE`."""
    return [
        *[F.col(f"`{name}`") for name in (*source.columns, *source.derive)],
        F.col("_extra"),
        F.col("_file"),
        *_batch_columns(batch, time_ms),
        F.col("_event_date"),
    ]


def _of_rejects(source: Source, batch: int, time_ms: int) -> list[Column]:
    """In the order of `rejects_schema`; a line's bytes only where they are no text."""
    is_text = F.is_valid_utf8("_value")
    return [
        F.col("_reason").alias("reason"),
        F.col("_detail").alias("detail"),
        F.make_valid_utf8("_value").alias("raw"),
        F.when(~is_text, F.col("_value").cast("binary")).alias("raw_bytes"),
        F.col(f"`{source.event_time.column}`").alias("event_time"),
        F.col("_repeats").alias("repeats"),
        F.col("_file"),
        *_batch_columns(batch, time_ms),
    ]


def _batch_columns(batch: int, time_ms: int) -> list[Column]:
    return [
        F.lit(batch).cast("bigint").alias("_batch"),
        F.timestamp_millis(F.lit(time_ms)).alias("_batch_time"),
    ]
