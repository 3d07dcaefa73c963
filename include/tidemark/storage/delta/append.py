"""Append rows to a table without a JVM, in one commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa
from deltalake import (
    ColumnProperties,
    CommitProperties,
    DeltaTable,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError

from tidemark.storage.delta.damage import not_committed
from tidemark.storage.delta.history import schema_of
from tidemark.storage.delta.notes import Note, as_metadata

# Decimal digits that a double holds whatever they are: delta-rs tells the log bounds by one.
_SURE_DIGITS = 15
_BOUNDED = (
    *(pa.types.is_integer, pa.types.is_timestamp, pa.types.is_boolean),
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
)


def with_sound_bounds(
    schema: pa.Schema, most_in_group: int | None = None, *, has_days: bool = False
) -> WriterProperties:
    """Statistics of those columns alone whose bounds hold all of their rows. Spark and others pass
    files over by bounds, and delta-rs (1.6.6) writes those of floating numbers without NaN, which
    Spark takes for the greatest number, and rounds those of long decimals. Bounds of days outside
    of the years 1 to 9999 it cannot read itself: `has_days` says that all days are within."""
    sound = ColumnProperties(statistics_enabled="CHUNK")
    return WriterProperties(
        # What delta-rs writes with where it is told nothing.
        compression="SNAPPY",
        max_row_group_size=most_in_group,
        default_column_properties=ColumnProperties(statistics_enabled="NONE"),
        column_properties={
            field.name: sound
            for field in schema
            if _is_bounded(field.type) or (has_days and pa.types.is_date(field.type))
        },
    )


def _is_bounded(kind: pa.DataType) -> bool:
    if pa.types.is_decimal(kind):
        return bool(kind.precision <= _SURE_DIGITS)
    return any(is_of(kind) for is_of in _BOUNDED)


def append_rows(
    table: DeltaTable, rows: pa.Table, what: str, properties: CommitProperties | None = None
) -> None:
    """One commit of these rows, which may be none; columns are found by name, and one that the rows
    do not have is null: a table keeps the columns that its pipeline no longer has.

    A takeover of the lease changes the table's properties, and the commit fails on that, as on
    another commit of the same transaction: StorageUnavailable, which calls the rows `what`.
    """
    schema = schema_of(table)
    with appending(table, what):
        write_deltalake(
            table,
            conformed(rows, schema),
            mode="append",
            commit_properties=properties,
            writer_properties=with_sound_bounds(schema),
        )


def on_this_version(
    note: Note | None, transactions: Mapping[str, int] | None = None
) -> CommitProperties:
    """Of a commit with this note and these app transactions: without a retry delta-rs commits on
    the version that it read, or not at all."""
    return CommitProperties(
        app_transactions=[Transaction(*one) for one in (transactions or {}).items()] or None,
        custom_metadata=None if note is None else as_metadata(note),
        max_commit_retries=0,
    )


@contextmanager
def appending(table: DeltaTable, what: str) -> Iterator[None]:
    """Turn a commit of `what` that another commit excluded into StorageUnavailable, and one to a
    table that cannot be written into TableUnsupported."""
    try:
        yield
    except CommitFailedError as error:
        raise not_committed(
            table.table_uri,
            error,
            f"{table.table_uri} was changed while {what} were appended to it ({error}): did "
            "another run take the lease over? None of them was appended. Try again: the next run "
            "appends them.",
        ) from error


def conformed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows in these columns; one that they do not have is null."""
    columns = [
        rows[field.name].cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
