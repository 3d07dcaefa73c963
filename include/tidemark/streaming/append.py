"""Append a batch's rows to a Delta table, in one commit that says which batch it is.

Few rows pass through the driver and are written by delta-rs: Spark's own writer for Delta costs
a process seconds at its first commit, and half a second at each further one. Many rows are
written by Spark, in parallel and without the driver. Both leave the same commit: the
transaction (query, batch), and a note in `userMetadata`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
from deltalake import CommitProperties, Transaction
from pyspark.sql import DataFrame

from tidemark.pipeline.storage_options import spark_uri
from tidemark.tables.append import append_rows
from tidemark.tables.create import existing_table

# Up to this many rows are few.
FEW_ROWS = 20_000

# Few rows, in the driver, or many, not computed yet.
BatchRows = pa.Table | DataFrame


@dataclass(frozen=True)
class Append:
    """Where a batch's rows go, and what their commit says. `check` is called right before the
    commit, and raises where the lease is lost."""

    place: str
    options: Mapping[str, str]
    query: str
    batch: int
    note: str
    check: Callable[[], None]


def append(rows: BatchRows, to: Append) -> None:
    """Few rows by delta-rs, many by Spark. Raises StorageUnavailable, LeaseLost."""
    append_few(rows, to) if isinstance(rows, pa.Table) else append_many(rows, to)


def append_few(rows: pa.Table, append: Append) -> None:
    """By delta-rs. The table is opened before the lease is checked: whoever takes the lease over
    in between changes it, and this commit fails."""
    table = existing_table(append.place, append.options)
    done = table.transaction_version(append.query)
    if done is not None and done >= append.batch:
        return
    append.check()
    properties = CommitProperties(
        app_transactions=[Transaction(append.query, append.batch)],
        custom_metadata={"userMetadata": append.note},
    )
    append_rows(table, rows, f"the rows of batch {append.batch}", properties)


def append_many(rows: DataFrame, append: Append) -> None:
    """By Spark's tasks."""
    writer = rows.write.format("delta").mode("append").option("userMetadata", append.note)
    writer = writer.option("txnAppId", append.query).option("txnVersion", append.batch)
    append.check()
    writer.save(spark_uri(append.place))
