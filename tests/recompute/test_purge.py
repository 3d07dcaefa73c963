"""What goes of a pipeline's folder with an erasure, and what stays, told without Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.kit.decoded import files_holding
from tests.kit.running import Place
from tidemark.errors import ErasureUnproven
from tidemark.recompute.erase.change import Erasure
from tidemark.recompute.erase.purge import planned_purge, purge
from tidemark.runs.unfinished_act import stop_for, unfinished_act
from tidemark.upkeep.maintenance.carry_out import write_checkpoint

PERSON = "person-7Qx2mVb9LkTz4WcRf8HsJd1Np6Yg3UeA"
# A date's folder as a store may escape it.
DAYS = pa.table({"key": ["a", PERSON], "day": ["x", "y z%"]})
CHANGE = Erasure(
    id="20260101T000000Z",
    run_id="erase__20260101T000000Z",
    pipeline="clicks",
    planned_at=datetime(2026, 1, 1, tzinfo=UTC),
    by="Ada",
    reason="a request",
    erased=(),
    tables=(),
)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Tables that have lost the value, each in its newest version; and all that has held it."""
    place = Place(tmp_path / "root")
    places = place.places
    for _ in range(3):
        write_deltalake(places.bronze, DAYS, mode="append", partition_by=["day"])
    DeltaTable(places.bronze).delete(f"key = '{PERSON}'")
    write_deltalake(places.bronze, DAYS.slice(0, 1), mode="append")
    write_deltalake(places.rejects, DAYS.slice(0, 1))
    for table in (places.gold("per_10m"), places.view("per_10m", "former"), places.gold("former")):
        write_deltalake(table, DAYS)
    write_deltalake(places.gold("per_10m"), DAYS.slice(0, 1), mode="overwrite")
    told = {"id": "1", "rows": 2, "condition": f"key = '{PERSON}'"}
    row = {"pipeline": ["clicks"], "verdict": [f"2 rows where {PERSON}"], "retraction": [told]}
    for _ in range(2):
        write_deltalake(places.upkeep, pa.table(row), mode="append")
    counts = pa.array([[("late", 1)]], pa.map_(pa.string(), pa.int64()))
    runs = {"pipeline": ["clicks"], "error": [f"{PERSON} failed"], "reasons": counts}
    write_deltalake(places.runs, pa.table(runs))
    for file in (
        places.result("run"),
        f"{places.docs_of('run')}/index.html",
        f"{places.retractions}/1/change.json",
        f"{places.rewinds}/1/change.json",
        places.status,
        f"{places.query_checkpoint('per_10m', 2)}/state/0/0/1.delta",
        f"{places.bronze}/.of-a-dead-writer.parquet",
    ):
        written(file, PERSON)
    for file in (
        places.result("own"),
        places.contract("per_10m", 2),
        places.contract("ingest", 1),
        f"{places.ingest_checkpoint}/offsets/0",
        f"{places.query_checkpoint('per_10m', 1)}/offsets/0",
        f"{places.erasures}/20250101T000000Z.json",
        f"{places.lease}/1.json",
        f"{places.lookup('names')}/part-0.parquet",
        # Others append to it without a lease.
        f"{places.runs}/part-about-to-be-committed.parquet",
    ):
        written(file, "stays")
    stop_for(place.warehouse, CHANGE.act)
    return place


def written(file: str, content: str) -> None:
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text(content)


def own(place: Place) -> tuple[str, ...]:
    return (place.places.result("own"),)


def staying(place: Place) -> list[Path]:
    files = [path for path in Path(place.places.folder).rglob("*") if path.is_file()]
    return [path for path in files if path.read_bytes() == b"stays"]


def test_all_goes_that_is_not_of_the_newest_versions(place: Place) -> None:
    kept = staying(place)
    assert len(files_holding(place.root, PERSON)) > 15
    planned = planned_purge(place.pipeline, place.warehouse)
    assert planned.keys() == {
        *("bronze", "checkpoints", "data_docs", "former", "ops", "per_10m", "results"),
        *("retractions", "rewinds", "status.json"),
    }
    for _ in range(2):
        purge(CHANGE, place.pipeline, place.warehouse, own(place))
        assert files_holding(place.root, PERSON) == []
        assert staying(place) == kept
        assert unfinished_act(place.warehouse) == CHANGE.act
        assert place.bronze().column("key").to_pylist() == ["a"] * 4
        assert place.gold().num_rows == 1
        assert Path(place.places.bronze, "_delta_log", f"{4:020}.json").exists()
    write_deltalake(place.places.bronze, DAYS.slice(0, 1), mode="append")
    assert place.bronze().num_rows == 5


def test_rows_of_ops_stay_without_what_they_tell_of_values(place: Place) -> None:
    purge(CHANGE, place.pipeline, place.warehouse, own(place))
    upkeep = place.table(place.places.upkeep).to_pylist()
    assert [one["verdict"] for one in upkeep] == ["2 rows"] * 2
    assert [one["retraction"]["rows"] for one in upkeep] == [2, 2]
    (run,) = place.table(place.places.runs).to_pylist()
    assert (run["error"], run["reasons"]) == ("erased", [("late", 1)])


def test_a_row_that_others_append_to_ops_meanwhile_stays_and_a_repetition_ends_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def beside_another(table: DeltaTable) -> None:
        monkeypatch.undo()
        write_deltalake(place.places.runs, place.table(place.places.runs), mode="append")
        write_checkpoint(table)

    monkeypatch.setattr("tidemark.recompute.erase.purge.write_checkpoint", beside_another)
    with pytest.raises(ErasureUnproven, match="ops/runs/_delta_log"):
        purge(CHANGE, place.pipeline, place.warehouse, own(place))
    assert place.table(place.places.runs).num_rows == 2
    purge(CHANGE, place.pipeline, place.warehouse, own(place))
    assert place.table(place.places.runs).num_rows == 2
    assert files_holding(place.root, PERSON) == []


def test_what_is_left_of_it_is_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemark.recompute.erase.purge.remove", lambda *_: None)
    with pytest.raises(ErasureUnproven, match=r"results/run.json|bronze/"):
        purge(CHANGE, place.pipeline, place.warehouse, own(place))
