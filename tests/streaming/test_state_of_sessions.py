"""The state of a pipeline's sessions: looked at, read, compacted, with either store."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.kit.running import SCHEDULED, Place, clicks, sorted_rows, succeed
from tests.streaming.kept_state import check_of
from tests.streaming.test_pipeline_compaction import compact, read
from tidemark.checkpoint.doctor.findings import CheckpointVerdict
from tidemark.checkpoint.doctor.judge import judge_checkpoint
from tidemark.checkpoint.reading.read import read_checkpoint
from tidemark.checkpoint.state.check import StateVerdict
from tidemark.storage.file_place import FilePlace

VISITS = {
    "window": {"session": "30 minutes"},
    "group_by": ["key", "amount"],
    "measures": {"events": "count(*)", "least": "min(amount)"},
    "output_mode": "append",
}


def rows(number: int) -> list[dict[str, Any]]:
    """An hour of events: one key goes on from the hour before, another one begins, and a late row
    joins what both did before."""
    hour = datetime(2026, 7, 1, 8 + number, tzinfo=UTC)
    fresh = [
        {"at": (hour + timedelta(minutes=minute)).isoformat(), "key": key, "amount": 1}
        for key, minutes in (("a", range(0, 60, 20)), (None, (40, 50)), (f"{number}", (55,)))
        for minute in minutes
    ]
    late = {"at": (hour - timedelta(minutes=95)).isoformat(), "key": None, "amount": 1}
    return [*fresh, late]


def run(spark: SparkSession, place: Place, number: int) -> None:
    place.land(f"{number}.json", rows(number))
    succeed(spark, place, f"run-{number}", scheduled=SCHEDULED + timedelta(hours=8 + number))


def checkpoint(place: Place) -> Path:
    return Path(place.places.query_checkpoint("visits", 1))


@pytest.mark.long
@pytest.mark.parametrize("store", ["memory", "rocksdb"])
def test_state_of_sessions_is_judged_read_and_compacted_and_runs_go_on_as_without(
    spark: SparkSession, tmp_path: Path, store: str
) -> None:
    state = {"store": store, "limits": {"max_changes": 3}}
    place = Place(tmp_path / "root", clicks(tables={"visits": VISITS}, advanced={"state": state}))
    for number in (0, 1):
        run(spark, place, number)
    place.keep()

    facts = read_checkpoint(FilePlace(str(checkpoint(place))))
    assert judge_checkpoint(facts, datetime.now(UTC)).verdict is CheckpointVerdict.CLEAN_END
    looked = check_of(checkpoint(place))
    assert (looked.verdict, looked.longest) == (StateVerdict.HEALTHY, 4)
    held = read(spark, place, table="visits")
    assert held.error is None, held.error
    assert held.columns == ["key", "amount", "sessionStartTime", "_value"]
    # What ends after the watermark of 09:45 is held, as far as the engine knows it.
    found = [json.loads(text) for text in held.rows]
    assert sorted((str(row["key"]), row["sessionStartTime"]) for row in found) == [
        ("1", "2026-07-01T09:55:00.000Z"),
        ("None", "2026-07-01T09:40:00.000Z"),
        ("a", "2026-07-01T08:00:00.000Z"),
    ]

    told = compact(spark, place)
    assert told.error is None, told.error
    figures = told.queries["visits"]
    assert (figures.before.longest, figures.after.longest, figures.rows) == (4, 0, 3)
    assert check_of(checkpoint(place)).longest == 0
    assert read(spark, place, table="visits").rows == held.rows
    compacted = went_on(spark, place)
    assert compacted == went_on(spark, place.again())


def went_on(spark: SparkSession, place: Place) -> list[Any]:
    """Gold and its history after two more runs, in which the sessions that were held end."""
    for number in (2, 4):
        run(spark, place, number)
    without = ["updated_by", "run"]
    ended = sorted_rows(place.gold("visits"), without)
    assert len(ended) > 3
    return [ended, sorted_rows(place.changes("visits"), without)]
