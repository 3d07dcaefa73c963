"""A pipeline that is housekept between held runs, and one that never is: gold is the same."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.runs import SCHEDULED, Place, clicks, sorted_rows, succeed
from tests.upkeep.stores import NOW
from tidemark.pipeline.kept_batches import KEPT_BY_ENGINE
from tidemark.upkeep.pipeline_housekeeping import housekeep_pipeline
from tidemark.upkeep.record import Kept

KEEP = 2
ADVANCED = {"keep_batches": KEEP, "spark": {KEPT_BY_ENGINE: "1"}}


def rows(number: int) -> list[dict[str, Any]]:
    """Half an hour of new events, and one that is late for all but the first run."""
    stamps = [f"2026-07-01T{8 + number:02}:{minute:02}:00Z" for minute in (0, 10, 20)]
    late = "2026-07-01T08:05:00Z"
    return [{"at": at, "key": "k", "amount": number} for at in (*stamps, late)]


def run(spark: SparkSession, place: Place, number: int) -> None:
    place.land(f"{number}.json", rows(number))
    succeed(spark, place, f"run-{number}", scheduled=SCHEDULED + timedelta(hours=8 + number))


def housekeep(place: Place, run_id: str) -> tuple[Kept, ...]:
    return housekeep_pipeline(place.pipeline, place.settings, run_id, NOW)


def test_batches_of_a_held_run_are_kept_until_they_are_published(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path, clicks(advanced=ADVANCED))
    run(spark, place, 0)
    for number in (1, 2, 3):
        place.land(f"{number}.json", rows(number))
        at = SCHEDULED + timedelta(hours=8 + number)
        succeed(spark, place, f"run-{number}", hold=True, scheduled=at)
        housekeep(place, f"run-{number}")
    place.land("4.json", rows(4))
    succeed(spark, place, "run-4", scheduled=SCHEDULED + timedelta(hours=12))
    twin = Place(tmp_path / "twin", clicks(advanced=ADVANCED))
    for number in range(5):
        run(spark, twin, number)
    differing = ["updated_by", "revision", "status"]
    assert sorted_rows(place.gold(), differing) == sorted_rows(twin.gold(), differing)
