"""The page on reading the tables: each of its examples is run, and they agree."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit.running import REPOSITORY, SamplePlace, succeed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (REPOSITORY / "docs" / "reading.md").read_text()
ACCESS_LOG = REPOSITORY / "include" / "pipelines" / "access_log.yaml"
# What DuckDB says of the same files: status, requests and errors of 18 May.
DAY = """
    SELECT status, count(*), count(*) FILTER (status >= 400) FROM read_json('{}/*.json.gz')
    WHERE timestamp::DATE = DATE '2015-05-18' GROUP BY status ORDER BY status
"""


def example(title: str, language: str = "python", number: int = 0) -> str:
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    found = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert found, f"no {language} under {title}"
    return str(found[number])


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the page's paths hold the sample after one run."""
    folder = tmp_path_factory.mktemp("reading")
    place = SamplePlace(folder / "warehouse", ACCESS_LOG)
    source = REPOSITORY / "include" / "samples" / "access_log"
    shutil.copytree(source, folder / "warehouse" / "landing" / "access_log")
    (folder / "docs" / "images").mkdir(parents=True)
    succeed(spark, place)
    return folder


@pytest.fixture(scope="module")
def expected(folder: Path) -> list[tuple[int, int, int]]:
    import duckdb

    with duckdb.connect() as connection:
        files = folder / "warehouse" / "landing" / "access_log"
        return [tuple(map(int, row)) for row in connection.sql(DAY.format(files)).fetchall()]


EXAMPLES = (
    *(("`tidemark.read`", 0), ("`tidemark.read`", 1), ("pandas", 0), ("Polars", 0), ("DuckDB", 0)),
    *(("Only what is final", 0), ("What was rejected, and why", 0), ("A plot", 0)),
)
# Each example by itself, but for what is imported: one process takes a fraction of the time.
EACH = """
import io, json, sys, traceback
from contextlib import redirect_stdout
said = []
for code in json.load(sys.stdin):
    with redirect_stdout(io.StringIO()) as out:
        try:
            exec(code, {"__name__": "__main__"})
            failed = None
        except Exception:
            failed = traceback.format_exc()
    said.append((out.getvalue(), failed))
print(json.dumps(said))
"""
Outputs = dict[tuple[str, int], str]


@pytest.fixture(scope="module")
def outputs(folder: Path) -> Outputs:
    """What the page's examples print."""
    done = subprocess.run(
        [sys.executable, "-c", EACH],
        input=json.dumps([example(title, number=number) for title, number in EXAMPLES]),
        cwd=folder,
        env=os.environ | {"TIDEMARK_ROOT": "warehouse", "TIDEMARK_PIPELINES": "pipelines"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert [failed for _, failed in said] == [None] * len(EXAMPLES)
    return {which: out for which, (out, _) in zip(EXAMPLES, said, strict=True)}


def numbers(text: str) -> list[tuple[int, ...]]:
    """The rows of a printed table that are three whole numbers."""
    rows = [re.findall(r"(?<![\w.])\d+(?![\w.])", line) for line in text.splitlines()]
    return [tuple(map(int, row)) for row in rows if len(row) == 3]


@pytest.mark.parametrize("title", ["`tidemark.read`", "pandas", "Polars", "DuckDB"])
def test_the_example_gives_what_the_source_files_say(
    title: str, outputs: Outputs, expected: list[tuple[int, int, int]]
) -> None:
    assert numbers(outputs[title, 0]) == expected


def test_the_spark_sql_example_gives_what_the_source_files_say(
    spark: SparkSession, folder: Path, expected: list[tuple[int, int, int]]
) -> None:
    sql = example("Spark SQL", "sql").replace("`warehouse/", f"`{folder}/warehouse/")
    assert [tuple(row) for row in spark.sql(sql).collect()] == expected


def test_the_lazy_example_reads_the_same_gold(outputs: Outputs) -> None:
    assert outputs["`tidemark.read`", 1].startswith("[(10000, ")


@pytest.mark.parametrize("title", ["Only what is final", "What was rejected, and why"])
def test_the_example_runs(title: str, outputs: Outputs) -> None:
    assert outputs[title, 0]


def test_the_plot_is_drawn(folder: Path, outputs: Outputs) -> None:
    assert ("A plot", 0) in outputs
    image = folder / "docs" / "images" / "access_log.png"
    assert image.read_bytes().startswith(b"\x89PNG")
    assert image.stat().st_size > 10_000
