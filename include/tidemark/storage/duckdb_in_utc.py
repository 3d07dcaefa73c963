"""DuckDB, as everything here asks it: instants are told and compared in UTC."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb


@contextmanager
def duckdb_in_utc() -> Iterator[duckdb.DuckDBPyConnection]:
    """A database in memory for the block, whatever zone this machine has."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection
