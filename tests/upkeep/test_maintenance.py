"""The maintenance of single tables: what goes, what stays, and what readers find afterwards."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemark
from tests.kit.running import Place, clicks
from tests.kit.windows import Windows, at, window
from tests.runs.pipelines import bronze, ended
from tidemark.errors import MaintenanceRefused, StorageUnavailable
from tidemark.ledger.ledger import INGEST, LedgerLine, replace_ledger, write_ledger
from tidemark.ledger.report import read_ledger
from tidemark.pipeline.instants import epoch_ms
from tidemark.pipeline.settings.maintenance import Maintenance
from tidemark.quality import record
from tidemark.runs import recorded_runs as runs
from tidemark.storage.delta import create
from tidemark.storage.delta.appended import first_append
from tidemark.storage.delta.fence import fence_tables
from tidemark.storage.delta.history import changes_between
from tidemark.storage.delta.notes import PublishedNote
from tidemark.storage.delta.ops import ensure_ops_table
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.files import FileFacts
from tidemark.upkeep.maintenance.carry_out import carry_out_maintenance
from tidemark.upkeep.maintenance.carry_out import keep_rows as keep_rows_of
from tidemark.upkeep.maintenance.maintain import (
    check_no_maintenance_refused,
    maintain_pipeline,
    plan_maintenance,
    plan_results,
)
from tidemark.upkeep.maintenance.plan import MaintenancePlan, Work
from tidemark.upkeep.maintenance.plan_table import MaintainedTable, plan_log, plan_table
from tidemark.upkeep.maintenance.readers import TableReader, readers

KEEP = Maintenance()
DAYS = [date(2026, 7, 1), date(2026, 7, 2)]


def now() -> datetime:
    return datetime.now(UTC)


def append(
    uri: str,
    numbers: Sequence[int],
    day: date = DAYS[0],
    feed: dict[str, str] | None = None,
    **options: Any,
) -> None:
    """A commit of these rows; the table is made as ours are."""
    rows = pa.table(
        {
            "_event_date": pa.array([day] * len(numbers)),
            "key": [f"ä{number}" for number in numbers],
            "n": pa.array(numbers, pa.int64()),
        }
    )
    made = {} if DeltaTable.is_deltatable(uri) else {"configuration": create._PLAIN | (feed or {})}
    write_deltalake(uri, rows, mode="append", partition_by=["_event_date"], **made, **options)


def plan_of(uri: str, *readers: TableReader, keep: Maintenance = KEEP) -> MaintenancePlan:
    return plan_table(
        MaintainedTable("bronze", TablePlace(uri), readers), DeltaTable(uri), keep, now()
    )


def nothing_is_due(plan: MaintenancePlan) -> bool:
    return not (plan.compact or plan.checkpoint or plan.remove or plan.keep_rows is not None)


def part(plan: MaintenancePlan, work: Work) -> Any:
    return {part.work: part for part in plan.parts}[work]


def act(plan: MaintenancePlan) -> None:
    carry_out_maintenance("clicks", plan, TablePlace(plan.uri))


def aged(path: Path, days: float) -> None:
    then = (now() - timedelta(days=days)).timestamp()
    os.utime(path, (then, then))


def age_log(uri: str, days: float = 60) -> None:
    for path in (Path(uri) / "_delta_log").iterdir():
        aged(path, days)


def rows(uri: str) -> list[int]:
    return sorted(DeltaTable(uri).to_pyarrow_table().column("n").to_pylist())


def log_of(uri: str) -> set[str]:
    return {path.name for path in (Path(uri) / "_delta_log").iterdir()}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Five files of one date and two of another, written under a transaction."""
    place = str(tmp_path / "ä b" / "bronze")
    for number in range(5):
        noted = CommitProperties(app_transactions=[Transaction("query", number)])
        append(place, [number], commit_properties=noted)
    append(place, [5], DAYS[1])
    append(place, [6], DAYS[1])
    return place


