"""Few rows pass through the driver, many are written by Spark: the tables come out the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.running import Place, clicks, sorted_rows, succeed
from tidemark.streaming.ingest import judged_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINES = [
    '{"at": "2026-11-18T10:00:00Z", "key": "a", "amount": 1}',
    '{"at": "2026-11-18T10:01:00Z", "key": "b, c", "amount": null, "more": [1]}',
    '{"at": "2026-11-18T10:02:00Z", "key": "a", "amount": 3}',
    '{"at": "2026-11-18T10:03:00Z", "key": 5, "amount": 3}',
    '{"at": "2026-11-18T10:04:00Z", "key": "a", "amount": 1}{"at": "2026-11-18T10:04:00Z"}',
    "not JSON",
]
# All few; many, of which few are rejected; many of both.
FEW = {"few": 20_000, "mixed": 4, "many": 0}


def of_run(
    spark: SparkSession, folder: Path, few: int, unique: bool, monkeypatch: pytest.MonkeyPatch
) -> list[Any]:
    source = clicks()["source"] | ({"unique": {"by": "key", "within": "1 day"}} if unique else {})
    place = Place(folder, clicks(source=source))
    place.land("a.json", LINES)
    place.land("empty.json", [])
    place.land("bytes.json", [])
    next(place.root.rglob("bytes.json")).write_bytes(b'{"key": "\xff"}\n')
    monkeypatch.setattr(judged_batch, "FEW_ROWS", few)
    rows = succeed(spark, place).rows
    told = [sorted_rows(table, ["_batch_time"]) for table in (place.bronze(), place.rejects())]
    # But for the folder that the names of files begin with.
    return [rows, repr(told).replace(str(folder), ""), sorted_rows(place.gold(), ["updated_by"])]


@pytest.mark.parametrize("unique", [False, pytest.param(True, marks=pytest.mark.long)])
def test_bronze_rejects_and_gold_are_the_same_whether_rows_are_few_or_many(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unique: bool
) -> None:
    found = {
        name: of_run(spark, tmp_path / name, few, unique, monkeypatch) for name, few in FEW.items()
    }
    rows = found["few"][0]
    assert rows.read == 8
    assert rows.rejected == {"malformed": 4, "wrong type": 1} | ({"duplicate": 1} if unique else {})
    assert found["few"] == found["mixed"] == found["many"]
