"""Another gap, other keys, another kind: a table of sessions goes on from bronze."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.end_to_end.generations import changed, goes_on, is_right, migrated, rolled_back, table
from tests.kit.running import Place, clicks, run_warm, succeed
from tests.streaming.audits import event
from tidemark.runs.preflight import run_preflight

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SESSIONS: dict[str, Any] = {"window": {"session": "6 minutes"}}
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a longer gap": (SESSIONS, {"window": {"session": "12 minutes"}}),
    "a shorter gap": (SESSIONS, {"window": {"session": "1 minute"}}),
    "windows": (SESSIONS, {"window": {"length": "10 minutes"}}),
    "sessions of windows": ({}, SESSIONS),
    "one key more": (
        SESSIONS,
        SESSIONS | {"group_by": ["key", "amount"], "measures": {"events": "count(*)"}},
    ),
    "a measure more": (
        SESSIONS,
        SESSIONS | {"measures": {"events": "count(*)", "most": "max(amount)"}},
    ),
    "complete": (
        SESSIONS,
        SESSIONS | {"output_mode": "complete", "accept_unbounded_state": True},
    ),
}
FIRST = "a longer gap"


def run_three_times(spark: SparkSession, root: Path, of_table: dict[str, Any]) -> Place:
    """Three runs: late rows have made sessions longer, merged some, and some are open."""
    place = Place(root, clicks(tables=table("append", **of_table)))
    minutes = (0, 4, 11, 22, 33, 36, 51)
    place.land("1.json", [event(10, m, key, m) for m in minutes for key in ("a", None)])
    succeed(spark, place, "run-1")
    place.land("2.json", [event(10, 8, "a", 100), event(10, 52, "b", 7)])
    succeed(spark, place, "run-2")
    place.land("3.json", [event(11, 3, "a", 5)])
    succeed(spark, place, "run-3")
    return place


@pytest.mark.long
@pytest.mark.parametrize(
    "change",
    [name if name == FIRST else pytest.param(name, marks=pytest.mark.long) for name in CHANGES],
)
def test_gold_is_right_behind_the_change_and_behind_the_way_back(
    spark: SparkSession, tmp_path: Path, change: str
) -> None:
    before, after = CHANGES[change]
    place = run_three_times(spark, tmp_path, before)
    is_right(spark, place)
    other = changed(place, **after)
    refused = run_warm(spark, other).error
    assert refused is not None
    assert (refused.type, refused.retry_can_help) == ("PipelineChanged", False)
    migrated(spark, other)
    is_right(spark, other)
    goes_on(spark, other)
    rolled_back(other)
    succeed(spark, place, "behind")
    is_right(spark, place)


def test_a_changed_gap_is_told_before_anything_runs(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path, clicks(tables=table("append", **SESSIONS)))
    place.land("1.json", [event(10, 0, "a", 1)])
    succeed(spark, place, "first")
    before = place.changes().num_rows
    other = replace(place, content=changed(place, window={"session": "7 minutes"}).content)
    found = run_warm(spark, other).error
    assert found is not None
    assert "window.session: 6 minutes → 7 minutes" in found.message
    assert place.changes().num_rows == before
    assert run_preflight(place.run("same"))