def test_small_files_of_a_partition_become_one_and_a_second_time_there_is_nothing_to_do(
    uri: str,
) -> None:
    plan = plan_of(uri)
    assert plan.compact == {"_event_date": ("2026-07-01",)}
    assert part(plan, Work.COMPACTION).going == 5
    act(plan)
    table = DeltaTable(uri)
    assert (len(table.file_uris()), table.version()) == (3, 7)
    assert rows(uri) == list(range(7))
    assert table.transaction_version("query") == 4
    known = table.to_pyarrow_dataset()
    assert known.count_rows(filter=ds.field("key") == "ä3") == 1
    assert plan_of(uri).compact == {}
    assert nothing_is_due(plan_of(uri))


def test_files_that_were_packed_are_no_new_rows_to_any_reader(tmp_path: Path) -> None:
    uri = str(tmp_path / "changes")
    for number in range(5):
        append(uri, [number], feed={"delta.enableChangeDataFeed": "true"})
    act(plan_of(uri))
    append(uri, [5])
    table = DeltaTable(uri)
    assert table.version() == 6
    found = changes_between(table, 2, 6)
    assert sorted(found.column("n").to_pylist()) == [3, 4, 5]
    assert first_append(TablePlace(uri), 5, 5) is None
    assert first_append(TablePlace(uri), 5, 6) is not None
    assert first_append(TablePlace(uri), 7, 6) is None


def test_files_go_that_no_version_of_the_retention_has_and_young_ones_stay(uri: str) -> None:
    folder = Path(uri)
    act(plan_of(uri))
    (folder / "BATCH-1" / "_event_date=2026-07-01").mkdir(parents=True)
    left = folder / "BATCH-1" / "_event_date=2026-07-01" / "part-0.parquet"
    young = folder / "_event_date=2026-07-01" / "young.parquet"
    old = folder / "_event_date=2026-07-01" / "old.parquet"
    for path in (left, young, old):
        path.write_bytes(b"12345")
    aged(left, 8)
    aged(old, 8)
    plan = plan_of(uri)
    assert set(plan.remove) == {str(left), str(old)}
    unused = part(plan, Work.UNUSED_FILES)
    # Two files of the second date, the packed one, the five that it replaced, and three others.
    assert (unused.number, unused.going, unused.going_size) == (11, 2, 10)
    before = DeltaTable(uri).version()
    act(plan)
    assert (left.exists(), old.exists(), young.exists()) == (False, False, True)
    assert DeltaTable(uri).version() == before
    # The replaced files are still there for readers of the versions before.
    assert sorted(DeltaTable(uri, version=5).to_pyarrow_table().column("n").to_pylist()) == [
        *range(6)
    ]


def test_a_file_goes_that_its_writer_died_before_it_was_renamed(uri: str) -> None:
    log = Path(uri) / "_delta_log"
    old, young = Path(uri) / "part-0.parquet#1", Path(uri) / "part-1.parquet#1"
    for path in (old, young, log / "_commit_1.json.tmp#2"):
        path.write_bytes(b"12345")
    aged(old, 8)
    aged(log / "_commit_1.json.tmp#2", 8)
    plan = plan_of(uri)
    assert (part(plan, Work.UNUSED_FILES).going, part(plan, Work.UNUSED_FILES).number) == (2, 9)
    act(plan)
    assert [path.name for path in Path(uri).rglob("*#*")] == [young.name]
    assert rows(uri) == [*range(7)]


def test_a_table_is_left_as_it_is_while_a_reader_waits_for_longer_than_half_the_retention(
    uri: str,
) -> None:
    waiting = now() - KEEP.retention / 2
    behind = TableReader("the query of per_10m", 3, waiting - timedelta(minutes=1), "Run it.")
    plan = plan_of(uri, behind)
    assert nothing_is_due(plan)
    assert plan.refused is not None
    assert "the query of per_10m has yet to read from version 3 on" in plan.refused
    with pytest.raises(MaintenanceRefused, match=r"left 1 of 1 places.*Run it\."):
        check_no_maintenance_refused("clicks", (plan,))
    assert (
        plan_of(uri, TableReader("q", 3, waiting + timedelta(minutes=1), "Run it.")).refused is None
    )
    assert plan_of(uri, TableReader("q", 3, None, "Run it.")).refused is None
    # What only lags behind until a later run is no reason to call anybody.
    lagging = plan_of(uri, TableReader("the repair", 3, waiting - timedelta(days=1)))
    assert lagging.refused is not None
    check_no_maintenance_refused("clicks", (lagging,))


