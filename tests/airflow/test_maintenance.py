from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from deltalake import DeltaTable, write_deltalake

from tests.checkpoint.damaged import copy_of
from tidemark.airflow import pipeline_dags
from tidemark.airflow.maintenance import MaintenanceOperator
from tidemark.errors import PipelineInvalid
from tidemark.pipeline.load import load_pipeline
from tidemark.pipeline.settings.settings import load_settings
from tidemark.runs.pipeline_lease import pipeline_lease

Write = Callable[..., Path]


@pytest.fixture
def dag(write_pipeline: Write) -> DAG:
    write_pipeline("visits")
    return pipeline_dags()["visits__maintenance"]


@pytest.fixture
def rejects(tmp_path: Path) -> Path:
    """A table of six small files."""
    place = tmp_path / "root/visits/rejects"
    for number in range(6):
        write_deltalake(str(place), pa.table({"n": [number]}), mode="append")
    return place


def maintain(dag: DAG, dry_run: bool = False, **conf: Any) -> dict[str, Any]:
    """As a Dag run with this conf does; Airflow makes a parameter of each of its names."""
    operator = dag.get_task("maintain")
    assert isinstance(operator, MaintenanceOperator)
    context = {
        "run_id": "scheduled__1",
        "params": {"dry_run": dry_run, **conf},
        "dag_run": SimpleNamespace(conf=conf or None),
    }
    return operator.execute(context)  # type: ignore[arg-type]


def test_the_dag_is_daily_one_at_a_time_and_allows_no_backfill(dag: DAG) -> None:
    assert dag.timetable.expression == "0 0 * * *"
    assert (dag.max_active_runs, dag.catchup) == (1, False)
    assert dag.allowed_run_types is not None
    assert "backfill" not in {kind.value for kind in dag.allowed_run_types}
    (task,) = dag.tasks
    assert task.retries == 3
    assert dag.params["dry_run"] is False


def test_the_settings_say_when(write_pipeline: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pipeline("visits")
    monkeypatch.setenv("TIDEMARK_MAINTENANCE__SCHEDULE", "30 4 * * sun")
    assert pipeline_dags()["visits__maintenance"].timetable.expression == "30 4 * * sun"


def test_a_dry_run_changes_nothing_and_the_task_does_what_it_showed(
    dag: DAG, rejects: Path
) -> None:
    due = maintain(dag, dry_run=True)
    assert due["rejects"]["compaction"] == 6
    assert DeltaTable(str(rejects)).version() == 5
    assert maintain(dag)["rejects"] == due["rejects"]
    assert len(DeltaTable(str(rejects)).file_uris()) == 1
    upkeep = rejects.parent / "ops/upkeep"
    recorded = DeltaTable(str(upkeep)).to_pyarrow_dataset().to_table().to_pylist()
    assert {(row["run"], row["place"]) for row in recorded} == {
        ("maintenance__scheduled__1", "rejects"), ("maintenance__scheduled__1", "results"),
    }  # fmt: skip


def test_a_parameter_that_there_is_not_keeps_it_from_all(dag: DAG, rejects: Path) -> None:
    with pytest.raises(AirflowFailException, match="was not started: it has no parameter dryrun"):
        maintain(dag, dryrun=True)
    assert DeltaTable(str(rejects)).version() == 5
    assert len(DeltaTable(str(rejects)).file_uris()) == 6


@pytest.mark.slow
def test_a_held_lease_is_told_and_can_be_tried_again(
    dag: DAG, rejects: Path, tmp_path: Path
) -> None:
    pipeline = load_pipeline(tmp_path / "pipelines/visits.yaml")
    lease = pipeline_lease(pipeline, load_settings(), "run-1", "stream")
    with lease, pytest.raises(AirflowException, match=r"LeaseHeld.*run-1") as raised:
        maintain(dag)
    assert not isinstance(raised.value, AirflowFailException)
    assert DeltaTable(str(rejects)).version() == 5


def test_a_query_that_is_behind_fails_the_task_for_good_once_the_others_are_done(
    dag: DAG, rejects: Path, tmp_path: Path
) -> None:
    place = tmp_path / "root/visits/bronze"
    for number in range(6):
        write_deltalake(str(place), pa.table({"n": [number]}), mode="append")
    log = place / "_delta_log"
    long_ago = datetime.now(UTC) - timedelta(days=4)
    for path in log.iterdir():
        age_commit(path, long_ago)
    # A query that has planned its first batch, and committed none.
    checkpoint = copy_of("aggregate", tmp_path / "made")
    for commit in (checkpoint / "commits").iterdir():
        commit.unlink()
    # It has read this bronze.
    identity = str(DeltaTable(str(place)).metadata().id)
    for offsets in (checkpoint / "offsets").glob("[0-9]*"):
        read = re.sub(r'"reservoirId":"[^"]+"', f'"reservoirId":"{identity}"', offsets.read_text())
        offsets.write_text(read)
    target = tmp_path / "root/visits/checkpoints/page_1h/1"
    target.parent.mkdir(parents=True)
    Path(checkpoint).rename(target)
    with pytest.raises(AirflowFailException, match=r"the query of page_1h has yet to read") as told:
        maintain(dag)
    assert "bronze" in str(told.value)
    assert "Run the pipeline, to its end" in str(told.value)
    assert DeltaTable(str(place)).version() == 5
    assert len(DeltaTable(str(rejects)).file_uris()) == 1


def age_commit(path: Path, instant: datetime) -> None:
    """Give a commit another time, as its writer's clock would have said it."""
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    for action in actions:
        if "commitInfo" in action:
            action["commitInfo"]["timestamp"] = int(instant.timestamp() * 1000)
    path.write_text("".join(f"{json.dumps(action)}\n" for action in actions))


def test_a_pipeline_cannot_have_the_name_of_a_maintenance_dag(write_pipeline: Write) -> None:
    with pytest.raises(PipelineInvalid, match="as the Dags of maintenance do"):
        load_pipeline(write_pipeline("visits__maintenance"))
