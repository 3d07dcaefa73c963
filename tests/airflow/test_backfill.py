"""The backfill Dag: what it asks for, and what its task submits."""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.definitions.param import process_params
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from tests.airflow.test_stream_operator import SUBMIT
from tidemark.airflow import pipeline_dags
from tidemark.airflow.assets import asset_of, gold_asset
from tidemark.airflow.job import job_file
from tidemark.airflow.recompute import BackfillOperator
from tidemark.errors import PipelineInvalid
from tidemark.pipeline.load import load_pipeline
from tidemark.pipeline.places import Places
from tidemark.runs.acceptance import CheckOverride
from tidemark.runs.requests import BackfillRequest, RunRequest

Write = Callable[..., Path]
RUN = "manual__2026-11-21T10:00:00+00:00"
ASKED = {
    "table": "page_1h",
    "from": "2026-07-01T02:00:00+02:00",
    "to": "2026-07-02T00:00:00Z",
    "dry_run": False,
}
RESULT = {
    "pipeline": "visits",
    "table": "page_1h",
    "run_id": f"backfill__{RUN}",
    "dry_run": False,
    "outcome": "succeeded",
    "window_from": "2026-07-01T00:00:00Z",
    "window_to": "2026-07-02T00:00:00Z",
    "started_at": "2026-11-21T10:00:01Z",
    "ended_at": "2026-11-21T10:00:09Z",
    "found": {"gold_windows": 9, "bronze_windows": 9, "equal": 7, "different": 2},
    "appended": 2,
    "changes": 8,
    "gold": 5,
    "published_windows": 2,
}


@pytest.fixture
def dag(write_pipeline: Write) -> DAG:
    write_pipeline("visits", owner="web", schedule="@hourly")
    return pipeline_dags()["visits__backfill"]


def test_the_dag_is_started_by_hand_one_run_at_a_time(dag: DAG) -> None:
    assert (dag.timetable.can_be_scheduled, dag.max_active_runs, dag.catchup) == (False, 1, False)
    assert dag.allowed_run_types is not None
    assert {kind.value for kind in dag.allowed_run_types} == {"manual", "operator_triggered"}
    assert [(task.task_id, task.owner) for task in dag.tasks] == [("backfill", "web")]


def test_dags_that_follow_gold_follow_what_it_mends(dag: DAG) -> None:
    (task,) = dag.tasks
    assert task.outlets == [gold_asset("visits", "page_1h")]


def test_it_asks_for_a_table_of_the_pipeline_and_a_range_and_is_a_dry_run_unless_told(
    dag: DAG,
) -> None:
    params = {name: dag.params.get_param(name) for name in ("table", "from", "to", "dry_run")}
    assert params["table"].schema["enum"] == ["page_1h"]
    assert {params[name].schema["format"] for name in ("from", "to")} == {"date-time"}
    assert params["dry_run"].resolve() is True
    assert params["from"].has_value is False
    assert dag.params.get_param("accept").resolve() is None


def test_its_documentation_says_what_is_refused(dag: DAG) -> None:
    assert "windows that are still open" in str(dag.doc_md)
    assert "`dry_run`** is on unless" in str(dag.doc_md)


def test_the_streams_documentation_names_it_and_why_airflow_backfills_are_not_allowed(
    write_pipeline: Write,
) -> None:
    write_pipeline("visits")
    told = " ".join(str(pipeline_dags()["visits"].doc_md).split())
    assert "Airflow's own backfills are not allowed here" in told
    assert "The Dag `visits__backfill` does" in told


@pytest.mark.parametrize(
    "dag_id",
    [
        "visits",
        "visits__backfill",
        "visits__migrate",
        "visits__rewind",
        "visits__retract",
        "visits__maintenance",
    ],
)
def test_a_task_process_makes_only_the_dag_that_it_runs(
    write_pipeline: Write, monkeypatch: pytest.MonkeyPatch, dag_id: str
) -> None:
    write_pipeline("visits")
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", dag_id)
    assert list(pipeline_dags()) == [dag_id]


