"""A row on which a derived column fails is a reject; the others of its batch go on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.killed import killed
from tests.kit.running import Place, clicks, run_warm, sorted_rows, succeed
from tidemark.streaming.ingest import judged_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def place_at(folder: Path) -> Place:
    derive = {"share": "100 / amount", "day": "cast(key as date)"}
    return Place(folder, clicks(source=clicks()["source"] | {"derive": derive}))


def row(key: str, amount: int | None) -> dict[str, Any]:
    return {"at": "2026-07-01T10:00:00Z", "key": key, "amount": amount}


ROWS = [
    row("2026-01-01", 4),
    row("2026-01-01", 0),
    row("no day", 4),
    row("no day", 0),
    row("2026-01-02", None),
]


def rejected(place: Place) -> list[tuple[str, str]]:
    return sorted((one["reason"], one["detail"]) for one in place.rejects().to_pylist())


@pytest.mark.parametrize("few", [32_000_000, pytest.param(-1, marks=pytest.mark.long)])
def test_a_row_that_fails_is_rejected_with_column_message_and_values(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(judged_lines, "FEW_BYTES", few)
    place = place_at(tmp_path)
    place.land("a.json", [*ROWS, "bad"])
    rows = succeed(spark, place).rows
    assert (rows.read, rows.accepted) == (6, 2)
    assert rows.rejected == {"expression": 3, "malformed": 1}
    details = [detail for reason, detail in rejected(place) if reason == "expression"]
    by_day = "day: cast(key as date) failed: [CAST_INVALID_INPUT]"
    assert [detail.partition(" The value")[0] for detail in details if "day:" in detail] == [by_day]
    divided = [detail for detail in details if detail.startswith("share: 100 / amount failed")]
    assert len(divided) == 2
    assert all("[DIVIDE_BY_ZERO]" in one and one.endswith("(amount = 0)") for one in divided)
    raws = {one["raw"] for one in place.rejects().to_pylist() if one["reason"] == "expression"}
    assert len(raws) == 3
    assert all(raw.startswith('{"at"') for raw in raws)
    # What the tasks wrote for Spark to go on with is gone.
    assert not [file for file in tmp_path.rglob("*.parquet") if "-lines" in str(file)]


@pytest.mark.long
def test_a_batch_that_is_repeated_rejects_the_same_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    ends = []
    for name in ("undisturbed", "killed"):
        place = place_at(tmp_path / name)
        place.land("a.json", ROWS)
        if name == "killed":
            with killed("before", "rejected rows"):
                assert run_warm(spark, place, "dead").error is not None
        succeed(spark, place, "again")
        ends.append((rejected(place), sorted_rows(place.bronze(), ["_batch_time", "_file"])))
    assert ends[0] == ends[1]
