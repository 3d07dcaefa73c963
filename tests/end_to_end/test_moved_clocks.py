"""A country moves its clocks, and the machine learns of it later: no row is counted twice."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.end_to_end.generations import migrated
from tests.kit.running import Place, clicks, run_warm, succeed
from tests.kit.time_zones import clocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ZONE = "Asia/Almaty"
MOVED = datetime(2024, 2, 29, 18, tzinfo=UTC)


def of_march(*days: int) -> list[dict[str, Any]]:
    return [{"at": f"2024-03-{day:02}T12:00:00Z", "key": "a", "amount": 1} for day in days]


def months(place: Place) -> list[tuple[datetime, int]]:
    rows = place.gold().to_pylist()
    return sorted((row["window_start"], row["rows"]) for row in rows)


def test_an_open_month_waits_for_a_new_generation_once_its_zone_has_other_rules(
    spark: SparkSession, tmp_path: Path
) -> None:
    def before() -> AbstractContextManager[None]:
        return clocks(tmp_path / "before", ZONE, 6, {})

    def since() -> AbstractContextManager[None]:
        return clocks(tmp_path / "since", ZONE, 6, {MOVED: 5})

    month = {"window": {"calendar": "month", "zone": ZONE}, "group_by": ["key"]}
    table = month | {"measures": {"events": "count(*)"}}
    place = Place(tmp_path / "root", clicks(tables={"per_10m": table}))
    place.land("1.json", of_march(2, 5, 9))
    with before():
        succeed(spark, place, "first")
    assert months(place) == [(MOVED, 3)]
    place.land("2.json", of_march(12))
    with since():
        error = run_warm(spark, place, "refused").error
    assert error is not None
    assert (error.type, error.retry_can_help) == ("PipelineChanged", False)
    assert "2024-02-29T18:00:00Z: UTC+06:00 → UTC+05:00: needs a new generation" in error.message
    assert (months(place), place.bronze().num_rows) == ([(MOVED, 3)], 3)
    with before():
        succeed(spark, place, "by the former rules")
    assert months(place) == [(MOVED, 4)]
    with since():
        migrated(spark, place)
        assert months(place) == [(MOVED.replace(hour=19), 4)]
        place.land("3.json", of_march(15))
        succeed(spark, place, "by the new rules")
        assert months(place) == [(MOVED.replace(hour=19), 5)]


def test_rules_for_a_month_to_come_are_noted_and_hold_from_then_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    month = {"window": {"calendar": "month", "zone": ZONE}, "group_by": ["key"]}
    table = month | {"measures": {"events": "count(*)"}}
    place = Place(tmp_path / "root", clicks(tables={"per_10m": table}))
    place.land("1.json", of_march(2, 5))
    with clocks(tmp_path / "before", ZONE, 6, {}):
        succeed(spark, place, "first")
    may = datetime(2024, 4, 30, 18, tzinfo=UTC)
    with clocks(tmp_path / "since", ZONE, 6, {may: 5}):
        rows = [{"at": "2024-05-03T12:00:00Z", "key": "a", "amount": 1}]
        place.land("2.json", [*rows, *of_march(7)])
        succeed(spark, place, "second")
        assert months(place) == [(MOVED, 3), (may.replace(hour=19), 1)]
        place.land("3.json", rows)
        succeed(spark, place, "third")
        assert months(place) == [(MOVED, 3), (may.replace(hour=19), 2)]
