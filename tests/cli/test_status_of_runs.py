"""What `tidemark status` says of a pipeline after real runs of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kit.running import Place, succeed
from tidemark.runs.publish_held import publish_and_record
from tidemark.runs.status.pipeline_status import PipelineStatus, pipeline_status
from tidemark.runs.status.state import PipelineState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def told(place: Place) -> PipelineStatus:
    return pipeline_status(place.pipeline, place.settings, datetime.now(UTC))


def at(hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 7, 1, hour, minute, tzinfo=UTC)


def test_runs_are_told_as_they_went(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path)
    times = [at(10) + timedelta(minutes=9 * number) for number in range(7)]
    place.land("1.json", [*({"at": t.isoformat(), "key": "a"} for t in times), "not JSON"])
    succeed(spark, place, "first")
    found = told(place)
    assert (found.state, found.newest_event, found.watermark) == (
        PipelineState.WELL,
        at(10, 54),
        at(10, 44),
    )
    (table,) = found.tables
    assert (table.closed_to, table.open_windows, table.unpublished) == (at(10, 44), 2, 0)
    place.land("2.json", [{"at": at(10, 1).isoformat(), "key": "a"}])
    held = succeed(spark, place, "late", hold=True)
    found = told(place)
    assert (found.state, found.tables[0].unpublished) == (PipelineState.HELD, 1)
    uri = place.places.result("late")
    assert publish_and_record(place.pipeline, held, uri, place.settings).error is None
    found = told(place)
    assert (found.state, found.tables[0].unpublished) == (PipelineState.WELL, 0)
    assert [(run.run, run.outcome) for run in found.runs] == [
        ("late", "succeeded"),
        ("first", "succeeded"),
    ]
    assert [(run.read, run.rejected) for run in found.runs] == [(1, 0), (8, 1)]
    assert [(run.late_rows, run.corrected_windows) for run in found.runs] == [(1, 1), (0, 0)]
