"""The page on reading the tables: each of its examples is run, and they agree."""

from __future__ import annotations

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


def output_of(code: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=os.environ | {"TIDEMARK_ROOT": "warehouse", "TIDEMARK_PIPELINES": "pipelines"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def numbers(text: str) -> list[tuple[int, ...]]:
    """The rows of a printed table that are three whole numbers."""
    rows = [re.findall(r"(?<![\w.])\d+(?![\w.])", line) for line in text.splitlines()]
    return [tuple(map(int, row)) for row in rows if len(row) == 3]


@pytest.mark.parametrize("title", ["`tidemark.read`", "pandas", "Polars", "DuckDB"])
def test_the_example_gives_what_the_source_files_say(
    title: str, folder: Path, expected: list[tuple[int, int, int]]
) -> None:
    assert numbers(output_of(example(title), folder)) == expected


def test_the_spark_sql_example_gives_what_the_source_files_say(
    spark: SparkSession, folder: Path, expected: list[tuple[int, int, int]]
) -> None:
    sql = example("Spark SQL", "sql").replace("`warehouse/", f"`{folder}/warehouse/")
    assert [tuple(row) for row in spark.sql(sql).collect()] == expected


def test_the_lazy_example_reads_the_same_gold(folder: Path) -> None:
    told = output_of(example("`tidemark.read`", number=1), folder)
    assert told.startswith("[(10000, ")


@pytest.mark.parametrize("title", ["Only what is final", "What was rejected, and why"])
def test_the_example_runs(title: str, folder: Path) -> None:
    assert output_of(example(title), folder)


def test_the_plot_is_drawn(folder: Path) -> None:
    output_of(example("A plot"), folder)
    image = folder / "docs" / "images" / "access_log.png"
    assert image.read_bytes().startswith(b"\x89PNG")
    assert image.stat().st_size > 10_000
