"""DuckDB, as everything here asks it: instants are told and compared in UTC, in bounded memory.

What takes more than DuckDB's limit goes to its files, and the many rows of an answer to one of
ours (`arrow_of`): so the rows that a publish reads and writes are as many as the disk holds.
"""

from __future__ import annotations

import atexit
import errno
import mmap
import os
import signal
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import duckdb
import pyarrow as pa

from tidemark.errors import MemoryExhausted
from tidemark.storage.duckdb_bounds import bounds

_INTERRUPTED, _NO_ROOM = "Query interrupted", os.strerror(errno.ENOSPC)
# An answer of more bytes lies in a file; and how many rows of one are asked for at a time.
MOST_IN_MEMORY, _ROWS_AT_A_TIME = 128 * 1024**2, 100_000


@contextmanager
def duckdb_in_utc() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection for the block, whatever zone this machine has.

    What the block registers, and its temporary tables and settings, are its own and go with it. The
    database, in memory, stays for the process: to open one takes longer than most questions here.
    Raises MemoryExhausted where the limit does for a question neither in memory nor with files, or
    the disk of these is full.
    """
    try:
        with _opened(tuple(bounds().items())).cursor() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            yield connection
    except duckdb.OperationalError as error:
        # DuckDB's own limit is what was free when it began; afterwards others fill the disk.
        if isinstance(error, duckdb.OutOfMemoryException) or _NO_ROOM in str(error):
            raise _exhausted(error) from error
        raise
    except (duckdb.FatalException, duckdb.InternalException):
        # Such an error ends the database for all that comes after it.
        _opened.cache_clear()
        raise
    except RuntimeError as error:
        if str(error) == _INTERRUPTED:
            _hear_again()
        raise


def _exhausted(error: Exception) -> MemoryExhausted:
    return MemoryExhausted(
        f"DuckDB lacks memory, or room for its files in {bounds()['temp_directory']}: {error}\n"
        "What was written before stays; what was being computed is not written. Give it more "
        "(`duckdb: {memory_limit: …}` in the settings), or a larger disk "
        "(`temp_directory` there), and run again."
    )


def _hear_again() -> None:
    """DuckDB's bindings let Python hear a signal, and drop what its handler raises."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if callable(handler := signal.getsignal(number)):
            handler(number, None)


# Of one with other bounds none is kept.
@lru_cache(maxsize=1)
def _opened(bounds: tuple[tuple[str, int | str], ...]) -> duckdb.DuckDBPyConnection:
    # All that it reads is registered; text of users is parsed here, and is to open no file.
    return duckdb.connect(config={"enable_external_access": False, **dict(bounds)})


def one_number(connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    """The one number that a question gives."""
    ((number,),) = connection.execute(sql).fetchall()
    return int(number)


def arrow_of(found: duckdb.DuckDBPyRelation, schema: pa.Schema | None = None) -> pa.Table:
    """The rows that a question gives, as `held` holds them; in the columns of `schema`, by their
    order, where one is given."""
    reader = found.to_arrow_reader(_ROWS_AT_A_TIME)
    if schema is None:
        return held(reader, reader.schema)
    return held((batch.cast(schema) for batch in reader), schema)


def answer(sql: str, schema: pa.Schema | None = None, **given: Any) -> pa.Table:
    """The rows that a question of these relations gives, by their names, as `arrow_of` has them."""
    with _given(given) as connection:
        return arrow_of(connection.sql(sql), schema)


def answers(sql: str, values: Sequence[object] = (), **given: Any) -> list[tuple[Any, ...]]:
    """What such a question gives as tuples, with these values of its parameters."""
    with _given(given) as connection:
        found: list[tuple[Any, ...]] = connection.execute(sql, values).fetchall()
        return found


@contextmanager
def _given(relations: Mapping[str, Any]) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb_in_utc() as connection:
        for name, rows in relations.items():
            connection.register(name, rows)
        yield connection


def held(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """The rows of some batches; many are held by a file without a name, which goes with them.
    Raises MemoryExhausted where the disk is full."""
    kept, size, rest = list[pa.RecordBatch](), 0, iter(batches)
    for batch in rest:
        kept.append(batch)
        size += batch.nbytes
        if size > MOST_IN_MEMORY:
            break
    else:
        return pa.Table.from_batches(kept, schema)
    with tempfile.TemporaryFile(dir=str(bounds()["temp_directory"])) as file:
        try:
            with pa.ipc.new_file(file, schema) as writer:
                while kept:
                    writer.write_batch(kept.pop(0))
                for batch in rest:
                    writer.write_batch(batch)
            file.flush()
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise _exhausted(error) from error
            raise
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return pa.ipc.open_file(pa.BufferReader(pa.py_buffer(mapped))).read_all()


# A forked process has none of its threads, and would wait for them when it ends.
os.register_at_fork(before=_opened.cache_clear)
# A thread that lives on at the end keeps the connection from being freed, and DuckDB's bindings
# would tell of that in forty lines.
atexit.register(_opened.cache_clear)


def distinct_rows(rows: pa.Table) -> pa.Table:
    """The rows, in no order, without those that equal another one; null equals null. Whatever the
    types of the columns: pyarrow groups by no nested ones."""
    return answer("SELECT DISTINCT * FROM given", rows.schema, given=rows)
