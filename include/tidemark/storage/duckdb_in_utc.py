"""DuckDB, as everything here asks it: instants are told and compared in UTC."""

from __future__ import annotations

import atexit
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import duckdb
import pyarrow as pa

_INTERRUPTED = "Query interrupted"


@contextmanager
def duckdb_in_utc() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection for the block, whatever zone this machine has.

    What the block registers, and its temporary tables and settings, are its own and go with it. The
    database, in memory, stays for the process: to open one takes longer than most questions here.
    """
    try:
        with _database().cursor() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            yield connection
    except (duckdb.FatalException, duckdb.InternalException):
        # Such an error ends the database for all that comes after it.
        _database.cache_clear()
        raise
    except RuntimeError as error:
        if str(error) == _INTERRUPTED:
            _hear_again()
        raise


def _hear_again() -> None:
    """DuckDB's bindings let Python hear a signal, and drop what its handler raises."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if callable(handler := signal.getsignal(number)):
            handler(number, None)


def bound_threads(number: int) -> None:
    """Let no question of this process take more threads: of a process that has other work too."""
    _LIMITS["threads"] = number
    _database.cache_clear()


_LIMITS: dict[str, int] = {}


@cache
def _database() -> duckdb.DuckDBPyConnection:
    # All that it reads is registered; text of users is parsed here, and is to open no file.
    return duckdb.connect(config={"enable_external_access": False, **_LIMITS})


# A forked process has none of its threads, and would wait for them when it ends.
os.register_at_fork(before=_database.cache_clear)
# A thread that lives on at the end keeps the connection from being freed, and DuckDB's bindings
# would tell of that in forty lines.
atexit.register(_database.cache_clear)


def distinct_rows(rows: pa.Table) -> pa.Table:
    """The rows, in no order, without those that equal another one; null equals null. Whatever the
    types of the columns: pyarrow groups by no nested ones."""
    with duckdb_in_utc() as connection:
        connection.register("given", rows)
        found = connection.sql("SELECT DISTINCT * FROM given").to_arrow_table()
    return pa.table(found).cast(rows.schema)
