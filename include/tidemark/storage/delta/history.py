"""The history of a table's windows: rows of `changes` with the version that each came in."""

from __future__ import annotations

import pyarrow as pa
from deltalake import DeltaTable

from tidemark.errors import StorageUnavailable
from tidemark.storage.delta.opened import newest_first
from tidemark.storage.duckdb_in_utc import arrow_of, duckdb_in_utc, held

VERSION = "_commit_version"
# Why a measure of a row cannot be computed; null where all can.
FAILURE = "_failure"
# Columns that tables lack which an earlier version made.
ADDED_TO_CHANGES = (FAILURE,)


def changes_between(changes: DeltaTable, after: int, last: int) -> pa.Table:
    """The rows that the commits (after, last] appended to `changes`, with their `_commit_version`.

    What a commit deleted, updated or brought back by hand is none: it is superseded, or was.
    """
    if changes.version() < last:
        raise StorageUnavailable(
            f"{changes.table_uri} is at version {changes.version()}, the run pinned "
            f"{last}. Nothing was published; try again when the store shows it."
        )
    if last <= after:
        empty = schema_of(changes).empty_table()
        return _whole(empty.append_column(VERSION, pa.array([], pa.int64())))
    found = changes.load_cdf(starting_version=max(after + 1, 0), ending_version=last)
    feed = pa.RecordBatchReader.from_stream(found)
    rows = held(feed, feed.schema)
    kinds = rows.select([VERSION, "_change_type"])
    kinds = kinds.set_column(1, "_change_type", kinds["_change_type"].cast(pa.string()))
    told = kinds.group_by(kinds.column_names).aggregate([]).to_pylist()
    by_hand = {int(one[VERSION]) for one in told if one["_change_type"] != "insert"}
    for commit in newest_first(changes):
        if commit["version"] <= after:
            break
        # It may have insertions alone, of rows that were there before.
        if commit.get("operation") == "RESTORE":
            by_hand.add(int(commit["version"]))
    if by_hand:
        # The feed's texts are views, which Arrow filters none of.
        with duckdb_in_utc() as connection:
            connection.register("feed", rows)
            chosen = f"{VERSION} NOT IN ({', '.join(map(str, sorted(by_hand)))})"
            rows = arrow_of(connection.sql(f"FROM feed WHERE {chosen}"))
    return _whole(rows)


def _whole(rows: pa.Table) -> pa.Table:
    for name in ADDED_TO_CHANGES:
        if name not in rows.column_names:
            rows = rows.append_column(name, pa.nulls(rows.num_rows, pa.string()))
    return rows


def schema_of(table: DeltaTable) -> pa.Schema:
    """A Delta table's columns as pyarrow has them."""
    schema: pa.Schema = pa.schema(table.schema().to_arrow())  # type: ignore[arg-type]  # by its C interface
    return schema
