"""The access log: gold equals what DuckDB computes from the same files, however they arrive."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, composite

from tests.kit.running import REPOSITORY, Place, succeed
from tidemark.pipeline.yaml_file import read_document

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = sorted((REPOSITORY / "include" / "samples" / "access_log").glob("part-*.json.gz"))
CONTENT = read_document(REPOSITORY / "include" / "pipelines" / "access_log.yaml").content

Rows = list[tuple[Any, ...]]

# What each table is to hold, in DuckDB's words: of each hour and of each day since 1970.
EXPECTED = {
    "status_1h": """
        SELECT epoch_us("timestamp") // 3600000000 * 3600000000 AS start, status AS key,
            count(*), count_if(status >= 400), sum(bytes)::BIGINT, count(*)
        FROM requests GROUP BY ALL
    """,
    "path_1d": """
        SELECT epoch_us("timestamp") // 86400000000 * 86400000000 AS start, path AS key,
            count(*), count(*)
        FROM requests GROUP BY ALL
    """,
}
GOLD = {
    "status_1h": "status_code, requests, errors, bytes, rows",
    "path_1d": "path, requests, rows",
}


@composite
def arrivals(draw: DrawFn, most_runs: int, fewest_in_a_batch: int) -> Any:
    """The files in some order, cut into runs, and how many of them a batch may hold."""
    order = draw(st.permutations(FILES))
    cuts = draw(st.sets(st.integers(1, len(FILES) - 1), max_size=most_runs - 1))
    ends = [0, *sorted(cuts), len(FILES)]
    runs = [order[first:last] for first, last in pairwise(ends)]
    return runs, draw(st.none() | st.integers(fewest_in_a_batch, len(FILES)))


@pytest.mark.long
# Newest first, so that every later file would be late but for the wide watermark.
@example(arrival=([FILES[:12:-1], FILES[12:5:-1], FILES[5::-1]], 4))
@settings(max_examples=2)
@given(arrival=arrivals(most_runs=3, fewest_in_a_batch=4))
def test_gold_equals_duckdb_after_each_run_for_random_splits(
    spark: SparkSession, arrival: tuple[list[list[Path]], int | None]
) -> None:
    check_arrival(spark, *arrival)


@pytest.mark.long
@settings(max_examples=25)
@given(arrival=arrivals(most_runs=8, fewest_in_a_batch=1))
def test_gold_equals_duckdb_after_each_run_for_many_random_splits(
    spark: SparkSession, arrival: tuple[list[list[Path]], int | None]
) -> None:
    check_arrival(spark, *arrival)


def check_arrival(spark: SparkSession, runs: list[list[Path]], in_a_batch: int | None) -> None:
    advanced = {"max_files_per_batch": in_a_batch} if in_a_batch else {}
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder), CONTENT | {"advanced": advanced}, "access_log")
        landed: list[Path] = []
        for number, files in enumerate(runs):
            landed += [land(place, path, len(landed) + n) for n, path in enumerate(files)]
            result = succeed(spark, place, f"run-{number}")
            assert result.rows.read == result.rows.accepted == lines(files)
            assert gold(place) == expected(landed)
        requests = place.bronze().column("request_id").to_pylist()
        assert len(requests) == len(set(requests)) == 10_000


def land(place: Place, path: Path, position: int) -> Path:
    """A copy of the file; the engine reads files in the order of their times."""
    target = place.root / "landing" / "access_log" / path.name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)
    os.utime(target, (1_700_000_000 + position, 1_700_000_000 + position))
    return target


def lines(files: Sequence[Path]) -> int:
    with duckdb.connect() as connection:
        found = connection.execute("SELECT count(*) FROM read_json(?)", [texts(files)]).fetchone()
    assert found is not None
    return int(found[0])


def expected(files: Sequence[Path]) -> dict[str, Rows]:
    with duckdb.connect() as connection:
        connection.execute(
            'CREATE TABLE requests AS SELECT * REPLACE ("timestamp"::TIMESTAMP AS "timestamp") '
            "FROM read_json(?, columns = {'timestamp': 'VARCHAR', 'path': 'VARCHAR', "
            "'status': 'INTEGER', 'bytes': 'BIGINT'})",
            [texts(files)],
        )
        return {name: ordered(connection.sql(sql).fetchall()) for name, sql in EXPECTED.items()}


def gold(place: Place) -> dict[str, Rows]:
    """Gold as EXPECTED has it; every window is open, and none was ever corrected."""
    found = {}
    with duckdb.connect() as connection:
        for name, columns in GOLD.items():
            rows = place.gold(name)
            assert set(rows.column("status").to_pylist()) == {"provisional"}
            assert set(rows.column("revision").to_pylist()) == {0}
            connection.register("gold", rows)
            sql = f"SELECT epoch_us(window_start), {columns} FROM gold"
            found[name] = ordered(connection.sql(sql).fetchall())
    return found


def ordered(rows: Rows) -> Rows:
    return sorted(rows, key=repr)


def texts(files: Sequence[Path]) -> list[str]:
    return [str(path) for path in files]
