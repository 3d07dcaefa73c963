"""A source's columns may have any name that begins with no underscore."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit.running import Place, clicks, query, succeed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Names that the platform uses for something of its own, on the way or in its tables.
NAMES = ("value", "reason", "detail", "file", "raw", "event_time", "id", "before", "assigned")


@pytest.mark.long
def test_names_that_the_platform_uses_itself_are_names_like_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    columns = {"at": "timestamp", **dict.fromkeys(NAMES, "string")}
    source = {
        "files": "landing/*.json",
        "columns": columns,
        "event_time": {"column": "at"},
        "unique": {"by": "id", "within": "1 hour"},
        "derive": {"loud": "upper(value)"},
    }
    table = {
        "window": {"length": "10 minutes"},
        "group_by": ["value", "reason", "file"],
        "measures": {"time": "max(at)", "emitted": "max(detail)"},
    }
    place = Place(tmp_path, clicks(source=source, tables={"per_10m": table}))
    row = {name: f"the {name}" for name in NAMES}
    place.land(
        "1.json",
        [
            {"at": "2026-07-01T10:00:00Z", **row},
            {"at": "2026-07-01T10:01:00Z", **row},
            {"at": "2026-07-01T11:00:01Z", **row, "value": 1},
            {"at": "2026-07-01T11:30:00Z", **row},
        ],
    )
    result = succeed(spark, place, "first")
    assert result.rows.rejected == {"duplicate": 1, "wrong type": 1}
    place.land("2.json", [{"at": "2026-07-01T10:02:00Z", **row, "id": "another"}])
    result = succeed(spark, place, "second")
    assert result.tables["per_10m"].late.corrected == 1
    found = query(
        "SELECT value, reason, file, emitted, rows FROM gold ORDER BY window_start",
        gold=place.gold(),
    )
    same = ("the value", "the reason", "the file", "the detail")
    assert found == [(*same, 2), (*same, 1)]
    assert set(place.bronze().column("loud").to_pylist()) == {"THE VALUE"}
