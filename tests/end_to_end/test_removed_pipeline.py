"""A pipeline that was removed begins as on its first day, where its file comes back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.kit.running import Place, sorted_rows, succeed
from tidemark.runs.removal import plan_removal, remove

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_with_its_file_back_it_reads_its_source_from_the_beginning(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path / "root")
    place.land("1.json", [{"at": "2026-07-01T00:01:00Z", "key": "a", "amount": 1}, "{"])
    succeed(spark, place, "first")
    place.land("2.json", [{"at": "2026-07-01T00:02:00Z", "key": "a", "amount": 2}])
    succeed(spark, place, "second")
    beside = ("updated_by", "revision")
    before = sorted_rows(place.gold(), beside)
    remove(plan_removal(place.name, place.settings), place.settings, "removing")
    assert not any(path.is_file() for path in Path(place.places.folder).rglob("*"))
    result = succeed(spark, place, "first")
    assert sorted_rows(place.gold(), beside) == before
    assert result.rows.read == 3
    assert place.rejects().num_rows == 1
