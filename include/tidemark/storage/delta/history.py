"""The history of a table's windows: rows of `changes` with the version that each came in."""

from __future__ import annotations

import pyarrow as pa
from deltalake import DeltaTable

from tidemark.errors import StorageUnavailable

VERSION = "_commit_version"
# Why a measure of a row cannot be computed; null where all can.
FAILURE = "_failure"
# Columns that tables lack which an earlier version made.
ADDED_TO_CHANGES = (FAILURE,)


def changes_between(changes: DeltaTable, after: int, last: int) -> pa.Table:
    """The rows of the commits (after, last] of `changes`, with their `_commit_version`."""
    if changes.version() < last:
        raise StorageUnavailable(
            f"{changes.table_uri} is at version {changes.version()}, the run pinned "
            f"{last}. Nothing was published; try again when the store shows it."
        )
    if last <= after:
        empty = schema_of(changes).empty_table()
        return _whole(empty.append_column(VERSION, pa.array([], pa.int64())))
    found = changes.load_cdf(starting_version=max(after + 1, 0), ending_version=last)
    return _whole(pa.table(found))


def _whole(rows: pa.Table) -> pa.Table:
    for name in ADDED_TO_CHANGES:
        if name not in rows.column_names:
            rows = rows.append_column(name, pa.nulls(rows.num_rows, pa.string()))
    return rows


def schema_of(table: DeltaTable) -> pa.Schema:
    """A Delta table's columns as pyarrow has them."""
    schema: pa.Schema = pa.schema(table.schema().to_arrow())  # type: ignore[arg-type]  # by its C interface
    return schema
