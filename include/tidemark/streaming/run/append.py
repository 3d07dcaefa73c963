"""Append a batch's rows to a Delta table, in one commit that says which batch it is.

Few rows pass through the driver. Many are written by Spark's tasks, as plain Parquet files below
the table's place, which the commit then adds: so their number is known, and can be compared,
before anybody sees them. The commit is made by delta-rs either way: Spark's own writer for Delta
costs a process seconds at its first commit, and half a second at each further one. It carries the
transaction (query, batch), and a note.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa
from deltalake import CommitProperties, Transaction
from pyspark.sql import DataFrame

from tidemark.pipeline.settings.storage_options import spark_uri
from tidemark.storage.delta.append import append_rows
from tidemark.storage.delta.notes import Note, as_metadata
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.delta.written_files import WrittenFile, add_files, written_files

# Up to this many rows are few.
FEW_ROWS = 20_000
# Hadoop's committer: each task puts its own files in place, and no file says that all are there.
_COMMITTER = {
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}


@dataclass(frozen=True)
class WrittenRows:
    """Rows in files below a table's place that no commit has added yet."""

    files: Sequence[WrittenFile]

    @property
    def number(self) -> int:
        """How many rows there are."""
        return sum(file.rows for file in self.files)


# Few rows, in the driver; many, in files or not computed yet.
BatchRows = pa.Table | WrittenRows | DataFrame


def append(rows: BatchRows, place: TablePlace, query: str, batch: int, note: Note) -> None:
    """Append the rows, unless an earlier try has done it: then a DataFrame is not computed.

    Raises StorageUnavailable, LeaseLost; nothing is appended then. The table is opened before
    the fence is asked: whoever takes the lease over in between changes it, and the commit fails.
    """
    table = place.existing()
    done = table.transaction_version(query)
    if done is not None and done >= batch:
        return
    if isinstance(rows, DataFrame):
        rows = write_rows(rows, place, batch)
    place.fence()
    what, transaction = f"the rows of batch {batch}", Transaction(query, batch)
    if isinstance(rows, WrittenRows):
        add_files(table, rows.files, what, transaction, note)
    else:
        properties = CommitProperties(
            app_transactions=[transaction], custom_metadata=as_metadata(note)
        )
        append_rows(table, rows, what, properties)


def write_rows(rows: DataFrame, place: TablePlace, of: int | str) -> WrittenRows:
    """Compute the rows and write them below a table's place, in a folder that is new each time and
    begins with what they are `of`: a batch, as a rule."""
    table = place.existing()
    folder = f"{of}-{uuid4()}"
    writer = rows.write.partitionBy(*table.metadata().partition_columns)
    for name, value in _COMMITTER.items():
        writer = writer.option(name, value)
    writer.parquet(f"{spark_uri(place.uri)}/{folder}")
    return WrittenRows(written_files(table, place, folder))