def test_a_table_with_deletion_vectors_is_left_as_it_is_for_its_log_lists_no_file_of_theirs(
    uri: str,
) -> None:
    log = Path(uri) / "_delta_log"
    last = [json.loads(line) for line in (log / f"{6:020}.json").read_text().splitlines()]
    added = next(one["add"] for one in last if "add" in one)
    # As Spark deletes a row: the file is the one that this path stands for (PROTOCOL.md).
    vector = {
        "storageType": "u", "pathOrInlineDv": "vBn[lx{q8@P<9BNH/isA", "offset": 1,
        "sizeInBytes": 36, "cardinality": 1,
    }  # fmt: skip
    file = Path(uri) / "deletion_vector_61d16c75-6994-46b7-a15b-8b538852e50e.bin"
    file.write_bytes(bytes(40))
    aged(file, 60)
    features = ["deletionVectors"]
    protocol = {
        "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features,
        "writerFeatures": features,
    }  # fmt: skip
    removed = {"path": added["path"], "dataChange": True, "deletionTimestamp": 1}
    actions = (
        ("protocol", protocol),
        ("remove", removed),
        ("add", {**added, "deletionVector": vector}),
    )
    lines = [json.dumps({name: action}) for name, action in actions]
    (log / f"{7:020}.json").write_text("\n".join(lines))
    plan = plan_of(uri)
    assert nothing_is_due(plan)
    assert plan.refused == "it has deletion vectors, whose files no log lists by their names"
    with pytest.raises(MaintenanceRefused, match=r"REORG TABLE … APPLY \(PURGE\)"):
        check_no_maintenance_refused("clicks", (plan,))


def test_entries_of_the_log_go_below_a_checkpoint_that_no_reader_is_behind_of(uri: str) -> None:
    DeltaTable(uri, version=4).create_checkpoint()
    for _ in range(10):
        fence_tables([TablePlace(uri)], 1)
    append(uri, [7])
    age_log(uri)
    assert part(plan_of(uri, TableReader("q", 3, None, "")), Work.LOG).going == 0
    plan = plan_of(uri, TableReader("q", 9, None, ""))
    assert part(plan, Work.LOG).going == 4
    assert plan.checkpoint
    act(plan)
    versions = {int(name[:20]) for name in log_of(uri) if name[0] == "0"}
    assert versions == set(range(4, DeltaTable(uri).version() + 1))
    assert f"{DeltaTable(uri).version():020}.checkpoint.parquet" in log_of(uri)
    assert rows(uri) == list(range(8))
    assert DeltaTable(uri).transaction_version("query") == 4
    assert len(DeltaTable(uri).history()) == DeltaTable(uri).version() - 3


def test_the_entry_of_the_last_append_stays_which_tells_a_repeated_batch_what_it_committed(
    uri: str,
) -> None:
    for _ in range(12):
        fence_tables([TablePlace(uri)], 1)
    DeltaTable(uri).create_checkpoint()
    DeltaTable(uri, version=5).create_checkpoint()
    age_log(uri)
    act(plan_of(uri))
    assert f"{6:020}.json" in log_of(uri)
    assert f"{4:020}.json" not in log_of(uri)


