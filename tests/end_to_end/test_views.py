"""Views are what DuckDB selects from gold, whatever made gold what it is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.end_to_end.generations import (
    WINDOW,
    changed,
    goes_on,
    migrated,
    rolled_back,
    run_three_times,
    table,
)
from tests.kit.killed import killed
from tests.kit.rewinding import rewind_warm
from tests.kit.running import Place, query, run_warm, succeed
from tests.kit.windows import at
from tests.streaming.audits import backfill, event
from tidemark import read
from tidemark.runs.publish_held import publish_and_record
from tidemark.runs.results.result import RunResult
from tidemark.runs.unfinished_act import unfinished_act
from tidemark.runs.without_spark import run_without_spark
from tidemark.upkeep.maintenance.maintain import plan_maintenance

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VIEWS: dict[str, dict[str, Any]] = {
    "busiest": {"having": "key is not null", "top": {"n": 1, "by": "amount"}},
    "large": {"having": "amount > 20"},
}
BROKEN = {"having": "amount * 9223372036854775807 > 20"}
SAME = {
    "busiest": """SELECT *, 1 AS rank FROM gold WHERE key IS NOT NULL QUALIFY
        row_number() OVER (PARTITION BY window_start ORDER BY amount DESC NULLS LAST, key) = 1""",
    "large": "FROM gold WHERE amount > 20",
    "small": "FROM gold WHERE amount <= 20",
}


def check(place: Place) -> None:
    gold = place.gold()
    for name in place.pipeline.tables["per_10m"].views:
        found = read(place.name, f"per_10m.{name}", settings=place.settings)
        assert sorted(map(repr, query("FROM found", found=found))) == sorted(
            map(repr, query(SAME[name], gold=gold))
        )


def published(place: Place, run_id: str) -> RunResult:
    """A run without Spark, and its publish."""
    uri, now = place.places.result(run_id), datetime.now(UTC)
    held = run_without_spark(place.run(run_id), now, uri)
    assert isinstance(held, RunResult)
    return publish_and_record(place.pipeline, held, uri, place.settings)


@pytest.fixture
def begun(spark: SparkSession, tmp_path: Path) -> Place:
    """Three runs with late rows and two views."""
    place = run_three_times(spark, tmp_path / "root", "update", "memory", views=VIEWS)
    check(place)
    return place


@pytest.mark.second
def test_views_follow_gold_through_runs_killed_held_and_without_spark(
    spark: SparkSession, begun: Place
) -> None:
    place = begun
    place.land("4.json", [event(10, 23, "a", 1_000), event(11, 4, "b", 60)])
    with killed("before", "view"):
        assert run_warm(spark, place, "killed").error is not None
    assert 1_022 in place.gold().column("amount").to_pylist()
    left = read(place.name, "per_10m.large", settings=place.settings)
    assert 1_022 not in left.column("amount").to_pylist()
    succeed(spark, place, "next")
    check(place)
    place.land("5.json", [event(10, 34, "b", 70)])
    held = succeed(spark, place, "held", hold=True)
    uri = place.places.result("held")
    assert publish_and_record(place.pipeline, held, uri, place.settings).error is None
    check(place)
    # A view more is no change of what the queries follow from.
    views = {**VIEWS, "small": {"having": "amount <= 20"}}
    more = replace(place, content={**place.content, "tables": table("update", views=views)})
    assert published(more, "more").error is None
    check(more)
    broken = {**views, "large": BROKEN}
    other = replace(place, content={**place.content, "tables": table("update", views=broken)})
    result = published(other, "broken")
    assert result.error is not None
    assert result.error.type == "ViewBroken"
    # Gold was published, and the run says so.
    assert not result.held
    assert result.tables["per_10m"].gold is not None
    check(more)
    assert published(more, "mended").error is None
    goes_on(spark, more)
    check(more)


@pytest.mark.second
def test_views_follow_backfills_migrations_rewinds_and_the_way_back(
    spark: SparkSession, begun: Place
) -> None:
    place = begun
    place.land("late.json", [event(10, 24, "c", 90)])
    succeed(spark, place, "run-4")
    # Another table of the file may have no gold yet.
    tables = {**table("update", views=VIEWS), "another": {**WINDOW, "views": VIEWS}}
    backfill(spark, replace(place, content={**place.content, "tables": tables}), at(10), at(10, 50))
    check(place)
    more = changed(place, views=VIEWS, measures={**WINDOW["measures"], "most": "max(amount)"})
    migrated(spark, more)
    check(more)
    assert "most" in read(place.name, "per_10m.large", settings=place.settings).column_names
    rolled_back(more)
    succeed(spark, place, "run-5")
    check(place)
    planned = plan_maintenance(place.pipeline, place.settings, datetime.now(UTC))
    assert {f"per_10m/views/{name}" for name in VIEWS} < {plan.name for plan in planned}
    broken = changed(place, views={**VIEWS, "large": BROKEN})
    result = rewind_warm(spark, broken, "run-3")
    assert result.error is not None
    assert result.error.type == "ViewBroken"
    # It is finished all the same, and the next run writes the view.
    assert unfinished_act(place.run("next").warehouse) is None
    succeed(spark, place, "next")
    check(place)
    goes_on(spark, place)
    check(place)
