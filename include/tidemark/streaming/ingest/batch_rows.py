"""The rows that a batch appends to bronze and to rejects, from rows that Spark has worked on.

Such rows have `_reason`, `_detail` (null: accepted) and `_repeats` besides their own columns.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from tidemark.sources.source import Reading
from tidemark.storage.delta.append import conformed
from tidemark.streaming.derive import COUNTED
from tidemark.streaming.ingest.batch import Batch
from tidemark.streaming.ingest.judged_slices import ID_DIGITS, LINE, reject_ids
from tidemark.streaming.schemas import Origin, rejects_schema


def accepted_rows(judged: DataFrame, batch: Batch) -> DataFrame:
    """The accepted rows, in bronze's columns."""
    return judged.where(_is_accepted()).select(*_of_bronze(batch).values())


def rejected_rows(judged: DataFrame, batch: Batch) -> DataFrame:
    """The rejected rows, in the columns of rejects."""
    return judged.where(~_is_accepted()).select(*_of_rejects(batch))


def rule_counts(judged: DataFrame) -> Counter[str]:
    """How many accepted rows each rule counts."""
    counted = judged.where(_is_accepted()).select(F.explode(COUNTED).alias("name"))
    return Counter(dict(counted.groupBy("name").count().collect()))


def collected_rows(judged: DataFrame, batch: Batch) -> tuple[pa.Table, pa.Table, Counter[str]]:
    """The accepted rows, the rejected ones, and how many accepted ones each rule counts, all from
    one pass, in the driver."""
    of_bronze = _of_bronze(batch)
    both = [*of_bronze.values(), *_of_rejects(batch), F.col(COUNTED)]
    # By number: a source's column may have the name of one of rejects.
    rows = judged.select(*[column.alias(str(n)) for n, column in enumerate(both)]).toArrow()
    first_of_rejects = len(of_bronze)
    is_accepted = pc.is_null(rows.column(first_of_rejects))
    accepted, rejected = rows.filter(is_accepted), rows.filter(pc.invert(is_accepted))
    counted = Counter(map(str, pc.list_flatten(accepted.column(len(both) - 1)).to_pylist()))
    accepted = accepted.select(range(first_of_rejects)).rename_columns(list(of_bronze))
    rejected = rejected.select(range(first_of_rejects, len(both) - 1))
    return accepted, rejected.rename_columns(rejects_schema(batch.origin).names), counted


def with_rejects_columns(rejected: pa.Table, batch: Batch) -> pa.Table:
    """Rejected lines in all columns of rejects: those that they do not have are null."""
    return conformed(rejected, to_arrow_schema(rejects_schema(batch.origin), timezone="UTC"))


def rejected_parts(reading: Reading, batch: Batch) -> pa.Table:
    """A row for each part that was rejected as a whole, in the columns of rejects."""
    rows: list[dict[str, Any]] = []
    for verdict in reading.verdicts:
        where = dict.fromkeys(one.name for one in batch.origin)
        where |= batch.streamed.placed.origin_of(verdict.part)
        told = pa.Table.from_pylist([where])
        rows.append(
            {
                "reason": verdict.reason,
                "detail": verdict.detail,
                **where,
                "_batch": batch.number,
                "_batch_time": batch.time_ms * 1_000,
                "id": str(reject_ids(told, batch.origin)[0]),
            }
        )
    schema = to_arrow_schema(rejects_schema(batch.origin), timezone="UTC")
    return pa.Table.from_pylist(rows, schema)


def reject_id(origin: Origin) -> Column:
    """The id of a reject, as `judged_slices.reject_ids`."""
    texts = [F.coalesce(F.col(one.name).cast("string"), F.lit("")) for one in origin]
    return F.substring(F.sha2(F.concat_ws("\n", *texts), 256), 1, ID_DIGITS).alias("id")


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
    """In the order of `rejects_schema`. A line that was a row once is text."""
    return [
        F.col("_reason").alias("reason"),
        F.col("_detail").alias("detail"),
        F.col(LINE).alias("raw"),
        F.lit(None).cast("binary").alias("raw_bytes"),
        F.col(f"`{batch.source.event_time.column}`").alias("event_time"),
        F.col("_repeats").alias("repeats"),
        *_where_from(batch).values(),
        reject_id(batch.origin),
    ]


def _where_from(batch: Batch) -> dict[str, Column]:
    names = [*(one.name for one in batch.origin), "_batch", "_batch_time"]
    return {name: F.col(name) for name in names}