def test_young_entries_and_those_without_a_checkpoint_below_stay() -> None:
    def listing(days: dict[int, float], *checkpoints: int) -> dict[str, FileFacts]:
        there = {f"/t/_delta_log/{v:020}.json": age for v, age in days.items()}
        there |= {f"/t/_delta_log/{v:020}.checkpoint.parquet": 40 for v in checkpoints}
        there["/t/_delta_log/_last_checkpoint"] = 99
        return {name: FileFacts(7, instant - timedelta(days=age)) for name, age in there.items()}

    def going(files: dict[str, FileFacts], needed: int) -> list[str]:
        plan = plan_log(files, needed, timedelta(days=30), instant)
        return [name.removeprefix("/t/_delta_log/").lstrip("0") for name in plan.going]

    instant = datetime(2026, 7, 1, tzinfo=UTC)
    aging = {version: 50.0 - 5 * version for version in range(10)}
    assert going(listing(aging), 99) == []
    assert going(listing(aging, 2), 99) == [".json", "1.json"]
    # Version 4 is of 30 days ago.
    assert going(listing(aging, 2, 4, 6), 99)[-2:] == ["2.json", "3.json"]
    assert going(listing(aging, 2, 4), 3) == [".json", "1.json"]
    assert going(listing(aging, 2, 4), 1) == []


def test_a_checkpoint_that_cannot_be_read_keeps_the_entries_before_it(uri: str) -> None:
    for version in (4, 6):
        DeltaTable(uri, version=version).create_checkpoint()
    age_log(uri)
    assert part(plan_of(uri, TableReader("q", 5, None, "")), Work.LOG).going == 4
    checkpoint = Path(uri) / "_delta_log" / f"{4:020}.checkpoint.parquet"
    checkpoint.write_bytes(checkpoint.read_bytes()[:100])
    plan = plan_of(uri, TableReader("q", 5, None, ""))
    assert part(plan, Work.LOG).going == 0
    assert "checkpoint 4 cannot be read" in part(plan, Work.LOG).reason
    assert plan.remove == ()


def test_a_compaction_of_who_lost_the_lease_commits_nothing(uri: str) -> None:
    plan = plan_of(uri)

    def taken_over() -> None:
        fence_tables([TablePlace(uri)], 2)

    with pytest.raises(StorageUnavailable, match=r"or take the lease over"):
        carry_out_maintenance("clicks", plan, TablePlace(uri, fence=taken_over))
    assert len(DeltaTable(uri).file_uris()) == 7


@pytest.mark.slow
def test_old_rows_of_ops_go_and_that_of_the_last_publish_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, instant = Place(tmp_path), now()
    other = Place(tmp_path, name="other")
    for days in (200, 150, 100, 2):
        for of in (place, other):
            ended(of, f"run-{days}", instant - timedelta(days=days))
    published = instant - timedelta(days=120)
    monkeypatch.setattr("tidemark.upkeep.maintenance.maintain.last_published", lambda *_: published)
    plans = maintain_pipeline(place.pipeline, place.settings, "m", instant)
    (plan,) = [plan for plan in plans if plan.name == "ops/runs"]
    assert part(plan, Work.OLD_ROWS).going == 2
    known = DeltaTable(place.places.runs).to_pyarrow_dataset()
    assert found(known, "clicks") == ["run-100", "run-2"]
    of_other = DeltaTable(other.places.runs).to_pyarrow_dataset()
    assert found(of_other, "other") == ["run-100", "run-150", "run-2", "run-200"]
    recorded = DeltaTable(place.places.upkeep).to_pyarrow_dataset().to_table().to_pylist()
    (row,) = [row for row in recorded if row["place"] == "ops/runs"]
    assert (row["kind"], row["run"], row["checkpoint"]) == ("maintenance", "m", None)
    assert [s["files_deleted"] for s in row["shares"] if s["kind"] == "old rows"] == [2]
    plans = maintain_pipeline(place.pipeline, place.settings, "m", instant)
    assert not any(plan.keep_rows is not None for plan in plans)


def test_entries_of_the_logs_of_ops_go_after_days_and_those_of_other_tables_stay(
    tmp_path: Path,
) -> None:
    place, began = Place(tmp_path), now() - timedelta(days=1)
    bronze(place, now())
    for number in range(25):
        ended(place, f"run {number:02}", began + timedelta(minutes=number))
        bronze(place, now())
    for uri in (place.places.runs, place.places.bronze):
        DeltaTable(uri).create_checkpoint()
        age_log(uri, 8)
    before = log_of(place.places.bronze)
    ended(place, "newest", began + timedelta(hours=1))
    bronze(place, now())
    maintain_pipeline(place.pipeline, place.settings, "m", now())
    kept = sorted(name for name in log_of(place.places.runs) if name.endswith(".json"))
    assert kept[0] == f"{25:020}.json"
    assert before <= log_of(place.places.bronze)
    known = DeltaTable(place.places.runs).to_pyarrow_dataset()
    assert len(found(known, "clicks")) == 26


