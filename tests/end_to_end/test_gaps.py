"""Gaps of tables that runs make are told once their windows are closed, and no more once a late row
has filled them, by a run and by a migration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.end_to_end.generations import migrated
from tests.kit.running import Place, clicks, run_warm, succeed
from tests.streaming.audits import event

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

GAPS = {"every": "10 minutes", "since": "2026-07-01T10:00:00Z", "by": ["key"]}


def tables(**measures: str) -> dict[str, Any]:
    table = {
        "window": {"length": "10 minutes"},
        "group_by": ["key"],
        "measures": {"events": "count(*)", **measures},
    }
    warned = table | {"checks": [{"warn": {"gaps": GAPS}}]}
    appended = table | {"output_mode": "append", "checks": [{"fail": {"gaps": GAPS}}]}
    return {"per_10m": warned, "appended": appended}


def told(place: Place, run: str) -> dict[str, str]:
    """What the checks of gaps said of a run, by table."""
    return {
        row["table"]: row["observed"]
        for row in place.table(place.places.quality).to_pylist()
        if row["run"] == run and row["check"].startswith("gaps every 10 minutes since")
    }


@pytest.mark.second
def test_a_gap_is_told_as_it_closes_and_a_late_row_fills_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path, clicks(tables=tables()))
    place.land("1.json", [event(10, minute) for minute in (1, 22, 34, 51)])
    error = run_warm(spark, place, "first").error
    gap = "1 of 4 closed stretches of 10 minutes have no row: 2026-07-01T10:10:00Z of key a"
    assert error is not None
    assert gap in error.message
    assert told(place, "first") == {"per_10m": gap, "appended": gap}
    assert place.gold().num_rows == 0
    place.land("2.json", [event(10, 12)])
    succeed(spark, place, "late")
    none = "none of 4 closed stretches of 10 minutes is without a row"
    assert told(place, "late") == {"per_10m": none, "appended": none}
    assert place.gold("appended").num_rows == 4
    place.content = {**place.content, "tables": {"per_10m": tables(most="max(amount)")["per_10m"]}}
    migrated(spark, place)
    assert told(place, "migrate") == {"per_10m": none}