def test_a_pipeline_cannot_have_the_name_of_a_backfill_dag(write_pipeline: Write) -> None:
    with pytest.raises(PipelineInvalid, match="as the Dags of backfills do"):
        load_pipeline(write_pipeline("visits__backfill"))


class Backfill:
    """A backfill task whose spark-submit leaves the result that it is told to."""

    def __init__(self, folder: Path, pipeline: Path) -> None:
        self.folder, self.pipeline = folder, pipeline
        self.places = Places(str(folder), "visits")
        self.events: dict[str, Any] = {}

    def run(
        self, result: dict[str, Any] | None, tables: Sequence[str] = (), **asked: Any
    ) -> dict[str, Any]:
        plan = {
            "result": json.dumps(result) if result else None,
            "exit": 0,
            "hang": None,
            "seen": str(self.folder / "seen.json"),
        }
        (self.folder / "plan.json").write_text(json.dumps(plan))
        operator = BackfillOperator(
            task_id="backfill",
            pipeline_file=str(self.pipeline),
            conn_id="spark_default",
            spark_binary=str(self.folder / "spark-submit"),
            outlets=[asset_of(table, self.places) for table in tables],
        )
        context: Any = {
            "run_id": RUN,
            "ti": SimpleNamespace(try_number=1),
            "params": {**ASKED, **asked},
            "dag_run": SimpleNamespace(triggering_user_name="ada", dag_id="clicks__backfill"),
            "outlet_events": defaultdict(SimpleNamespace),
        }
        try:
            return operator.execute(context)
        finally:
            # What Airflow makes events of.
            self.events = {
                asset.name: context["outlet_events"][asset].extra for asset in operator.outlets
            }

    def request(self) -> BackfillRequest:
        seen: list[str] = json.loads((self.folder / "seen.json").read_text())
        return BackfillRequest.read(seen[seen.index(job_file(BackfillRequest.job)) + 1 :])