@pytest.fixture
def cleaned(tmp_path: Path) -> Place:
    """A pipeline whose bronze has lost the first entries of its log, by maintenance."""
    place = Place(tmp_path)
    for _ in range(12):
        bronze(place, now())
    DeltaTable(place.places.bronze).create_checkpoint()
    age_log(place.places.bronze)
    maintain_pipeline(place.pipeline, place.settings, "m", now())
    assert f"{0:020}.json" not in log_of(place.places.bronze)
    return place


def read_batch(place: Place, batch: int, committed: bool) -> Path:
    """A batch of the table's query that has read bronze as it is now; its offsets."""
    table, folder = DeltaTable(place.places.bronze), query_of(place)
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "metadata").write_text(json.dumps({"id": "11111111-1111-1111-1111-111111111111"}))
    end = {
        "sourceVersion": 1, "reservoirId": str(table.metadata().id), "index": -1,
        "reservoirVersion": table.version() + 1, "isStartingVersion": False,
    }  # fmt: skip
    head = {"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {}}
    offsets = folder / "offsets" / str(batch)
    offsets.write_text("\n".join(["v1", json.dumps(head), json.dumps(end)]))
    if committed:
        (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return offsets


def query_of(place: Place) -> Path:
    return Path(place.places.query_checkpoint("per_10m", 1))


@pytest.mark.parametrize("committed", [True, False])
def test_a_new_table_that_is_not_published_needs_bronze_as_its_first_batch_found_it(
    cleaned: Place, committed: bool
) -> None:
    place = cleaned
    query_of(place).mkdir(parents=True)
    (query_of(place) / "metadata").write_text('{"id":"11111111-1111-1111-1111-111111111111"}')
    assert bronze_plan(place).refused is None
    found = DeltaTable(place.places.bronze).version()
    offsets = read_batch(place, 0, committed)
    bronze(place, now())
    if committed:
        read_batch(place, 1, committed)
    of_bronze = readers(place.pipeline, place.settings)[place.places.bronze]
    assert min(one.first for one in of_bronze) == found
    assert bronze_plan(place).refused is None
    # It has waited for longer than half of the retention: files that it reads could go.
    aged(offsets, 6)
    plan = bronze_plan(place)
    assert plan.refused is not None
    assert plan.advice == "Run the pipeline, to its end."


def bronze_plan(place: Place) -> MaintenancePlan:
    plans = plan_maintenance(place.pipeline, place.settings, now())
    return next(plan for plan in plans if plan.name == "bronze")


def test_a_table_of_a_pipeline_may_be_called_ops_and_lives_beside_its_tables_of_ops(
    tmp_path: Path,
) -> None:
    tables = {"ops": clicks()["tables"]["per_10m"] | {"measures": {"total": "sum(amount)"}}}
    place = Place(tmp_path, clicks(tables=tables))
    windows = Windows(Path(place.places.gold("ops")).parent)
    windows.change(window(at(10), key="a", total=1))
    windows.publish(windows.pin(None))
    runs.record_interrupted_run(place.pipeline, place.warehouse)
    maintain_pipeline(place.pipeline, place.settings, "m", now())
    assert {path.name for path in Path(place.places.ops).iterdir()} == {
        *("gold", "changes", "runs", "upkeep"),
    }
    assert windows.gold("key", "total") == [("a", 1)]
    assert found(tidemark.ops("runs", settings=place.settings), "clicks") == [windows_run(place)]
    assert tidemark.read("clicks", "ops", settings=place.settings).num_rows == 1


def windows_run(place: Place) -> str:
    (row,) = DeltaTable(place.places.runs).to_pyarrow_table().to_pylist()
    return str(row["run"])


def test_the_tables_that_pipelines_shared_are_left_as_they_are(tmp_path: Path) -> None:
    place = Place(tmp_path / "root")
    for name in ("clicks", "other"):
        ended(Place(tmp_path / "former", name=name), "old", now() - timedelta(days=200))
        rows = DeltaTable(tmp_path / "former" / name / "ops/runs").to_pyarrow_table()
        shared = f"{place.places.shared_ops}/runs"
        write_deltalake(shared, rows, mode="append", partition_by=["pipeline"])
    before = set(DeltaTable(shared).file_uris())
    planned = plan_maintenance(place.pipeline, place.settings, now())
    assert "ops/runs" not in [plan.name for plan in planned]
    maintain_pipeline(place.pipeline, place.settings, "m", now())
    assert set(DeltaTable(shared).file_uris()) == before
    assert found(DeltaTable(place.places.runs).to_pyarrow_dataset(), "clicks") == []
    assert found(DeltaTable(shared).to_pyarrow_dataset(), "other") == ["old"]


def test_old_verdicts_of_checks_go(tmp_path: Path) -> None:
    place, instant = Place(tmp_path), now()
    for days in (200, 2):
        one = {"pipeline": "clicks", "run": f"run-{days}", "time": instant - timedelta(days=days)}
        table = ensure_ops_table(place.warehouse.quality, record.SCHEMA, "")
        write_deltalake(table, pa.Table.from_pylist([one], record.SCHEMA), mode="append")
    maintain_pipeline(place.pipeline, place.settings, "m", instant)
    assert found(DeltaTable(place.places.quality).to_pyarrow_dataset(), "clicks") == ["run-2"]


# Days ago: what a run stood for, and when its lines were written.
LOGICAL = [(400, 200), (400, 1), (1, 200), (0, 0), (-400, 200), (-400, 3), (30, 91), (91, 30)]


@pytest.mark.slow
@given(st.lists(st.sampled_from(LOGICAL), min_size=1, max_size=4, unique=True))
@settings(max_examples=15)
def test_lines_of_the_ledger_age_by_when_they_were_written_and_totals_say_what_they_lack(
    tmp_path_factory: pytest.TempPathFactory, runs: list[tuple[int, int]]
) -> None:
    place, instant = Place(tmp_path_factory.mktemp("root")), now()
    for batch, (logical, written) in enumerate(runs):
        line = LedgerLine(INGEST, "query", batch, batch=batch, read=10, accepted=10)
        scheduled = epoch_ms(instant - timedelta(days=logical))
        at = instant - timedelta(days=written)
        write_ledger(place.warehouse.ledger, "clicks", f"run-{batch}", scheduled, [line], at)
    maintain_pipeline(place.pipeline, place.settings, "m", instant)
    old = sum(written > 90 for _, written in runs)
    report = read_ledger(place.warehouse.ledger, "clicks", 9)
    assert report is not None
    assert len(report.lines) == len(runs) - old
    assert ("partial" in report.verdict) == bool(old)
    assert not old or f"maintenance removed {old} older lines" in report.verdict
    maintain_pipeline(place.pipeline, place.settings, "m", instant + timedelta(days=91))
    report = read_ledger(place.warehouse.ledger, "clicks", 9)
    assert report is not None
    assert f"maintenance removed {len(runs)} older lines" in report.verdict
    # Built anew, it has all that the tables tell.
    replace_ledger(place.warehouse.ledger, "clicks", [line], instant)
    report = read_ledger(place.warehouse.ledger, "clicks", 9)
    assert report is not None
    assert "partial" not in report.verdict


def without_column(uri: str, column: str) -> None:
    """As a version wrote the table that did not know the column."""
    rows = DeltaTable(uri).to_pyarrow_table().drop_columns([column])
    shutil.rmtree(uri)
    write_deltalake(uri, rows, partition_by=["pipeline"])


def test_lines_of_a_version_that_did_not_note_when_they_were_written_stay(tmp_path: Path) -> None:
    place, instant = Place(tmp_path), now()
    lines = [LedgerLine(INGEST, "query", 0, batch=0, read=1, accepted=1)]
    write_ledger(place.warehouse.ledger, "clicks", "former", 0, lines, instant)
    without_column(place.places.ledger, "written_at")
    for days in (200, 2):
        ended(place, f"run-{days}", instant - timedelta(days=days))
    without_column(place.places.runs, "written_at")
    maintain_pipeline(place.pipeline, place.settings, "m", instant)
    line = LedgerLine(INGEST, "query", 1, batch=1, read=1, accepted=1)
    write_ledger(place.warehouse.ledger, "clicks", "now", 0, [line], instant)
    maintain_pipeline(place.pipeline, place.settings, "m", instant + timedelta(days=91))
    report = read_ledger(place.warehouse.ledger, "clicks", 9)
    assert report is not None
    assert [row[0] for row in report.lines] == ["former"]
    # A run began when it was written, as far as anybody knows.
    assert found(DeltaTable(place.places.runs).to_pyarrow_dataset(), "clicks") == []


def test_the_row_of_a_run_that_was_interrupted_long_ago_is_as_old_as_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, instant = Place(tmp_path), now()
    began = instant - timedelta(days=200)
    note = PublishedNote(run="killed", started_at=began, trigger="manual")
    module = "tidemark.runs.recorded_runs._last_publishes"
    monkeypatch.setattr(module, lambda *_: {"per_10m": (3, note)})
    runs.record_interrupted_run(place.pipeline, place.warehouse)
    monkeypatch.setattr(module, lambda *_: {})
    maintain_pipeline(place.pipeline, place.settings, "m", instant)
    assert found(DeltaTable(place.places.runs).to_pyarrow_dataset(), "clicks") == ["killed"]


def found(known: ds.Dataset, pipeline: str) -> list[str]:
    own = known.to_table(filter=ds.field("pipeline") == pipeline)
    return sorted(own.column("run").to_pylist())


def test_rows_that_come_while_old_ones_are_dropped_stay(tmp_path: Path) -> None:
    place, instant = Place(tmp_path), now()
    ended(place, "old", instant - timedelta(days=200))
    ended(place, "young", instant)
    read = ensure_ops_table(place.warehouse.runs, runs.SCHEMA, "")
    ended(place, "meanwhile", instant)
    with pytest.raises(StorageUnavailable, match=r"The table holds what it held. Try again"):
        keep_rows_of(read, "clicks", ds.field("run") != "old")
    read.update_incremental()
    keep_rows_of(read, "clicks", ds.field("run") != "old")
    known = DeltaTable(place.places.runs).to_pyarrow_dataset()
    assert found(known, "clicks") == ["meanwhile", "young"]


@pytest.mark.slow
def test_what_is_kept_for_longer_than_there_were_years_is_kept_for_ever(tmp_path: Path) -> None:
    ever = timedelta(days=1_000_000)
    keep = Maintenance(log_retention=ever, ops_retention=ever, result_retention=ever)
    place = Place(tmp_path)
    bronze(place, now())
    ended(place, "run")
    Path(place.places.result("run")).parent.mkdir(exist_ok=True)
    Path(place.places.result("run")).write_text("{}")
    settings = place.settings.model_copy(update={"maintenance": keep})
    plans = plan_maintenance(place.pipeline, settings, now())
    assert {plan.name for plan in plans} >= {"bronze", "ops/runs", "results"}
    assert all(map(nothing_is_due, plans))


def test_result_files_go_by_their_age() -> None:
    instant = datetime(2026, 7, 1, tzinfo=UTC)
    ages = {"/r/a.json": 31, "/r/b.json": 29}
    files = {n: FileFacts(10, instant - timedelta(days=age)) for n, age in ages.items()}
    plan = plan_results("/r", files, KEEP.result_retention, instant)
    assert plan.remove == ("/r/a.json",)
    assert (plan.parts[0].number, plan.parts[0].going_size) == (2, 10)
