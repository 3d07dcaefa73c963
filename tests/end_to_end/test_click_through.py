"""Impressions with their clicks: gold is what DuckDB joins over the landed files, run by run."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest
from deltalake import DeltaTable

from samples.impressions import Clicks, Spec, generate
from tests.kit.running import REPOSITORY, SamplePlace, query, succeed
from tests.streaming.audits import audit
from tidemark.gold.state import gold_state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
EXPECTED = """
    SELECT epoch_us(start), spotId, count(*), count(c.impressionId),
        sum(c.cost::DECIMAL(10, 2))::VARCHAR, count(c.impressionId), count(*)
    FROM (
        SELECT DISTINCT *, time_bucket(INTERVAL 10 MINUTE, "timestamp"::TIMESTAMPTZ) AS start
        FROM read_json(?, columns = {
            'timestamp': 'VARCHAR', 'spotId': 'BIGINT', 'impressionId': 'VARCHAR'})
    ) i LEFT JOIN read_json(?, columns = {
        'timestamp': 'VARCHAR', 'impressionId': 'VARCHAR', 'cost': 'VARCHAR'}) c
    ON c.impressionId = i.impressionId
        AND c."timestamp"::TIMESTAMPTZ - i."timestamp"::TIMESTAMPTZ
            BETWEEN INTERVAL 0 MINUTE AND INTERVAL 30 MINUTE
    GROUP BY ALL
"""
GOLD = """
    SELECT epoch_us(window_start), spotId, impressions, clicks, cost::VARCHAR, matches, "rows"
    FROM gold
"""


@pytest.mark.long
def test_gold_has_the_clicks_of_each_spot_though_some_come_late(
    spark: SparkSession, tmp_path: Path
) -> None:
    spec = Spec(
        seed=5,
        rows=3_000,
        files=3,
        start=NOON,
        span=timedelta(hours=3),
        now=NOON + timedelta(hours=4),
        spots=5,
        late=0.02,
        duplicates=0.02,
    )
    made = [tmp_path / "made" / name for name in ("ad_impressions", "ad_clicks")]
    generate(spec, made[0], tmp_path / "manifest.json", Clicks(share=0.2, late=0.3), made[1])
    pipelines = REPOSITORY / "include" / "pipelines"
    clicks, through = (
        SamplePlace(tmp_path, pipelines / f"{name}.yaml") for name in ("ad_clicks", "click_through")
    )
    landing = tmp_path / "landing"
    for number in range(spec.files):
        for folder in made:
            (landing / folder.name).mkdir(parents=True, exist_ok=True)
            shutil.copy(sorted(folder.iterdir())[number], landing / folder.name)
        succeed(spark, clicks, f"run-{number}")
        succeed(spark, through, f"run-{number}")
        check_gold(through, landing)
    assert through.gold("spot_10m").num_rows > 50
    assert audit(spark, through).outcome == "equal"


def check_gold(place: SamplePlace, landing: Path) -> None:
    files = [
        sorted(map(str, (landing / name).iterdir())) for name in ("ad_impressions", "ad_clicks")
    ]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        expected = connection.execute(EXPECTED, files).fetchall()
    close = gold_state(DeltaTable(place.places.gold("spot_10m"))).close_ms * 1_000
    length = 10 * 60 * 1_000_000
    closed = sorted((row for row in expected if row[0] + length <= close), key=repr)
    assert sorted(query(GOLD, gold=place.gold("spot_10m")), key=repr) == closed
