"""The page on the ledger: each of its queries is run, and gives what stands below it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.end_to_end.conftest import Worked
from tests.end_to_end.pages import as_table, examples_under, page, table_under
from tidemark.ledger.ledger import SCHEMA

PAGE = page("ledger.md")

QUERIES = [
    ("Does everything balance?", 0, "balance"),
    ("Was anything rejected, and why?", 0, "rejected"),
    ("Was anything rejected, and why?", 1, "rejects"),
    ("Where did this row go?", 0, "where"),
    ("How many rows were late?", 0, "late"),
    ("Which windows were corrected, and why?", 0, "corrected"),
]


def answer(worked: Worked, title: str, number: int) -> str:
    """A query of the page, asked of the worked example."""
    places = worked.place.places
    tables = {
        "ledger": worked.place.table(places.ledger),
        "bronze": worked.place.bronze(),
        "rejects": worked.place.rejects(),
        "changes": pa.table(DeltaTable(places.changes("update", 1)).load_cdf(starting_version=0)),
    }
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, table in tables.items():
            connection.register(name, table)
        found = connection.sql(examples_under(PAGE, title, "sql")[number])
        return as_table(found.columns, found.fetchall())


@pytest.mark.parametrize(("title", "number", "name"), QUERIES)
def test_the_query_gives_what_stands_below_it(
    impressions: Worked, title: str, number: int, name: str
) -> None:
    assert answer(impressions, title, number) == table_under(PAGE, name)


def test_every_query_of_the_page_is_run() -> None:
    assert PAGE.count("```sql\n") == len(QUERIES)


def test_the_python_example_runs_where_the_tables_are(impressions: Worked, tmp_path: Path) -> None:
    (tmp_path / "warehouse").symlink_to(impressions.place.root)
    (code,) = examples_under(PAGE, "Asking", "python")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    # It reads with delta-rs's file system, which can abort as the process ends (docs/reading.md).
    aborted = "terminate called without an active exception" in done.stderr
    assert done.returncode == 0 or aborted, done.stderr
    assert re.search(r"ingest +│ +7 ", done.stdout)
    assert re.search(r"stream +│ +21 ", done.stdout)


def test_every_column_is_explained() -> None:
    explained = PAGE.split("## Columns\n")[1].split("\n## ")[0]
    assert [name for name in SCHEMA.names if f"`{name}`" not in explained] == []
