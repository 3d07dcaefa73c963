"""The visits of the access log: gold's sessions are those that DuckDB finds in the same files, and
what follows each error is what a plain loop finds."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from deltalake import DeltaTable

from tests.end_to_end.test_access_log import FILES, land, texts
from tests.kit.running import REPOSITORY, SamplePlace, query, succeed
from tests.streaming.audits import audit
from tidemark.gold.state import gold_state
from tidemark.pipeline.instants import epoch_us

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


@pytest.mark.long
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
        check_after_errors(place, landed)
    assert place.gold("visits").num_rows > 2_000
    assert place.gold("after_errors").num_rows > 100
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


def check_after_errors(place: SamplePlace, landed: list[Path]) -> None:
    expected = set(after_errors(landed))
    found: list[tuple[Any, ...]] = query(
        """
        SELECT client, epoch_us(window_start), epoch_us(window_end), outcome, path, tries, waited
        FROM gold
        """,
        gold=place.gold("after_errors"),
    )
    assert len(found) == len(set(found))
    close = gold_state(DeltaTable(place.places.gold("after_errors"))).close_ms * 1_000
    assert set(found) == {one for one in expected if one[2] <= close}


def after_errors(landed: list[Path]) -> Iterator[tuple[Any, ...]]:
    """What becomes of each error, by a loop over each client's requests."""
    requests: defaultdict[str, list[tuple[int, str, str, int]]] = defaultdict(list)
    for path in landed:
        for line in gzip.decompress(path.read_bytes()).decode().splitlines():
            row = json.loads(line)
            at = epoch_us(datetime.fromisoformat(row["timestamp"]))
            told = (at, row["request_id"], row["path"], row["status"])
            requests[row["client"]].append(told)
    timeout = 30 * 60 * 1_000_000
    for client, some in requests.items():
        visits: list[list[tuple[int, str, str, int]]] = []
        for one in sorted(some):
            if not visits or one[0] - visits[-1][-1][0] > timeout:
                visits.append([])
            visits[-1].append(one)
        for visit in visits:
            failed: list[tuple[int, str]] = []
            for at, _, asked, status in visit:
                if status >= 400:
                    failed.append((at, asked))
                elif failed:
                    first, where = failed[0]
                    told = ("came back", where, len(failed), (at - first) / 1_000_000)
                    yield (client, visit[0][0], at, *told)
                    failed = []
            if failed:
                left = ("left", failed[0][1], len(failed), None)
                yield (client, visit[0][0], visit[-1][0] + timeout, *left)
