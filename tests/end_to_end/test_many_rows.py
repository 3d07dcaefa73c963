"""Few rows pass through the driver, many through tasks: the tables come out the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.running import Place, clicks, sorted_rows, succeed
from tidemark.streaming.ingest import judged_lines, spark_rows

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
# How many bytes of lines are judged in the driver, and how many rejects are collected there.
FEW = {"few": (32_000_000, 20_000), "mixed": (-1, 20_000), "many": (-1, 0)}
ENDS = ("few", "many")


def of_run(
    spark: SparkSession,
    folder: Path,
    few: tuple[int, int],
    further: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> list[Any]:
    unique = {"unique": {"by": "key", "within": "1 day"}, "derive": {"part": "6 / (amount - 3)"}}
    source = clicks()["source"] | (unique if further else {})
    place = Place(folder, clicks(source=source))
    place.land("a.json", LINES)
    place.land("empty.json", [])
    place.land("bytes.json", [])
    next(place.root.rglob("bytes.json")).write_bytes(b'{"key": "\xff"}\n')
    monkeypatch.setattr(judged_lines, "FEW_BYTES", few[0])
    monkeypatch.setattr(spark_rows, "FEW_ROWS", few[1])
    rows = succeed(spark, place).rows
    # An id follows from the file's whole name.
    without = ["_batch_time", "id"]
    told = [sorted_rows(table, without) for table in (place.bronze(), place.rejects())]
    # But for the folder that the names of files begin with.
    return [rows, repr(told).replace(str(folder), ""), sorted_rows(place.gold(), ["updated_by"])]


@pytest.mark.parametrize(
    ("further", "which"),
    [
        (False, ENDS),
        pytest.param(False, tuple(FEW), marks=pytest.mark.long),
        pytest.param(True, tuple(FEW), marks=pytest.mark.long),
    ],
)
def test_bronze_rejects_and_gold_are_the_same_whether_rows_are_few_or_many(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    further: bool,
    which: Sequence[str],
) -> None:
    found = {
        name: of_run(spark, tmp_path / name, FEW[name], further, monkeypatch) for name in which
    }
    rows = found["few"][0]
    assert rows.read == 8
    # One of the rows with the key `a` fails on 6 / 0, so none of them is repeated.
    fails = {"expression": 1} if further else {}
    assert rows.rejected == {"malformed": 4, "wrong type": 1} | fails
    assert all(one == found["few"] for one in found.values())
