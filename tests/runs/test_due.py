"""A pipeline is due once its schedule has named a time since its newest run."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.kit.running import Place, clicks
from tests.kit.windows import at
from tests.runs.pipelines import ended
from tidemark.errors import LeaseHeld, RunFailed
from tidemark.pipeline.schedules import PRESETS, last_but_one_time, last_time
from tidemark.runs.due import is_due


def due(place: Place, now: datetime, clock: datetime | None = None) -> bool:
    return is_due(place.pipeline, place.settings, now, clock or now)


@pytest.fixture
def hourly(tmp_path: Path) -> Place:
    return Place(tmp_path, clicks(schedule="@hourly"))


def test_one_that_never_ran_is_due(hourly: Place) -> None:
    assert due(hourly, at(12, 30))


def test_one_without_a_schedule_never_is(tmp_path: Path) -> None:
    assert not due(Place(tmp_path), at(12, 30))


def test_it_is_due_from_the_next_time_on(hourly: Place) -> None:
    ended(hourly, began=at(12, 30))
    assert not due(hourly, at(12, 59))
    assert due(hourly, at(13))
    assert due(hourly, at(14, 5))


def test_a_run_that_stands_for_the_very_time_is_that_run(hourly: Place) -> None:
    ended(hourly, began=at(13))
    assert not due(hourly, at(13))
    assert not due(hourly, at(13, 59))
    assert due(hourly, at(14))


def test_one_whose_only_run_began_at_a_time_to_come_is_due_for_the_run_to_say_why(
    hourly: Place,
) -> None:
    ended(hourly, "ahead", began=at(18))
    assert due(hourly, at(13))
    assert not due(hourly, at(18, 30))
    assert not due(hourly, at(13), clock=at(18)), "that a former time is asked for is no fault"


def test_a_run_by_a_clock_that_was_ahead_is_passed_over_where_others_are_not(
    hourly: Place,
) -> None:
    ended(hourly, "ahead", began=at(18))
    ended(hourly, began=at(13, 5))
    assert not due(hourly, at(13)), "clocks differ by some minutes"
    assert not due(hourly, at(13, 59))
    assert due(hourly, at(14))


def test_a_run_that_failed_or_is_held_counts(hourly: Place) -> None:
    ended(hourly, began=at(13), error=RunFailed("so"))
    assert not due(hourly, at(13, 30))
    ended(hourly, "held", began=at(14), held=True)
    assert not due(hourly, at(14, 30))
    ended(hourly, "busy", began=at(15), error=LeaseHeld("another is at work"))
    assert not due(hourly, at(15, 30))


@pytest.mark.parametrize("trigger", ["backfill", "rewind"])
def test_a_backfill_and_a_rewind_are_no_runs_of_the_schedule(hourly: Place, trigger: str) -> None:
    ended(hourly, began=at(12))
    ended(hourly, "other", began=at(13, 10), trigger=trigger)
    assert due(hourly, at(13, 30))


def test_one_whose_runs_cannot_be_read_is_due(hourly: Place) -> None:
    ended(hourly, began=at(13))
    log = Path(hourly.places.runs, "_delta_log")
    shutil.rmtree(log)
    log.mkdir()
    (log / "00000000000000000000.json").write_text("no JSON")
    assert due(hourly, at(13, 30))


@pytest.mark.parametrize("damage", ["empty", "cut off", "gone", "other columns"])
def test_one_whose_runs_are_in_a_broken_file_is_due(hourly: Place, damage: str) -> None:
    ended(hourly, began=at(13))
    (file,) = Path(hourly.places.runs).glob("*.parquet")
    if damage == "gone":
        file.unlink()
    elif damage == "other columns":
        shutil.rmtree(hourly.places.runs)
        write_deltalake(hourly.places.runs, pa.table({"other": [1]}))
    else:
        file.write_bytes(b"" if damage == "empty" else file.read_bytes()[:-100])
    assert due(hourly, at(13, 30))


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("@hourly", datetime(2026, 8, 20, 10, tzinfo=UTC)),
        ("@daily", datetime(2026, 8, 20, tzinfo=UTC)),
        ("@weekly", datetime(2026, 8, 16, tzinfo=UTC)),
        ("@monthly", datetime(2026, 8, 1, tzinfo=UTC)),
        ("@quarterly", datetime(2026, 7, 1, tzinfo=UTC)),
        ("@yearly", datetime(2026, 1, 1, tzinfo=UTC)),
        ("*/5 * * * *", datetime(2026, 8, 20, 10, 15, tzinfo=UTC)),
        ("15 10 * * *", datetime(2026, 8, 20, 10, 15, tzinfo=UTC)),
        ("0 6 * * 1-5", datetime(2026, 8, 20, 6, tzinfo=UTC)),
    ],
)
def test_the_last_time_of_a_schedule_is_now_or_before(schedule: str, expected: datetime) -> None:
    assert last_time(schedule, datetime(2026, 8, 20, 10, 15, tzinfo=UTC)) == expected
    assert last_time(schedule, datetime(2026, 8, 20, 10, 15, 59, 999_999, tzinfo=UTC)) == expected


def test_a_time_that_a_part_of_a_second_is_missing_to_is_still_to_come() -> None:
    now = datetime(2026, 8, 20, 10, 14, 59, 500_000, tzinfo=UTC)
    assert last_time("*/5 * * * *", now) == datetime(2026, 8, 20, 10, 10, tzinfo=UTC)


def test_the_end_of_the_calendar_has_a_last_time() -> None:
    end = datetime.max.replace(tzinfo=UTC)
    assert last_time("@hourly", end) == datetime(9999, 12, 31, 23, tzinfo=UTC)
    assert last_time("59 23 * * *", end) == datetime(9999, 12, 31, 23, 59, tzinfo=UTC)


def test_every_preset_that_a_file_may_say_has_a_last_time() -> None:
    now = datetime(2026, 8, 20, 10, 15, tzinfo=UTC)
    assert all(last_time(preset, now) for preset in PRESETS)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("@monthly", datetime(2026, 7, 1, tzinfo=UTC)),
        ("@quarterly", datetime(2026, 4, 1, tzinfo=UTC)),
        ("0 6 * * 1-5", datetime(2026, 8, 19, 6, tzinfo=UTC)),
    ],
)
def test_the_last_but_one_time_of_a_schedule_is_the_one_before(
    schedule: str, expected: datetime
) -> None:
    assert last_but_one_time(schedule, datetime(2026, 8, 20, 10, 15, tzinfo=UTC)) == expected
