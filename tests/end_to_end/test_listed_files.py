"""What the store lists is read, or the run names what was passed over, why, and what to do."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.kit.killed import killed
from tests.kit.running import Place, clicks, run_warm, succeed

# Of 2440: ext4 knows no time after 2446.
FAR = 14_831_769_600


def row(key: str) -> dict[str, Any]:
    return {"at": "2026-07-01T10:00:00Z", "key": key, "amount": 1}


def place_at(root: Path, files: str) -> Place:
    content = clicks()
    return Place(root, content | {"source": {**content["source"], "files": files}})


def keys(place: Place) -> list[str]:
    return sorted(place.bronze()["key"].to_pylist())


def test_files_that_come_after_one_of_the_year_2440_are_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = place_at(tmp_path, "landing/*")
    os.utime(place.land("far.json", [row("far")]), (FAR, FAR))
    succeed(spark, place, "one")
    place.land("next.json", [row("next")])
    place.land("one.json", [row("below")], "landing/folder.d")
    succeed(spark, place, "two")
    assert keys(place) == ["below", "far", "next"]


def written_by_a_spark_job(spark: SparkSession, place: Place) -> None:
    """Of a folder that a streaming query writes to, Spark reads what its log has."""
    place.land("in.json", [row("sink")], "elsewhere")
    lines = spark.readStream.format("text").load(str(place.root / "elsewhere"))
    to = lines.writeStream.format("text").option("path", str(place.root / "landing"))
    query = to.option("checkpointLocation", str(place.root / "sink")).trigger(availableNow=True)
    query.start().awaitTermination()


@pytest.mark.parametrize("after_a_kill", [False, True])
def test_a_file_that_a_spark_job_has_not_committed_is_told_until_it_is_moved(
    spark: SparkSession, tmp_path: Path, after_a_kill: bool
) -> None:
    place = place_at(tmp_path, "landing/**/*")
    written_by_a_spark_job(spark, place)
    if after_a_kill:
        with killed("after", "accepted rows"):
            assert run_warm(spark, place, "killed").error
    stray = place.land("stray é.json", [row("stray")])
    for run in ("one", "two"):
        error = run_warm(spark, place, run).error
        assert error is not None
        assert error.type == "SourcePassedOver"
        assert "stray%20%C3%A9.json" in error.message
        assert "_spark_metadata" in error.message
        assert "locale" not in error.message
        assert not error.retry_can_help
    shutil.move(stray, tmp_path / "stray")
    succeed(spark, place, "three")
    assert keys(place) == ["sink"]
