"""A warehouse that was moved or copied goes on once its new place is accepted, and reads no file
twice; queries of each kind find their state where it is now."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.end_to_end.test_folds import FoldPlace, place_at
from tests.kit.running import clicks, run_warm, sorted_rows, succeed
from tests.operators.contract.kinds import as_json, event
from tidemark.errors import AcceptanceRefused
from tidemark.runs.status.lag_text import lag_text
from tidemark.runs.status.pipeline_status import pipeline_status
from tidemark.runs.status.state import PipelineState
from tidemark.upkeep.accept_changes import accept_changes

WINDOWS = clicks()["tables"]["per_10m"]
TABLES: dict[str, dict[str, Any]] = {
    "per_10m": WINDOWS,
    "visits": {
        "window": {"session": "6 minutes"}, "group_by": ["key"], "measures": {"events": "count(*)"},
    },
}  # fmt: skip
LANDED = (
    [event(minute, key) for minute in (1, 4, 14, 30) for key in "ab"],
    [event(minute, "a") for minute in (33, 36, 50)],
    [event(minute, "b") for minute in (48, 52, 55, 300)],
)


def place_of_each_kind(root: Path) -> FoldPlace:
    place = place_at(root, stream="recompute")
    return replace(
        place, content={**place.content, "tables": {**place.content["tables"], **TABLES}}
    )


def land(place: FoldPlace, number: int) -> None:
    place.land(f"{number} ü.json", as_json(LANDED[number]))


def gold_of(place: FoldPlace) -> dict[str, list[tuple[Any, ...]]]:
    volatile = ("computed_at", "published_at", "run_id")
    return {name: sorted_rows(place.gold(name), volatile) for name in place.pipeline.tables}


@pytest.mark.parametrize(
    "is_copied",
    [pytest.param(False, id="moved"), pytest.param(True, id="copied", marks=pytest.mark.long)],
)
def test_a_root_in_a_new_place_stops_reads_nothing_and_goes_on_once_that_is_accepted(
    spark: SparkSession, tmp_path: Path, is_copied: bool
) -> None:
    undisturbed, place = (
        place_of_each_kind(tmp_path / "still"),
        place_of_each_kind(tmp_path / "old"),
    )
    for number in (0, 1):
        for one in (undisturbed, place):
            land(one, number)
            succeed(spark, one, f"run-{number}")
    new = replace(place, root=tmp_path / "new é place")
    (shutil.copytree if is_copied else shutil.move)(place.root, new.root)
    before = new.bronze().num_rows
    error = run_warm(spark, new, "stopped").error
    assert error is not None
    assert error.type == "InputLost"
    assert str(place.root) in error.message
    assert new.bronze().num_rows == before
    assert (
        pipeline_status(new.pipeline, new.settings, datetime.now(UTC)).state
        is PipelineState.STOPPED
    )
    accept_changes(new.pipeline, new.settings, "accepted", "a new disk", "Ada")
    for one in (undisturbed, new, *([place] if is_copied else [])):
        land(one, 2)
        if one is new:
            lag = pipeline_status(new.pipeline, new.settings, datetime.now(UTC)).source
            assert lag is not None
            assert "1 file," in lag_text(lag)
        succeed(spark, one, "run-2")
        assert one.bronze().num_rows == sum(map(len, LANDED))
    assert gold_of(new) == gold_of(undisturbed)


def test_a_fold_that_keeps_state_is_not_accepted_in_a_new_place_and_goes_on_by_a_link(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The engine finds the state's schema by the place where it was written."""
    place = place_at(tmp_path / "old")
    land(place, 0)
    succeed(spark, place, "run-0")
    new = replace(place, root=tmp_path / "new")
    shutil.move(place.root, new.root)
    with pytest.raises(AcceptanceRefused, match="state of thirds names files"):
        accept_changes(new.pipeline, new.settings, "accepted", "a new disk", "Ada")
    place.root.symlink_to(new.root)
    land(place, 1)
    succeed(spark, place, "run-1")
    assert place.bronze().num_rows == sum(map(len, LANDED[:2]))
