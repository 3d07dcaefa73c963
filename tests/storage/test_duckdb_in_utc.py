"""DuckDB in UTC: what a block leaves behind, and what it does not."""

from __future__ import annotations

import os

import duckdb
import pyarrow as pa
import pytest

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


def test_a_forked_process_asks_a_database_of_its_own() -> None:
    with duckdb_in_utc() as connection:
        connection.execute("CREATE OR REPLACE TABLE of_all AS SELECT 1")
        child = os.fork()
        if not child:
            with duckdb_in_utc() as forked:
                found = forked.execute("SELECT count(*) FROM duckdb_tables()").fetchall()
            os._exit(0 if found == [(0,)] else 1)
        assert os.waitpid(child, 0)[1] == 0
        connection.execute("DROP TABLE of_all")


def test_an_error_that_ends_a_database_ends_it_for_one_block_alone() -> None:
    with duckdb_in_utc() as connection:
        connection.execute("CREATE TABLE of_all AS SELECT 1")
    with pytest.raises(duckdb.FatalException), duckdb_in_utc():
        raise duckdb.FatalException("the database has been invalidated")
    with duckdb_in_utc() as connection, pytest.raises(duckdb.CatalogException):
        connection.execute("SELECT * FROM of_all")
