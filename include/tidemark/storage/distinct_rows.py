"""Each row of a table once, whatever the types of its columns; pyarrow groups by no nested ones."""

from __future__ import annotations

import pyarrow as pa

from tidemark.storage.duckdb_in_utc import duckdb_in_utc


def distinct_rows(rows: pa.Table) -> pa.Table:
    """The rows, in no order, without those that equal another one; null equals null."""
    with duckdb_in_utc() as connection:
        connection.register("given", rows)
        found = connection.sql("SELECT DISTINCT * FROM given").to_arrow_table()
    return pa.table(found).cast(rows.schema)
