"""A batch that runs again after a loss was accepted, and whose accepted rows are committed."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.kit.killed import killed
from tests.kit.running import Place, clicks, run_warm, succeed
from tidemark.upkeep.accept_changes import accept_changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT = datetime(2026, 7, 1, 10, tzinfo=UTC)


def append(place: Place, *keys: str) -> None:
    for key in keys:
        times = pa.array([AT], pa.timestamp("us", "UTC"))
        rows = pa.table({"at": times, "key": [key], "amount": [1]})
        write_deltalake(place.root / "events", rows, mode="append")


@pytest.mark.long
def test_rows_of_a_new_table_are_no_repeats_of_themselves_where_versions_were_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    common = {name: value for name, value in clicks()["source"].items() if name != "files"}
    unique = {"by": "key", "within": "7 days"}
    place = Place(
        tmp_path, clicks(source={"delta": {"table": "events"}, **common, "unique": unique})
    )
    append(place, "a", "b")
    succeed(spark, place, "one")
    shutil.rmtree(tmp_path / "events")
    append(place, "c", "d", "e", "f")
    accept_changes(place.pipeline, place.settings, "accept", "it was made anew", "me")
    with killed("after", "accepted rows"):
        assert run_warm(spark, place, "killed").error is not None
    rows = succeed(spark, place, "two").rows
    assert (rows.read, rows.accepted, rows.rejected) == (5, 4, {"replaced": 1})
    assert sorted(one["key"] for one in place.bronze().to_pylist()) == list("abcdef")
    assert [one["reason"] for one in place.rejects().to_pylist()] == ["replaced"]
