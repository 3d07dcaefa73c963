"""What goes of a pipeline's folder with an erasure, and what stays, told without Spark."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.kit.decoded import files_holding
from tests.kit.erasing import erase_warm
from tests.kit.killed import killed
from tests.kit.running import Place, clicks
from tests.kit.windows import at, window
from tests.storage.s3 import copy_to_store, put_folder, s3_server
from tidemark.errors import ErasureRefused, ErasureUnproven
from tidemark.gold.views import write_views
from tidemark.operators.lookups import copies_of, copy_of_number
from tidemark.pipeline.settings.settings import Settings
from tidemark.recompute.erase.change import Erasure
from tidemark.recompute.erase.purge import check_folder, planned_purge, purge
from tidemark.recompute.erase.record import keep_erasure, record_erasure
from tidemark.runs.lookups import copy_lookups, note_copies, why_to_copy
from tidemark.runs.unfinished_act import stop_for, unfinished_act
from tidemark.storage.delta.appended import first_append
from tidemark.storage.delta.fence import fence_tables, pipeline_tables
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.maintenance.carry_out import write_checkpoint

PERSON = "person-7Qx2mVb9LkTz4WcRf8HsJd1Np6Yg3UeA"
# A date's folder as a store may escape it.
DAYS = pa.table({"key": ["a", PERSON], "day": ["x", "y z%"]})
NOW = datetime.now(UTC)
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
    planned = planned_purge(place.pipeline, place.warehouse, NOW)
    assert planned.keys() == {
        *("bronze", "checkpoints", "data_docs", "former", "ops", "per_10m", "results"),
        *("retractions", "rewinds", "status.json"),
    }
    for _ in range(2):
        purge(CHANGE, place.pipeline, place.warehouse, own(place), NOW)
        assert files_holding(place.root, PERSON) == []
        assert staying(place) == kept
        assert unfinished_act(place.warehouse) == CHANGE.act
        assert place.bronze().column("key").to_pylist() == ["a"] * 4
        assert place.gold().num_rows == 1
        assert Path(place.places.bronze, "_delta_log", f"{4:020}.json").exists()
    write_deltalake(place.places.bronze, DAYS.slice(0, 1), mode="append")
    assert place.bronze().num_rows == 5


def test_of_lookups_the_newest_copies_stay_and_those_of_the_file_alone(tmp_path: Path) -> None:
    lookups = {
        name: {"file": f"dims/{name}.csv", "on": "key", "columns": {"name": "string"}}
        for name in ("names", "former")
    }
    table = {"window": {"length": "10 minutes"}}
    both = {"measures": {"a": "max(names.name)", "b": "max(former.name)"}}
    before = Place(tmp_path, clicks(lookup=lookups, tables={"t": table | both}))
    for name, person in (("names", PERSON), ("former", PERSON), ("names", "somebody else")):
        written(str(tmp_path / f"dims/{name}.csv"), f"key,name\na,{person}\n")
        written(str(tmp_path / "dims/former.csv"), f"key,name\na,{PERSON}\n")
        list(copy_lookups(before.run("copy")))
    one = {"measures": {"a": "max(names.name)"}}
    place = Place(tmp_path, clicks(lookup={"names": lookups["names"]}, tables={"t": table | one}))
    for of in (place.places.bronze, place.places.rejects):
        write_deltalake(of, DAYS.slice(0, 1))
    (tmp_path / "dims/former.csv").unlink()
    copy = place.warehouse.lookup("names")
    fence_tables([copy], 2)
    note_copies(place.run("erase"))
    number = next(copies_of(copy)).number
    stop_for(place.warehouse, CHANGE.act)
    assert planned_purge(place.pipeline, place.warehouse, NOW)["bronze.lookups"] > 3
    for _ in range(2):
        purge(CHANGE, place.pipeline, place.warehouse, own(place), NOW)
        assert files_holding(place.root, PERSON) == []
        known = copy_of_number(copy, number)
        assert known is not None
        assert known.table.to_pyarrow_table().column("name").to_pylist() == ["somebody else"]
        assert why_to_copy(place.run("next")) is None
    written(str(tmp_path / "dims/names.csv"), "key,name\na,Ada\n")
    assert list(copy_lookups(place.run("next"))) == ["lookup names: 1 rows"]


def test_views_that_a_fence_of_gold_leaves_behind_stay(tmp_path: Path) -> None:
    content = clicks()
    content["tables"]["per_10m"] |= {"views": {"busy": {"having": "total > 1"}}}
    content["tables"]["per_10m"]["measures"] = {"total": "sum(amount)"}
    place = Place(tmp_path / "root", content)
    windows = place.windows()
    windows.change(window(at(10), 2, key="a", total=2))
    windows.publish_at(at(12))
    for of in (place.places.bronze, place.places.rejects):
        write_deltalake(of, DAYS.slice(0, 1))
    write_views(place.pipeline.tables, place.warehouse)
    fence_tables(pipeline_tables(place.pipeline, place.warehouse), 2)
    write_views(place.pipeline.tables, place.warehouse, note=True)
    stop_for(place.warehouse, CHANGE.act)
    purge(CHANGE, place.pipeline, place.warehouse, own(place), NOW)
    view = place.warehouse.view("per_10m", "busy").existing()
    assert view.to_pyarrow_table().num_rows == 1
    # Noted is noted.
    write_views(place.pipeline.tables, place.warehouse, note=True)
    assert place.warehouse.view("per_10m", "busy").existing().version() == view.version()


def with_view(root: Path) -> Place:
    """A published table whose view is of another version of gold: the lease was taken over."""
    content = clicks()
    content["tables"]["per_10m"] |= {"views": {"busy": {"having": "total > 1"}}}
    content["tables"]["per_10m"]["measures"] = {"total": "sum(amount)"}
    place = Place(root, content)
    windows = place.windows()
    windows.change(window(at(10), 2, key="a", total=2))
    windows.publish_at(at(12))
    for of in (place.places.bronze, place.places.rejects):
        write_deltalake(of, DAYS.slice(0, 1))
    write_views(place.pipeline.tables, place.warehouse, note=True)
    fence_tables(pipeline_tables(place.pipeline, place.warehouse), 2)
    stop_for(place.warehouse, CHANGE.act)
    return place


def test_views_stay_where_an_erasure_was_killed_while_it_removed_files(tmp_path: Path) -> None:
    place = with_view(tmp_path / "root")
    keep_erasure(CHANGE, place.warehouse)
    record_erasure(CHANGE, place.warehouse)
    with killed("before", "plan of an erasure removed"):
        assert erase_warm(None, place).error is not None  # type: ignore[arg-type]
    fence_tables(pipeline_tables(place.pipeline, place.warehouse), 9)
    # It needs no session any more.
    result = erase_warm(None, place)  # type: ignore[arg-type]
    assert result.error is None
    assert unfinished_act(place.warehouse) is None
    view = place.warehouse.view("per_10m", "busy").existing()
    assert view.to_pyarrow_table().num_rows == 1


def test_a_view_goes_of_whose_log_a_killed_erasure_removed_a_part(tmp_path: Path) -> None:
    place = with_view(tmp_path / "root")
    view = Path(place.places.view("per_10m", "busy"))
    (view / "_delta_log" / f"{0:020}.json").unlink()
    purge(CHANGE, place.pipeline, place.warehouse, own(place), NOW)
    assert not any(path.is_file() for path in view.rglob("*"))


def test_rows_of_ops_stay_without_what_they_tell_of_values(place: Place) -> None:
    purge(CHANGE, place.pipeline, place.warehouse, own(place), NOW)
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
        purge(CHANGE, place.pipeline, place.warehouse, own(place), NOW)
    assert place.table(place.places.runs).num_rows == 2
    purge(CHANGE, place.pipeline, place.warehouse, own(place), NOW)
    assert place.table(place.places.runs).num_rows == 2
    assert files_holding(place.root, PERSON) == []


def test_what_is_left_of_it_is_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemark.recompute.erase.purge.remove", lambda *_: None)
    with pytest.raises(ErasureUnproven, match=r"results/run.json|bronze/"):
        purge(CHANGE, place.pipeline, place.warehouse, own(place), NOW)


def check_in_the_way(place: Place, words: str) -> None:
    """It is refused before anything is planned, and stops what was; nothing is removed."""
    before = sorted(str(path) for path in place.root.rglob("*"))
    with pytest.raises(ErasureRefused, match=words):
        check_folder(place.warehouse)
    with pytest.raises(ErasureUnproven, match=words):
        purge(CHANGE, place.pipeline, place.warehouse, own(place), NOW)
    assert sorted(str(path) for path in place.root.rglob("*")) == before


def test_what_tidemark_made_is_not_in_the_way(place: Place) -> None:
    check_folder(place.warehouse)


@pytest.mark.parametrize("name", ["landed/a.json", "notes.txt", "per_10m/notes.txt"])
def test_files_of_others_in_the_folder_are_in_the_way(place: Place, name: str) -> None:
    written(f"{place.places.folder}/{name}", "theirs")
    check_in_the_way(place, name)


def test_links_are_in_the_way_wherever_they_lead(place: Place) -> None:
    elsewhere = place.root / "elsewhere"
    written(str(elsewhere / "gold" / "a.parquet"), "theirs")
    for link, of in (("former2", elsewhere), ("former2", Path(place.places.folder, "former"))):
        Path(place.places.folder, link).symlink_to(of)
        check_in_the_way(place, "former2/gold/.* is reached by a link")
        Path(place.places.folder, link).unlink()
    Path(place.places.results, "linked.json").symlink_to(elsewhere / "gold" / "a.parquet")
    check_in_the_way(place, "linked.json is reached by a link")


def test_a_folder_that_is_reached_by_a_link_is_erased_in(tmp_path: Path, place: Place) -> None:
    linked = tmp_path / "linked"
    linked.symlink_to(place.root)
    through = Place(linked)
    check_folder(through.warehouse)
    purge(CHANGE, through.pipeline, through.warehouse, own(through), NOW)
    assert files_holding(place.root, PERSON) == []


def test_what_no_log_of_ops_names_goes_once_nobody_can_be_about_to_commit_it(place: Place) -> None:
    """So goes what was packed, and told of by a log that has been cleaned since."""
    orphan = f"{place.places.runs}/part-of-a-dead-writer.parquet"
    written(orphan, PERSON)
    young = purge(CHANGE, place.pipeline, place.warehouse, own(place), NOW)
    assert young == (
        "ops/runs/part-about-to-be-committed.parquet", "ops/runs/part-of-a-dead-writer.parquet",
    )  # fmt: skip
    old = (NOW - timedelta(hours=2)).timestamp()
    os.utime(orphan, (old, old))
    young = purge(CHANGE, place.pipeline, place.warehouse, own(place), NOW)
    assert young == ("ops/runs/part-about-to-be-committed.parquet",)
    assert files_holding(place.root, PERSON) == []
    assert place.table(place.places.runs).num_rows == 1


def test_what_a_killed_writer_had_not_renamed_yet_goes_too(place: Place) -> None:
    """obstore and delta-rs write `NAME#1` on a disk, which their listings leave out."""
    places = place.places
    for file in (f"{places.bronze}/part-0.parquet#1", f"{places.status}#12",
                 f"{places.retractions}/2/change.json#1"):  # fmt: skip
        written(file, PERSON)
    of_ops = f"{places.runs}/_delta_log/_commit_1.json.tmp#1"
    written(of_ops, PERSON)
    check_folder(place.warehouse)
    young = purge(CHANGE, place.pipeline, place.warehouse, own(place), NOW)
    assert "ops/runs/_delta_log/_commit_1.json.tmp#1" in young
    assert len(files_holding(place.root, PERSON)) == 1
    old = (NOW - timedelta(hours=2)).timestamp()
    os.utime(of_ops, (old, old))
    assert planned_purge(place.pipeline, place.warehouse, NOW) == {"ops": 1, "results": 1}
    purge(CHANGE, place.pipeline, place.warehouse, own(place), NOW)
    assert files_holding(place.root, PERSON) == []


@pytest.mark.slow
def test_objects_that_s3a_keeps_for_folders_are_nothing_that_has_to_go(place: Place) -> None:
    root = "s3://lake/root"
    with s3_server() as options:
        copy_to_store(place.root, root, options)
        for folder in ("", "bronze/1/", "checkpoints/per_10m/2/state/"):
            put_folder(options, f"root/clicks/{folder}")
        settings = Settings(root=root, pipelines="p", storage_options=options)
        warehouse = Warehouse.of("clicks", settings)
        own = (warehouse.places.result("own"),)
        check_folder(warehouse)
        purge(CHANGE, place.pipeline, warehouse, own, NOW)
        assert planned_purge(place.pipeline, warehouse, NOW) == {"results": 1}
        assert warehouse.bronze.existing().to_pyarrow_table().num_rows == 4


def test_a_table_with_deletion_vectors_is_left_alone(place: Place) -> None:
    entry = Path(place.places.gold("per_10m"), "_delta_log", f"{2:020}.json")
    features = ["deletionVectors"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features,
                "writerFeatures": features}  # fmt: skip
    entry.write_text(json.dumps({"protocol": protocol}))
    with pytest.raises(ErasureRefused, match="has deletion vectors"):
        planned_purge(place.pipeline, place.warehouse, NOW)


def test_what_takeovers_of_the_lease_committed_since_can_be_read_by_the_next_run(
    place: Place,
) -> None:
    """An erasure that is killed twice fences the tables twice, behind what gold stands for."""
    tables, bronze = pipeline_tables(place.pipeline, place.warehouse), place.warehouse.bronze
    for number in (2, 3):
        fence_tables(tables, number)
    purge(CHANGE, place.pipeline, place.warehouse, own(place), NOW)
    assert files_holding(place.root, PERSON) == []
    assert bronze.existing().version() == 6
    assert first_append(bronze, 5, 6) is None
    # The last commit that says what it did is told too.
    assert first_append(bronze, 4, 6) is not None
    assert not Path(bronze.uri, "_delta_log", f"{3:020}.json").exists()
