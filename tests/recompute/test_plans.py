"""Plans of acts: written and read again, refused where they are not what this version writes, and
held to what they were made on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.kit.running import Place, clicks
from tidemark.errors import (
    ErasureUnproven,
    ReplayRefused,
    ReplayUnproven,
    RetractionRefused,
    RewindRefused,
    TidemarkError,
)
from tidemark.ledger.ledger import write_ledger
from tidemark.ledger.lines import erasure_line, replay_line, retraction_line
from tidemark.recompute.erase.change import ErasedRows, Erasure, read_erasure
from tidemark.recompute.plans import CHANGE, new_act_id, write_plan
from tidemark.recompute.replay.change import read_replay
from tidemark.recompute.retract.change import Retraction, acts_since, read_retraction
from tidemark.recompute.retract.record import keep_change
from tidemark.recompute.rewind.change import IngestBack, PipelineChange, TableBack, read_change
from tidemark.recompute.rewind.plan import is_of
from tidemark.recompute.still_planned import check_files_there, check_no_other_rows
from tidemark.runs.requests import RewindRequest
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.delta.written_files import WrittenFile
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import FileFacts

READERS: list[tuple[Callable[[FilePlace], Any], type[TidemarkError]]] = [
    (read_change, RewindRefused),
    (read_retraction, RetractionRefused),
    (read_replay, ReplayRefused),
    (read_erasure, ErasureUnproven),
]
AT = datetime(2026, 1, 1, tzinfo=UTC)
FILE = WrittenFile(
    "_event_date=2026-01-01/a.parquet", FileFacts(100, AT), {"_event_date": "2026-01-01"},
    rows=2, nulls={"a": 1}, lowest={"a": 3}, highest={"a": 3},
)  # fmt: skip


@pytest.mark.parametrize(("read", "unusable"), READERS)
def test_a_plan_of_another_version_is_refused(
    tmp_path: Path, read: Callable[[FilePlace], Any], unusable: type[TidemarkError]
) -> None:
    (tmp_path / CHANGE).write_text('{"format": 99}')
    with pytest.raises(unusable, match="This try changed nothing"):
        read(FilePlace(str(tmp_path)))


@pytest.mark.parametrize(("read", "refused"), READERS[:3])
def test_a_plan_that_is_not_there_is_refused(
    tmp_path: Path, read: Callable[[FilePlace], Any], refused: type[TidemarkError]
) -> None:
    with pytest.raises(refused, match=str(tmp_path)):
        read(FilePlace(str(tmp_path)))


def test_of_an_erasure_no_plan_is_left_once_it_is_done(tmp_path: Path) -> None:
    assert read_erasure(FilePlace(str(tmp_path))) is None


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    plan = Erasure(
        id="20260101T000000Z",
        run_id="erase__20260101T000000Z",
        pipeline="clicks",
        planned_at=AT,
        by="somebody",
        reason="asked for",
        erased=(ErasedRows(table="bronze", version=3, rows=1, staying=(FILE,)),),
        tables=(),
    )
    write_plan(FilePlace(str(tmp_path)), plan)
    assert read_erasure(FilePlace(str(tmp_path))) == plan


def test_rows_since_the_plan_are_others_and_files_that_moved_are_none(tmp_path: Path) -> None:
    place = TablePlace(str(tmp_path))
    for number in range(3):
        write_deltalake(str(tmp_path), pa.table({"a": [number]}), mode="append")
    table = DeltaTable(str(tmp_path))
    assert table.optimize.compact()["numFilesRemoved"] == 3
    check_no_other_rows(place, 2, "the replay 7", ReplayUnproven)
    with pytest.raises(ReplayUnproven, match="in version 2, since the replay 7 was planned at"):
        check_no_other_rows(place, 1, "the replay 7", ReplayUnproven)
    DeltaTable(str(tmp_path)).delete("a = 1")
    with pytest.raises(ReplayUnproven, match="got other rows in version 4"):
        check_no_other_rows(place, 2, "the replay 7", ReplayUnproven)


def test_a_file_that_is_to_be_committed_and_gone_is_told(tmp_path: Path) -> None:
    place = TablePlace(str(tmp_path))
    with pytest.raises(ReplayUnproven, match="parquet, which is to be committed, is gone"):
        check_files_there(place, (FILE,), ReplayUnproven)
    file = tmp_path / FILE.path
    file.parent.mkdir()
    file.write_bytes(b"")
    check_files_there(place, (FILE,), ReplayUnproven)


@pytest.mark.parametrize("behind", [timedelta(minutes=3), timedelta(), timedelta(minutes=-3)])
def test_each_act_has_its_line_and_is_seen_by_an_undo_whatever_the_clock_of_its_machine(
    tmp_path: Path, behind: timedelta
) -> None:
    place = Place(tmp_path)
    tables, acts = place.warehouse, []
    for now in (AT, AT - behind, AT - behind):
        for line in (
            lambda act: retraction_line(act, None, 1, 1),
            lambda act: replay_line(act, 1, 1),
            lambda act: erasure_line(act, 1, 1),
        ):
            acts.append(act := new_act_id(tables, now))
            keep_change(_retraction(act, place.name), tables)
            write_ledger(tables.ledger, place.name, act, 0, [line(act)], AT)
    written = dataset_of(tables.ledger.existing()).to_table(["run"])["run"].to_pylist()
    assert sorted(written) == acts
    assert [one.id for one in acts_since(tables, acts[0])] == acts[1:]


def test_an_act_comes_behind_those_whose_plans_an_erasure_forgot(tmp_path: Path) -> None:
    tables = Place(tmp_path).warehouse
    assert new_act_id(tables, AT) == "20260101T000000Z"
    for name in ("replays/20260101T000004Z/x", "erasures/20260101T000007Z.json", "erasures/notes"):
        file = Path(tables.places.folder, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    assert new_act_id(tables, AT) == "20260101T000008Z"
    assert new_act_id(tables, AT + timedelta(hours=1)) == "20260101T010000Z"


def _retraction(act: str, pipeline: str) -> Retraction:
    return Retraction(
        id=act, run_id=f"retract__{act}", pipeline=pipeline, planned_at=AT, by="Ada", reason="r",
        what="of it", condition="false", bronze=1, rows=1, dates=(), tables=(),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "is_it"),
    [
        ({"run_id": "rewind__manual__1", "to_offsets": ("clicks/0:7",)}, True),
        ({"run_id": "rewind__manual__2", "to_offsets": ("clicks/0:7",)}, False),
        ({"to_offsets": ("clicks/0:7",)}, False),
        ({"run_id": "rewind__manual__2", "to_run": "r1"}, True),
        ({}, True),
    ],
)
@pytest.mark.parametrize("asked_by", ["rewind__manual__1", None])
def test_a_rewind_that_was_begun_is_that_of_a_further_try_of_its_task(
    asked: dict[str, Any], is_it: bool, asked_by: str | None
) -> None:
    back = TableBack(uri="", seen=2, version=1)
    change = PipelineChange(
        id="1", run_id="rewind__1", pipeline="clicks", planned_at=AT, to="the end of r1",
        to_run="r1", ingest=IngestBack(query="q", listed={}, batch=1), bronze=back, rejects=back,
        golds=(), asked_by=asked_by,
    )  # fmt: skip
    # A former version did not note it.
    is_it = is_it and (asked_by is not None or "to_offsets" not in asked)
    assert is_of(change, RewindRequest(pipeline="clicks", **asked)) == is_it


def test_a_reason_that_neither_a_reject_nor_a_rule_has_is_not_replayed(tmp_path: Path) -> None:
    from tidemark.streaming.recompute.replaying import _check_reason

    columns = {"at": "timestamp", "key": "string", "amount": "long"}
    source = {"files": "landing/*", "columns": columns, "event_time": {"column": "at"},
              "rules": [{"name": "no key", "reject": "key is null"}]}  # fmt: skip
    run = Place(tmp_path, clicks(source=source)).run("replay")
    uri = run.warehouse.rejects.uri
    write_deltalake(uri, pa.table({"reason": ["malformed", "former rule"]}))
    for reason in ("former rule", "malformed", "duplicate", "no key"):
        _check_reason(run, DeltaTable(uri), reason)
    told = "--of duplicat: no reject of clicks has this reason. Nothing was changed. There are: "
    with pytest.raises(ReplayRefused, match=f"{told}former rule, malformed"):
        _check_reason(run, DeltaTable(uri), "duplicat")
    DeltaTable(uri).delete()
    with pytest.raises(ReplayRefused, match="There are none"):
        _check_reason(run, DeltaTable(uri), "former rule")
