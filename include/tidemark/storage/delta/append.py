"""Append rows to a table without a JVM, in one commit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from tidemark.errors import StorageUnavailable
from tidemark.storage.delta.history import schema_of


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
        )


@contextmanager
def appending(table: DeltaTable, what: str) -> Iterator[None]:
    """Turn a commit of `what` that another commit excluded into StorageUnavailable."""
    try:
        yield
    except CommitFailedError as error:
        raise StorageUnavailable(
            f"{table.table_uri} was changed while {what} were appended to it ({error}): did "
            "another run take the lease over? None of them was appended. Try again: the next run "
            "appends them."
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
