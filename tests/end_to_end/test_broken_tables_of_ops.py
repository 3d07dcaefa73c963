"""Broken tables of `ops` stop no run, and what is known of them is built anew."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from tests.kit.running import Place, succeed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROW = '{{"at": "2026-07-01T10:0{n}:00Z", "key": "a", "amount": 1}}'


def balances(place: Place) -> list[tuple[str, int]]:
    rows = place.table(place.places.ledger).to_pylist()
    return sorted((row["kind"], row["difference"]) for row in rows if row["batch"] is not None)


def test_a_run_goes_on_without_them_and_the_ledger_is_whole_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path / "root")
    for number in range(2):
        place.land(f"{number}.json", [ROW.format(n=number)])
        succeed(spark, place, f"run {number}")
    before = balances(place)
    for name in ("ledger", "runs", "batches"):
        table = Path(place.places.ops, name)
        if table.is_dir():
            last = max((table / "_delta_log").glob("*.json"))
            last.write_bytes(last.read_bytes()[:40])
    place.land("2.json", [ROW.format(n=2)])
    succeed(spark, place, "run 2")
    assert {name for name, _ in balances(place)} == {"ingest", "stream"}
    assert len(balances(place)) == len(before) + 2
    assert {difference for _, difference in balances(place)} == {0}
    runs = place.table(place.places.runs).column("run").to_pylist()
    assert "run 2" in runs
    assert len(list(Path(place.places.ops).glob("*.broken-*"))) >= 2


def test_ops_that_is_a_file_stops_no_run(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path / "root")
    place.land("0.json", [ROW.format(n=0)])
    Path(place.places.ops).parent.mkdir()
    Path(place.places.ops).write_text("not a folder")
    succeed(spark, place, "first")
    assert DeltaTable(place.places.runs).version() >= 1
    assert place.gold().num_rows == 1


def test_the_lines_of_a_first_run_without_rows_are_not_taken_for_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path / "root")
    (place.root / "landing").mkdir(parents=True)
    succeed(spark, place, "empty")
    place.land("0.json", [ROW.format(n=0)])
    succeed(spark, place, "first")
    lines = place.table(place.places.ledger).select(["kind", "batch", "run"]).to_pylist()
    found = sorted((line["kind"], line["batch"], line["run"]) for line in lines)
    assert found == [("ingest", 0, "first"), ("stream", 0, "empty"), ("stream", 1, "first")]
