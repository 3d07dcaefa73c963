from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from deltalake import DeltaTable, write_deltalake

from tests.airflow.between_runs import checkpoints_of, upkeep_rows
from tests.checkpoint.archives import unpack
from tests.checkpoint.damaged import remove
from tests.end_to_end.pages import examples_under, page
from tidemark.airflow.upkeep import CheckpointHousekeepingOperator, StateCheckOperator
from tidemark.pipeline.load import load_pipeline
from tidemark.pipeline.settings.settings import load_settings
from tidemark.runs.pipeline_lease import pipeline_lease

Write = Callable[..., Path]
DUE_AT_4 = {"state": {"limits": {"max_changes": 3}}}


def check(pipeline: Path) -> dict[str, Any]:
    operator = StateCheckOperator(task_id="state_check", pipeline_file=str(pipeline))
    return operator.execute({"run_id": "scheduled__1"})  # type: ignore[arg-type]


@pytest.fixture
def ran(write_pipeline: Write, tmp_path: Path) -> Path:
    """A pipeline whose checkpoints are copies of real ones: no state, and four deltas each."""
    file = write_pipeline("visits", advanced=DUE_AT_4)
    checkpoints_of(tmp_path / "root", "files_compacted", "aggregate")
    return file


def test_a_state_that_is_due_is_told_and_recorded_and_is_no_failure(
    ran: Path, tmp_path: Path
) -> None:
    told = check(ran)
    none = {"verdict": "healthy", "reason": "the query keeps no state yet", "changes": 0}
    assert told["ingest"].items() >= none.items()
    due = {"verdict": "due", "longest_chain": 4, "changes": 8, "files": 8}
    assert told["page_1h"].items() >= due.items()
    assert told["page_1h"]["reason"].endswith("4 deltas or changelogs to replay, limit 3")
    (row,) = upkeep_rows(tmp_path / "root")
    head = {"run": "scheduled__1", "kind": "state check", "checkpoint": "page_1h"}
    assert row.items() >= (head | {"generation": 1, "verdict": "due"}).items()
    state = {"operator": 0, "store": "default", "provider": "HDFS-backed", "version": 4}
    counts = {"partitions": 2, "changes": 8, "snapshot_files": 0, "longest_chain": 4, "files": 8}
    assert row["state"].items() >= (state | counts | {"query_verdict": "due"}).items()
    assert row["state"]["change_bytes"] == row["state"]["bytes"] == told["page_1h"]["bytes"]


def test_a_row_is_for_a_store_and_stands_beside_those_of_housekeeping(
    ran: Path, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "root/visits/checkpoints/page_1h/1"
    shutil.rmtree(checkpoint)
    unpack("4.2.0/join-hdfs", tmp_path / "made").rename(checkpoint)
    housekeep = CheckpointHousekeepingOperator(task_id="housekeep", pipeline_file=str(ran))
    housekeep.execute({"run_id": "scheduled__1"})  # type: ignore[arg-type]
    check(ran)
    rows = upkeep_rows(tmp_path / "root")
    assert [row["kind"] for row in rows] == ["housekeeping"] * 2 + ["state check"] * 4
    assert {row["state"]["store"] for row in rows[2:]} == {
        f"{side}-{store}"
        for side in ("left", "right")
        for store in ("keyToNumValues", "keyWithIndexToValue")
    }
    assert all(row["shares"] and row["state"] is None for row in rows[:2])


def test_a_table_from_before_state_checks_gets_their_column(ran: Path, tmp_path: Path) -> None:
    housekeep = CheckpointHousekeepingOperator(task_id="housekeep", pipeline_file=str(ran))
    housekeep.execute({"run_id": "scheduled__1"})  # type: ignore[arg-type]
    place = tmp_path / "root/visits/ops/upkeep"
    before = DeltaTable(str(place)).to_pyarrow_dataset().to_table().drop_columns(["state"])
    shutil.rmtree(place)
    write_deltalake(str(place), before)
    check(ran)
    assert [row["kind"] for row in upkeep_rows(tmp_path / "root")][-1] == "state check"


def test_state_that_is_lost_is_recorded_and_then_fails_the_task_for_good(
    ran: Path, tmp_path: Path
) -> None:
    remove(tmp_path / "root/visits/checkpoints/page_1h/1/state/0/1/2.delta")
    with pytest.raises(AirflowFailException, match=r"StateLost.*state/0/1/2.delta is missing"):
        check(ran)
    (row,) = upkeep_rows(tmp_path / "root")
    assert (row["verdict"], row["state"]["query_verdict"]) == ("cannot be rebuilt",) * 2
    assert row["state"]["reason"] == "state/0/1/2.delta is missing"


def test_a_held_lease_does_not_keep_it_from_looking_and_nothing_is_changed(
    ran: Path, tmp_path: Path
) -> None:
    files = sorted((tmp_path / "root/visits").rglob("*"))
    with pipeline_lease(load_pipeline(ran), load_settings(), "run-1", "stream"):
        assert check(ran)["page_1h"]["verdict"] == "due"
    there = set((tmp_path / "root/visits").rglob("*"))
    after = {path for path in there if not {"lease", "ops"} & set(path.parts)}
    assert after == set(files)


def test_the_query_of_the_page_shows_growth(
    ran: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check(ran)
    check(ran)
    capsys.readouterr()
    (query,) = examples_under(page("state.md"), "Between runs", "python")
    exec(query.replace("warehouse/access_log", str(tmp_path / "root/visits")), {})
    assert capsys.readouterr().out.count("page_1h") == 2


def test_a_pipeline_that_never_ran_has_no_state_and_no_rows(
    write_pipeline: Write, tmp_path: Path
) -> None:
    assert check(write_pipeline("visits")) == {"ingest": None, "page_1h": None}
    assert not (tmp_path / "root/visits/ops/upkeep").exists()
