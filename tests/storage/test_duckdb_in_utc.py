"""DuckDB in UTC: what a block leaves behind, and what it does not."""

from __future__ import annotations

import subprocess
import sys

import duckdb
import pyarrow as pa
import pytest

from tests.kit.patience import HUNG_SECONDS
from tidemark.errors import MemoryExhausted
from tidemark.storage.duckdb_in_utc import duckdb_in_utc


def test_tables_names_and_settings_of_a_block_go_with_it() -> None:
    with duckdb_in_utc() as connection:
        connection.execute("SET TimeZone = 'Asia/Tokyo'")
        connection.execute("CREATE TEMP TABLE made AS SELECT 1")
        connection.register("named", pa.table({"a": [1]}))
        with duckdb_in_utc() as inner:
            assert inner.execute("SELECT current_setting('TimeZone')").fetchall() == [("UTC",)]
    with duckdb_in_utc() as connection:
        assert connection.execute("SELECT current_setting('TimeZone')").fetchall() == [("UTC",)]
        for name in ("made", "named"):
            with pytest.raises(duckdb.CatalogException, match=name):
                connection.execute(f"SELECT * FROM {name}")


FORKED = """
import os, sys
from tidemark.storage.duckdb_in_utc import duckdb_in_utc
with duckdb_in_utc() as connection:
    connection.execute("CREATE TABLE of_all AS SELECT * FROM range(5000000)")
    connection.execute("SELECT count(DISTINCT range) FROM of_all").fetchall()
child = os.fork()
with duckdb_in_utc() as connection:
    found = connection.execute("SELECT count(*) FROM duckdb_tables()").fetchall()
if not child:
    sys.exit(found != [(0,)])
sys.exit(os.waitpid(child, 0)[1] != 0)
"""


@pytest.mark.slow
def test_a_forked_process_has_a_database_of_its_own_and_ends() -> None:
    ended = subprocess.run([sys.executable, "-c", FORKED], timeout=HUNG_SECONDS, check=False)
    assert ended.returncode == 0


LIVING_ON = """
from threading import Event, Thread
from tidemark.storage.duckdb_in_utc import duckdb_in_utc
def ask(asked):
    with duckdb_in_utc() as connection:
        connection.execute("SELECT 1").fetchall()
    asked.set()
    return ask
def work(asked):
    kept = ask(asked)
    Event().wait()
asked = Event()
Thread(target=work, args=(asked,), daemon=True).start()
asked.wait()
"""


def test_a_process_ends_without_a_word_while_a_thread_lives_on() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LIVING_ON], timeout=60, check=True, capture_output=True
    )
    assert ended.stderr == b""


def test_an_error_that_ends_a_database_ends_it_for_one_block_alone() -> None:
    with duckdb_in_utc() as connection:
        connection.execute("CREATE TABLE of_all AS SELECT 1")
    with pytest.raises(duckdb.FatalException), duckdb_in_utc():
        raise duckdb.FatalException("the database has been invalidated")
    with duckdb_in_utc() as connection, pytest.raises(duckdb.CatalogException):
        connection.execute("SELECT * FROM of_all")


def test_a_disk_that_others_fill_is_told_as_one_and_other_errors_of_files_as_they_are() -> None:
    with pytest.raises(MemoryExhausted, match="a larger disk"), duckdb_in_utc():
        raise duckdb.IOException("IO Error: Could not write file: No space left on device")
    with pytest.raises(duckdb.IOException, match="Permission denied"), duckdb_in_utc():
        raise duckdb.IOException("IO Error: Cannot open file: Permission denied")
