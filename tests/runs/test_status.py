"""How a pipeline stands, told by its tables, and what is to be done about it."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from tests.kit.running import Place, clicks
from tests.kit.windows import at, window
from tests.runs.pipelines import BEGAN, begun, bronze, checked, ended, housekept, windows_of
from tests.storage.leases import T0, HoldingProcess, leave, left_by_another
from tidemark.errors import (
    ChecksFailed,
    LeaseHeld,
    LinkLoop,
    NoteUnreadable,
    RunFailed,
    TableMismatch,
)
from tidemark.gold.pins import Late
from tidemark.gold.published import publish_note
from tidemark.runs import losses
from tidemark.runs.recorded_runs import SCHEMA, record_interrupted_run
from tidemark.runs.status.pipeline_status import PipelineStatus, pipeline_status
from tidemark.runs.status.recent_runs import counted_once, recent_runs
from tidemark.runs.status.recorded_status import all_statuses, record_status
from tidemark.runs.status.state import PipelineState
from tidemark.runs.unfinished_act import (
    ActKind,
    PipelineAct,
    check_no_unfinished_act,
    stop_for,
    unfinished_mark,
)
from tidemark.storage.delta.fence import fence_tables, pipeline_tables
from tidemark.storage.delta.notes import ReplayedNote, as_metadata
from tidemark.storage.delta.ops import ensure_ops_table, newest_rows
from tidemark.storage.processes import mark_of
from tidemark.upkeep.record import MAINTENANCE, append_upkeep

NOW = BEGAN + timedelta(minutes=25)
OFFSETS = '{"batchWatermarkMs":0,"batchTimestampMs":1782907200000,"conf":{}}'
COMMIT = '{"nextBatchWatermarkMs":0}'
ACT = "20260701T120500Z"
EVERY_TEN_MINUTES = clicks(schedule="*/10 * * * *")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def told(place: Place, now: datetime = NOW) -> PipelineStatus:
    return pipeline_status(place.pipeline, place.settings, now)


def state(place: Place, now: datetime = NOW) -> PipelineState:
    return told(place, now).state


def test_a_pipeline_that_has_not_run_is_told_how_to_run_it(place: Place) -> None:
    found = told(place)
    assert (found.state, found.runs) == (PipelineState.NEW, ())
    assert found.next_step == "It has not run yet: `tidemark run clicks` runs it."
    assert list(place.root.iterdir()) == []


def test_a_pipeline_is_told_by_what_its_runs_left(place: Place) -> None:
    windows_of(place)
    bronze(place, at(10, 12), at(10, 50))
    ended(place)
    found = told(place)
    assert (found.state, found.next_step) == (PipelineState.WELL, "Nothing.")
    assert (found.newest_event, found.watermark) == (at(10, 50), at(10, 40))
    (table,) = found.tables
    assert (table.closed_to, table.open_windows, table.unpublished) == (at(10, 40), 1, 0)
    assert (table.late_rows, table.corrected_windows) == (3, 1)
    (run,) = found.runs
    assert (run.read, run.accepted, run.rejected) == (1_000, 988, 12)


def test_gold_that_was_removed_is_told_as_not_published(place: Place) -> None:
    windows_of(place)
    ended(place)
    shutil.rmtree(place.places.gold("per_10m"))
    found = told(place)
    assert found.state is PipelineState.HELD
    assert found.next_step.startswith("3 changed windows are not published.")


def test_a_row_that_is_late_for_several_tables_is_one_row(place: Place) -> None:
    windows_of(place)
    ended(place, others={"per_1h": Late(rows=1, partly=0), "per_1d": Late(rows=4, partly=1)})
    (run,) = told(place).runs
    assert run.late_rows == 5
    assert {name: table.late_rows for name, table in run.tables.items()} == {
        "per_10m": 3, "per_1h": 1, "per_1d": 5,
    }  # fmt: skip


def test_late_rows_that_a_held_run_leaves_to_the_next_one_are_counted_once(place: Place) -> None:
    windows_of(place)
    ended(place, "first", late=Late(rows=1))
    ended(place, "held", BEGAN + timedelta(minutes=1), held=True, late=Late(rows=2))
    found = told(place)
    assert [run.late_rows for run in counted_once(found.runs)] == [2, 1]
    ended(place, "next", BEGAN + timedelta(minutes=2), late=Late(rows=5))
    found = told(place)
    assert [run.late_rows for run in found.runs] == [5, 2, 1]
    assert [run.late_rows for run in counted_once(found.runs)] == [5, 0, 1]
    assert found.tables[0].late_rows == 6


def test_a_run_that_was_held_and_then_published_is_one_run(place: Place) -> None:
    windows_of(place)
    ended(place, held=True)
    assert state(place) is PipelineState.HELD
    ended(place, seconds=9)
    assert [run.outcome for run in told(place).runs] == ["succeeded"]
    assert state(place) is PipelineState.WELL


def test_a_publish_that_failed_and_then_went_well_is_told_by_its_end(place: Place) -> None:
    windows_of(place)
    ended(place, held=True)
    ended(place, error=RunFailed("no"), seconds=9)
    assert state(place) is PipelineState.FAILED
    ended(place, seconds=12)
    assert [run.outcome for run in told(place).runs] == ["succeeded"]


def test_a_run_whose_row_the_next_one_wrote_is_not_held(place: Place) -> None:
    windows = place.windows()
    windows.change(window(at(10), key="a", total=1))
    ended(place, held=True)
    windows.publish_at(None)
    begun(place)
    assert state(place) is PipelineState.HELD
    record_interrupted_run(place.pipeline, place.warehouse)
    assert [run.outcome for run in told(place).runs] == ["interrupted"]
    assert state(place) is PipelineState.WELL


def test_changes_that_no_publish_took_are_told(place: Place) -> None:
    windows = windows_of(place)
    ended(place)
    windows.change(*(window(at(11, minute), key="a", total=1) for minute in (0, 10)))
    found = told(place)
    assert found.state is PipelineState.HELD
    assert found.next_step == (
        "2 changed windows are not published. The next run (`tidemark run clicks`) publishes them."
    )


def test_the_commits_of_a_fence_are_no_changes(place: Place) -> None:
    windows_of(place)
    bronze(place, at(10))
    ended(place)
    fence_tables(pipeline_tables(place.pipeline, place.warehouse), 3)
    assert state(place) is PipelineState.WELL


@pytest.mark.parametrize(
    ("error", "expected", "step"),
    [
        (
            RunFailed("query x: boom\nat y"),
            PipelineState.FAILED,
            "The next run (`tidemark run clicks`) can mend it; the last one failed: RunFailed: "
            "query x: boom…",
        ),
        (KeyError("k"), PipelineState.FAILED, None),
        (
            TableMismatch("gold lacks a column"),
            PipelineState.STOPPED,
            "Mend this, then `tidemark run clicks`: TableMismatch: gold lacks a column",
        ),
        (LinkLoop("a link leads back to itself"), PipelineState.STOPPED, None),
    ],
)
def test_a_failed_run_is_told_by_whether_a_retry_can_help(
    place: Place, error: Exception, expected: PipelineState, step: str | None
) -> None:
    ended(place, error=error)
    found = told(place)
    assert found.state is expected
    assert step in (None, found.next_step)


def test_a_run_by_a_clock_that_was_ahead_does_not_hide_those_of_now(place: Place) -> None:
    windows_of(place)
    ended(place, "ahead", began=at(12, day=3))
    assert [run.run for run in told(place).runs] == ["ahead"], "there is no other"
    ended(place, "now", error=RunFailed("so"))
    assert state(place) is PipelineState.FAILED
    assert [run.run for run in told(place).runs] == ["now"]
    assert state(place, at(13, day=3)) is PipelineState.WELL


def test_a_run_that_found_the_lease_taken_says_nothing_of_the_pipeline(place: Place) -> None:
    windows_of(place)
    ended(place)
    ended(place, "second", BEGAN + timedelta(seconds=2), error=LeaseHeld("held"))
    assert state(place) is PipelineState.WELL


def ten_found_the_lease_taken(place: Place) -> None:
    for number in range(10):
        began = BEGAN + timedelta(minutes=1, seconds=number)
        ended(place, f"try {number}", began, error=LeaseHeld("held"))


def test_however_many_runs_found_the_lease_taken_the_one_before_them_tells(place: Place) -> None:
    windows_of(place)
    ended(place, error=ChecksFailed("no"), held=True)
    before = told(place)
    assert before.state is PipelineState.STOPPED
    ten_found_the_lease_taken(place)
    found = told(place)
    assert (found.state, found.next_step) == (before.state, before.next_step)
    assert [run.error_class for run in found.runs] == ["LeaseHeld"] * 10


def test_runs_that_found_the_lease_taken_are_none_after_ops_was_removed(place: Place) -> None:
    windows_of(place)
    ten_found_the_lease_taken(place)
    found = told(place)
    assert found.state is PipelineState.UNKNOWN
    assert found.next_step.startswith("`ops/runs` has no run of it, and one that began at ")


@pytest.mark.slow
@pytest.mark.parametrize("stopped", [False, True])
def test_a_backfill_however_it_ended_leaves_the_streams_state_as_it_is(
    place: Place, stopped: bool
) -> None:
    windows_of(place)
    ended(place, error=TableMismatch("gold lacks a column") if stopped else None)
    before = told(place)
    failed = ChecksFailed("amount < 100") if not stopped else None
    ended(place, "mend", BEGAN + timedelta(minutes=1), error=failed, trigger="backfill")
    # More than a screen shows; and one that died before its row was written.
    for n in range(35):
        ended(place, f"day {n}", BEGAN + timedelta(minutes=2, seconds=n), trigger="backfill")
    note = publish_note("dead", BEGAN + timedelta(minutes=20), "backfill")
    gold = DeltaTable(place.places.gold("per_10m"))
    write_deltalake(
        gold, gold.to_pyarrow_table(), mode="overwrite",
        commit_properties=CommitProperties(custom_metadata=as_metadata(note)),
    )  # fmt: skip
    record_interrupted_run(place.pipeline, place.warehouse)
    found = told(place)
    assert (found.state, found.next_step) == (before.state, before.next_step)
    assert [run.run for run in found.runs] == ["run"]


@pytest.mark.parametrize("behind", [None, ChecksFailed("no")])
def test_a_pipeline_that_was_taken_back_waits_for_its_next_run(
    place: Place, behind: Exception | None
) -> None:
    windows_of(place)
    ended(place, error=behind, held=behind is not None)
    ended(place, "back", BEGAN + timedelta(minutes=1), trigger="rewind")
    found = told(place)
    assert found.state is PipelineState.HELD
    assert found.next_step == (
        "The rewind back took it back. The next run (`tidemark run clicks`) reads again what came "
        "since."
    )
    assert [run.run for run in found.runs] == ["back", "run"]
    ended(place, "next", BEGAN + timedelta(minutes=2))
    assert state(place) is PipelineState.WELL


def test_a_rewind_that_failed_is_told_by_its_error(place: Place) -> None:
    windows_of(place)
    ended(place, "back", trigger="rewind", error=TableMismatch("gold lacks a column"))
    assert state(place) is PipelineState.STOPPED


def test_a_run_at_work_is_told(place: Place) -> None:
    with HoldingProcess(place.places.lease, "nightly", 60) as holding:
        assert holding.heard() == "held 1"
        found = told(place, datetime.now(tz=BEGAN.tzinfo))
    assert found.state is PipelineState.WORKING
    assert found.next_step.startswith("Nothing: run nightly (stream) on ")


@pytest.mark.parametrize("is_over", [False, True])
def test_a_run_that_begins_while_the_status_is_told_has_lost_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch, is_over: bool
) -> None:
    windows_of(place)
    ended(place)
    bronze(place, at(10, 12))
    write_deltalake(place.places.rejects, pa.table({"raw": ["{"]}))
    assert state(place) is PipelineState.WELL
    real = losses.found_tables

    def between(*asked: Any) -> Any:
        """A run plans and commits a batch, behind the listing of its checkpoint."""
        monkeypatch.setattr(losses, "found_tables", real)
        taken = {"machine": "another", "taken_at": NOW, "renewed_at": NOW, "expires_at": at(13)}
        leave(place.places.lease, left_by_another(released=is_over, **taken))
        checkpoint = Path(place.places.ingest_checkpoint)
        for log, lines in (("offsets", (OFFSETS, "{}")), ("commits", (COMMIT,))):
            (checkpoint / log).mkdir()
            (checkpoint / log / "0").write_text("\n".join(("v1", *lines)))
        query = json.loads((checkpoint / "metadata").read_text())["id"]
        done = CommitProperties(app_transactions=[Transaction(query, 0)])
        write_deltalake(
            place.places.bronze,
            DeltaTable(place.places.bronze).to_pyarrow_table(),
            mode="append",
            commit_properties=done,
        )
        return real(*asked)

    monkeypatch.setattr(losses, "found_tables", between)
    found = told(place)
    assert found.state is (PipelineState.WELL if is_over else PipelineState.WORKING), found


def test_a_run_that_was_killed_is_told_by_the_lease_that_it_left(place: Place) -> None:
    windows_of(place)
    ended(place)
    leave(place.places.lease, left_by_another())
    found = told(place, T0)
    assert found.state is PipelineState.KILLED
    assert found.next_step == (
        "run other (stream) on elsewhere did not come to its end (its processes are gone). The "
        "next run (`tidemark run clicks`) finishes what it left."
    )


def test_a_lease_whose_processes_may_be_of_others_is_for_a_person(place: Place) -> None:
    with HoldingProcess(f"{place.places.lease} of its own", "bystander", 60) as bystander:
        mark = mark_of(bystander.process.pid)
        assert mark is not None
        leave(place.places.lease, left_by_another(processes=(mark,)))
        found = told(place, T0 + timedelta(seconds=61))
    assert found.state is PipelineState.STOPPED
    assert found.next_step.startswith(
        "run other (stream) on elsewhere did not come to its end: it may be taken over, but process"
    )
    assert "tidemark lease release --force" in found.next_step


def test_a_lease_that_nobody_can_read_leaves_the_status_unknown(place: Place) -> None:
    Path(place.places.lease).mkdir(parents=True)
    Path(place.places.lease, f"{7:020}.json").write_text("{")
    found = told(place)
    assert found.state is PipelineState.UNKNOWN
    assert found.problem is not None
    assert found.problem.startswith("LeaseUnreadable: ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trigger", "minutes", "expected"),
    [
        ("scheduled", 19, PipelineState.WELL),
        ("scheduled", 25, PipelineState.OVERDUE),
        ("manual", 25, PipelineState.WELL),
    ],
)
def test_a_scheduled_pipeline_is_overdue_when_a_time_of_its_schedule_passed_without_a_run(
    tmp_path: Path, trigger: str, minutes: int, expected: PipelineState
) -> None:
    pytest.importorskip("croniter")
    place = Place(tmp_path, EVERY_TEN_MINUTES)
    windows_of(place)
    ended(place, trigger=trigger)
    found = told(place, BEGAN + timedelta(minutes=minutes))
    assert found.state is expected
    if expected is PipelineState.OVERDUE:
        assert found.next_step == (
            "Is its Dag paused, or Airflow down? No run began since 2026-07-01T12:00:00Z, though "
            "its schedule names 2026-07-01T12:10:00Z and a time after that."
        )


def test_a_rewind_is_no_run_of_the_schedule(tmp_path: Path) -> None:
    pytest.importorskip("croniter")
    place = Place(tmp_path, EVERY_TEN_MINUTES)
    windows_of(place)
    ended(place, trigger="scheduled")
    ended(place, "back", BEGAN + timedelta(minutes=20), trigger="rewind")
    found = told(place)
    assert found.state is PipelineState.OVERDUE
    assert "No run began since 2026-07-01T12:00:00Z" in found.next_step
    assert found.next_step.endswith("reads again what came since.")


def test_a_failed_run_that_no_other_follows_is_overdue(tmp_path: Path) -> None:
    pytest.importorskip("croniter")
    place = Place(tmp_path, EVERY_TEN_MINUTES)
    ended(place, trigger="scheduled", error=RunFailed("boom"))
    found = told(place)
    assert found.state is PipelineState.OVERDUE
    assert found.next_step.endswith("the last one failed: RunFailed: boom")


@pytest.mark.slow
def test_the_last_ten_runs_count_as_recent(place: Place) -> None:
    for number in range(13):
        began = BEGAN + timedelta(minutes=number)
        ended(place, f"run {number}", began, held=True)
        ended(place, f"run {number}", began)
    runs = told(place).runs
    assert [run.run for run in runs] == [f"run {number}" for number in range(12, 2, -1)]


def test_pipelines_do_not_see_the_runs_of_others(tmp_path: Path) -> None:
    one, other = Place(tmp_path), Place(tmp_path, name="words")
    ended(one)
    assert state(other) is PipelineState.NEW
    ended(other, error=TableMismatch("x"))
    assert (len(told(one).runs), len(told(other).runs)) == (1, 1)


def test_only_files_with_the_newest_rows_are_opened(place: Place) -> None:
    for number in range(9):
        ended(place, f"run {number}", BEGAN + timedelta(minutes=number, microseconds=123_456))
    table = DeltaTable(place.places.runs)
    newest = [f"run {number}" for number in (8, 7, 6)]
    for uri in table.file_uris():
        if pq.read_table(uri).column("run")[0].as_py() not in newest:
            Path(uri).unlink()
    rows = newest_rows(table, "clicks", "started_at", 3)
    assert [row["run"] for row in rows] == newest


def test_rows_in_one_large_file_are_found_as_well(place: Place) -> None:
    for number in range(5):
        ended(place, f"run {number}", BEGAN + timedelta(minutes=number))
    DeltaTable(place.places.runs).optimize.compact()
    runs = recent_runs(DeltaTable(place.places.runs), "clicks", 2)
    assert [run.run for run in runs] == ["run 4", "run 3"]


@pytest.mark.slow
def test_runs_after_one_that_was_ahead_are_the_newest_also_where_it_is_packed(place: Place) -> None:
    for number in range(10):
        ended(place, f"run {number}", BEGAN + timedelta(minutes=number))
    ended(place, "ahead", BEGAN + timedelta(days=30))
    DeltaTable(place.places.runs).optimize.compact()
    ended(place, "next", BEGAN + timedelta(minutes=20), error=TableMismatch("x"))
    runs = told(place).runs
    assert [run.run for run in runs] == ["next", *(f"run {number}" for number in range(9, 0, -1))]
    assert state(place) is PipelineState.STOPPED


def test_a_table_of_runs_without_a_row_tells_of_none(place: Place) -> None:
    ensure_ops_table(place.warehouse.runs, SCHEMA, "")
    assert state(place) is PipelineState.NEW


def test_open_windows_are_looked_for_in_the_newest_dates_only(place: Place) -> None:
    windows = windows_of(place)
    windows.change(window(at(9, day=5), key="a", total=1))
    windows.publish_at(at(0, day=5))
    ended(place)
    for uri in windows.gold_table().file_uris():
        if "window_date=2026-07-01" in uri:
            Path(uri).unlink()
    assert told(place).tables[0].open_windows == 1


def test_the_state_is_what_the_last_upkeep_left_or_found(place: Place) -> None:
    windows_of(place)
    ended(place)
    assert told(place).state_bytes is None
    housekept(place, at(11), ingest=0, per_10m=5_000)
    housekept(place, at(12), ingest=0, per_10m=4_000)
    assert told(place).state_bytes == 4_000
    checked(place, at(13), 1_000, 2_500)
    assert told(place).state_bytes == 3_500


def test_maintenance_since_makes_no_difference_and_is_not_read(place: Place) -> None:
    windows_of(place)
    ended(place)
    housekept(place, at(12), ingest=0, per_10m=4_000)
    telling = set(DeltaTable(place.places.upkeep).file_uris())
    for minute in range(3):
        row = {"pipeline": "clicks", "time": at(13, minute), "kind": MAINTENANCE}
        append_upkeep(place.warehouse.upkeep, [row])
    for uri in set(DeltaTable(place.places.upkeep).file_uris()) - telling:
        Path(uri).unlink()
    assert told(place).state_bytes == 4_000


def test_the_state_is_found_behind_packed_rows_of_kinds_that_tell_none(place: Place) -> None:
    housekept(place, at(12), per_10m=4_000)
    kinds = (MAINTENANCE, "validation")
    rows = [{"pipeline": "clicks", "time": at(13), "kind": kind} for kind in kinds]
    append_upkeep(place.warehouse.upkeep, rows)
    assert told(place).state_bytes == 4_000


def test_a_broken_file_and_a_broken_table_keep_no_other_pipeline_from_being_told(
    tmp_path: Path,
) -> None:
    good, torn, bad = (Place(tmp_path, name=name) for name in ("good", "torn", "bad"))
    for place in (good, torn):
        place.write_file()
        windows_of(place)
    ended(good)
    Path(torn.places.gold("per_10m"), "_delta_log", f"{1:020}.json").write_text("{")
    bad.write_file().write_text("source: [\n")
    found = {one.name: one for one in all_statuses(good.settings, NOW)}
    assert [(name, one.state) for name, one in found.items()] == [
        ("bad", PipelineState.INVALID),
        ("good", PipelineState.WELL),
        ("torn", PipelineState.UNKNOWN),
    ]
    assert found["bad"].next_step.startswith(f"Mend {tmp_path}/pipelines/bad.yaml: ")


def test_rejects_that_were_replayed_wait_for_the_next_run(place: Place) -> None:
    place.write_file()
    windows_of(place)
    bronze(place, at(10, 12), at(10, 50))
    ended(place)
    record_status(place.name, place.settings, NOW)
    (recorded,) = all_statuses(place.settings, NOW)
    assert recorded.state is state(place) is PipelineState.WELL
    noted = CommitProperties(custom_metadata=as_metadata(ReplayedNote(id=ACT, rows=1)))
    rows = place.warehouse.bronze.existing().to_pyarrow_table().slice(0, 1)
    write_deltalake(place.places.bronze, rows, mode="append", commit_properties=noted)
    found = told(place)
    assert found.state is PipelineState.HELD
    assert "gold does not yet. The next run (`tidemark run clicks`) brings gold" in found.next_step
    for _ in range(2):
        (recorded,) = all_statuses(place.settings, NOW)
        assert (recorded.state, recorded.next_step) == (found.state, found.next_step)
        record_status(place.name, place.settings, NOW)


def test_changes_that_are_being_followed_are_finished_by_the_next_run(place: Place) -> None:
    windows_of(place)
    bronze(place, at(10, 12), at(10, 50))
    ended(place)
    stop_for(place.warehouse, PipelineAct(ActKind.FOLLOWING, ACT))
    found = told(place)
    assert found.state is PipelineState.KILLED
    assert found.next_step.endswith("The next run finishes it: `tidemark run clicks`.")
    # Not where the last one stopped at something that the next one stops at too.
    ended(place, "next", BEGAN + timedelta(minutes=10), TableMismatch("The table gold does not."))
    assert state(place) is PipelineState.STOPPED
    stop_for(place.warehouse, PipelineAct(ActKind.RETRACTION, ACT))
    assert "no run starts" in told(place).next_step


@pytest.mark.parametrize(
    "content", [b"", bytes(40), b"compaction 20270101T000000Z", b"erasure ", b"\xff\xfe"]
)
def test_a_mark_that_does_not_say_which_act_was_begun_is_none_of_a_rewind(
    place: Place, content: bytes
) -> None:
    """A power loss may leave such a file, and a newer version knows other acts."""
    windows_of(place)
    mark = Path(unfinished_mark(place.warehouse))
    mark.parent.mkdir(parents=True)
    mark.write_bytes(content)
    with pytest.raises(NoteUnreadable) as unreadable:
        check_no_unfinished_act(place.warehouse)
    assert str(unreadable.value).startswith(f"{mark} does not say which act of clicks was begun")
    assert str(unreadable.value) in told(place).next_step
