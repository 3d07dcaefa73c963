"""The visits of the access log: gold's sessions are those that DuckDB finds in the same files."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from deltalake import DeltaTable

from tests.end_to_end.test_access_log import FILES, land, texts
from tests.kit.running import REPOSITORY, SamplePlace, query, succeed
from tests.streaming.audits import audit
from tidemark.gold.state import gold_state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# By half an hour, in DuckDB's words.
EXPECTED = """
    SELECT min(t), max(t) + 1800000000, client, count(*), count_if(NOT path LIKE '%.%'),
        count_if(status >= 400), sum(bytes)::BIGINT, count(*)
    FROM (
        SELECT *, sum(begins) OVER (PARTITION BY client ORDER BY t, request_id) AS number
        FROM (
            SELECT *, coalesce(t - lag(t) OVER (
                PARTITION BY client ORDER BY t, request_id) > 1800000000, true)::INT AS begins
            FROM (SELECT *, epoch_us("timestamp"::TIMESTAMP) AS t FROM read_json(?, columns = {
                'timestamp': 'VARCHAR', 'request_id': 'VARCHAR', 'client': 'VARCHAR',
                'path': 'VARCHAR', 'status': 'INTEGER', 'bytes': 'BIGINT'}))))
    GROUP BY client, number
"""
GOLD = """
    SELECT epoch_us(window_start), epoch_us(window_end), client, requests, pages, errors, bytes,
        "rows"
    FROM gold
"""


@pytest.mark.parametrize(
    "runs",
    [
        # Whole days are late, among them the beginnings and the ends of visits.
        pytest.param([FILES[6:13], FILES[:6], FILES[13:]], id="the first files come late"),
        pytest.param(
            [FILES[n : n + 4] for n in range(0, 20, 4)], id="in order", marks=pytest.mark.long
        ),
    ],
)
def test_gold_has_the_visits_that_duckdb_finds(
    spark: SparkSession, tmp_path: Path, runs: list[list[Path]]
) -> None:
    file = REPOSITORY / "include" / "pipelines" / "site_visits.yaml"
    place, landed = SamplePlace(tmp_path, file), list[Path]()
    for number, files in enumerate(runs):
        landed += [land(place, path, len(landed) + n) for n, path in enumerate(files)]
        succeed(spark, place, f"run-{number}")
        check_gold(place, landed)
    assert place.gold("visits").num_rows > 2_000
    assert audit(spark, place).outcome == "equal"


def check_gold(place: SamplePlace, landed: list[Path]) -> None:
    with duckdb.connect() as connection:
        expected = set(connection.execute(EXPECTED, [texts(landed)]).fetchall())
    found: list[tuple[Any, ...]] = query(GOLD, gold=place.gold("visits"))
    close = gold_state(DeltaTable(place.places.gold("visits"))).close_ms
    closed = {visit for visit in expected if visit[1] <= close * 1_000}
    assert len(found) == len(set(found))
    assert closed <= set(found) <= expected
    # The newest ones go on, or have only just ended.
    hour = timedelta(hours=1) // timedelta(microseconds=1)
    assert all(visit[1] > max(v[1] for v in expected) - 2 * hour for visit in expected - closed)
