"""`tidemark ops`: a view of all pipelines' tables, as SQL."""

from __future__ import annotations

from pathlib import Path

import duckdb
from typer.testing import CliRunner

from tests.storage.test_ops_of_all import RUNS, of_root
from tidemark.cli.main import app

# The extension `delta` comes from the net: what it would find, of tables whose files all count.
DELTA_SCAN = """
    CREATE MACRO delta_scan(place) AS TABLE
    SELECT * FROM read_parquet(place || '/**/*.parquet', hive_partitioning = true)
"""


def test_the_view_for_duckdb_has_each_row_that_counts_once(tmp_path: Path) -> None:
    place = of_root(tmp_path / "it's")
    given = ["ops", "runs", "--sql", "duckdb"]
    asked = CliRunner().invoke(app, given, env=place.variables)
    assert asked.exit_code == 0, asked.output
    with duckdb.connect() as connection:
        connection.execute(DELTA_SCAN)
        connection.execute(asked.output)
        found = connection.execute("SELECT pipeline, run FROM tidemark_runs ORDER BY ALL")
        assert found.fetchall() == RUNS
        lacking = "SELECT pipeline FROM tidemark_runs WHERE counted IS NULL"
        assert connection.execute(lacking).fetchall() == [("words",)]


def test_a_table_that_nobody_has_and_a_name_that_is_none_are_told(tmp_path: Path) -> None:
    place = of_root(tmp_path / "root")
    asked = CliRunner().invoke(app, ["ops", "quality", "--sql", "spark"], env=place.variables)
    assert asked.exit_code == 1
    asked = CliRunner().invoke(app, ["ops", "run", "--sql", "spark"], env=place.variables)
    assert asked.exit_code == 2