@pytest.fixture
def task(write_pipeline: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Backfill:
    binary = tmp_path / "spark-submit"
    binary.write_text(SUBMIT.format(python=sys.executable, plan=str(tmp_path / "plan.json")))
    binary.chmod(0o755)
    connection = {"conn_type": "spark", "host": "local[2]"}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    return Backfill(tmp_path, write_pipeline("visits"))


@pytest.mark.slow
def test_the_job_is_told_table_and_range_under_a_run_id_that_no_stream_has(task: Backfill) -> None:
    summary = task.run(RESULT)
    result = summary.pop("result")
    assert summary == {
        "table": "page_1h",
        "dry_run": False,
        "windows_differing": 2,
        "windows_published": 2,
        "gold": 5,
        "data_docs": None,
    }
    assert task.request() == BackfillRequest(
        pipeline=str(task.pipeline),
        run_id=f"backfill__{RUN}",
        result=result,
        by="ada, by Airflow",
        dag="clicks__backfill",
        table="page_1h",
        start=datetime(2026, 7, 1, tzinfo=UTC),
        end=datetime(2026, 7, 2, tzinfo=UTC),
    )


def test_a_dry_run_is_one_for_the_job_as_well(task: Backfill) -> None:
    task.run({**RESULT, "dry_run": True}, dry_run=True)
    assert task.request().dry_run


PUBLISHED = {"windows": 2, "start_ms": 1782864000000, "end_ms": 1782871200000}


def test_the_table_that_it_changed_gets_an_event_with_the_range(task: Backfill) -> None:
    task.run({**RESULT, "published": PUBLISHED}, ["page_1h", "other"])
    assert task.events == {
        "tidemark/visits/page_1h": {
            "run": f"backfill__{RUN}",
            "windows": 2,
            "window_start": "2026-07-01T00:00:00+00:00",
            "window_end": "2026-07-01T02:00:00+00:00",
        }
    }


def test_a_backfill_that_changed_nothing_makes_no_event(task: Backfill) -> None:
    task.run({**RESULT, "dry_run": True}, ["page_1h"], dry_run=True)
    assert task.events == {}


def test_a_job_takes_text_as_utf8_whatever_the_locale_of_the_worker(
    task: Backfill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "POSIX")
    task.run(RESULT, accept="a refund of Zoë's")
    environment = json.loads((task.folder / "environment.json").read_text())
    assert environment["LC_ALL"] == "C.UTF-8"
    assert task.request().accepted == CheckOverride("a refund of Zoë's", "ada, by Airflow")


def test_whoever_starts_it_can_accept_failed_checks_with_a_reason(task: Backfill) -> None:
    task.run(RESULT, accept="a refund, known")
    assert task.request().accepted == CheckOverride("a refund, known", "ada, by Airflow")


def test_why_it_is_done_is_told_without_an_acceptance(task: Backfill) -> None:
    task.run(RESULT, reason="ticket 7")
    assert (task.request().reason, task.request().accepted) == ("ticket 7", None)


def test_why_it_is_done_stands_before_why_failed_checks_are_accepted(task: Backfill) -> None:
    task.run(RESULT, accept="a refund, known", reason="ticket 7")
    assert task.request().reason == "ticket 7; a refund, known"


def test_whoever_is_not_listed_is_refused_before_anything_starts(
    task: Backfill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_ACTS", '{"backfill": ["bob"]}')
    with pytest.raises(AirflowFailException, match="ada, by Airflow is not among those"):
        task.run(RESULT)
    assert not (task.folder / "seen.json").exists()
    monkeypatch.setenv("TIDEMARK_ACTS", '{"backfill": ["bob", "ada"]}')
    task.run(RESULT)


@pytest.mark.parametrize(
    ("act", "conf"),
    [
        ("backfill", {"from": ASKED["from"], "to": ASKED["to"]}),
        ("migrate", {}),
        ("rewind", {"to_run": "run"}),
        ("retract", {"where": "page = '/'", "reason": "mine"}),
    ],
)
def test_what_the_dag_itself_says_no_conf_of_a_dag_run_says(
    task: Backfill, monkeypatch: pytest.MonkeyPatch, act: str, conf: dict[str, Any]
) -> None:
    monkeypatch.setenv("PATH", str(task.folder), prepend=os.pathsep)
    dag = pipeline_dags()[f"visits__{act}"]
    (operator,) = dag.tasks
    for name in RunRequest.model_fields:
        asked: Any = {**conf, "dry_run": False, name: "another"}
        context: Any = {
            "run_id": RUN,
            "ti": SimpleNamespace(try_number=1),
            "params": process_params(dag, operator, asked, suppress_exception=False),
            "dag_run": SimpleNamespace(triggering_user_name="bob", dag_id=dag.dag_id),
        }
        told = f"was not started: {name} cannot be asked by a parameter"
        with pytest.raises(AirflowFailException, match=told):
            operator.execute(context)


def test_a_time_without_a_zone_is_refused_before_anything_starts(task: Backfill) -> None:
    with pytest.raises(AirflowFailException, match=r"The parameter from: .* has no zone"):
        task.run(RESULT, **{"from": "2026-07-01T00:00:00"})
    assert not (task.folder / "seen.json").exists()


@pytest.mark.parametrize("retry_can_help", [True, False])
def test_a_failed_backfill_is_tried_again_only_where_that_can_help(
    task: Backfill, retry_can_help: bool
) -> None:
    error = {"class": "Refused", "message": "it is open", "retry_can_help": retry_can_help}
    failed = {**RESULT, "outcome": "failed", "error": error}
    with pytest.raises(AirflowException, match="The backfill failed with Refused") as raised:
        task.run(failed)
    assert isinstance(raised.value, AirflowFailException) is not retry_can_help
