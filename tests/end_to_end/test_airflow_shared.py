"""A real Airflow runs the pipelines of a schedule with one start of Spark: each has its own result,
events and alerts, and where it has nothing new its tasks are skipped."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from demo.api import AirflowApi, DagRun
from demo.environment import airflow_environment, prepare_home, set_up_environment, without
from demo.running import running_airflow
from demo.runs import explain, wait_until
from demo.screen import Screen
from demo.services import Services
from tests.kit.running import Place, clicks
from tidemark.airflow.shared import shared_dag_id

pytestmark = pytest.mark.process

# Never while this runs.
SCHEDULE = "0 0 29 2 *"
NAMES = ("one", "three", "two")
UPKEEP = ("checkpoint_housekeeping", "state_check", "compact_state")
DAGS = """\
from datetime import timedelta
from pathlib import Path

from tidemark.airflow import pipeline_dags

told = Path({told!r})


def tell(what):
    def callback(context):
        with told.open("a") as file:
            facts = context["tidemark"]
            print(what, facts.pipeline, context["run_id"], *facts.failed, file=file)
    return callback


dags = pipeline_dags(
    session="shared",
    default_args={{"retry_delay": timedelta(seconds=1)}},
    on_failure=tell("failed"),
    on_recovery=tell("recovered"),
)
globals().update(dags)
"""


def pipelines(root: Path) -> dict[str, Place]:
    """Three; of one a check keeps what it read first from gold."""
    found = {}
    for name in NAMES:
        checks = [{"fail": {"rejected_share": {"at_most": 0}}}] if name == "three" else []
        source = {**clicks()["source"], "files": f"landing/{name}/*.json", "checks": checks}
        found[name] = Place(root, clicks(source=source, schedule=SCHEDULE), name)
        found[name].write_file()
    return found


def land(place: Place, number: int, amount: int) -> None:
    row = json.dumps({"at": "2026-01-01T10:01:00Z", "key": "a", "amount": amount})
    wrong = "no JSON\n" if place.name == "three" else ""
    folder = place.root / "landing" / place.name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{number}.json").write_text(f"{row}\n{wrong}")


def amounts(place: Place) -> list[int]:
    found: list[int] = place.gold("per_10m")["amount"].to_pylist()
    return found


def test_pipelines_share_a_start_and_each_is_told_of_its_own(tmp_path: Path) -> None:
    root = tmp_path / "root"
    places = pipelines(root)
    told, dags, dag = tmp_path / "told", tmp_path / "dags", shared_dag_id(SCHEDULE)
    dags.mkdir()
    (dags / "pipelines.py").write_text(DAGS.format(told=str(told)))
    settings = {"root": str(root), "pipelines": str(root / "pipelines")}
    (tmp_path / "settings.yaml").write_text(json.dumps(settings))
    own = {"TIDEMARK_SETTINGS": str(tmp_path / "settings.yaml")}
    set_up, home = without(set_up_environment(), "TIDEMARK_"), prepare_home(tmp_path / "airflow")
    environment = {
        **airflow_environment({**set_up, **own}, home, quick=True),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
    }
    with running_airflow(Screen(Console()), home, environment) as (services, api):
        wait_until(lambda: api.knows(dag), services.check, "The Dag")
        api.unpause(dag)
        for place in places.values():
            land(place, 1, 5)
        first = run(services, api, dag, "first")
        assert first.state == "failed", explain(first, home)
        states = {task.task: task.state for task in first.tasks}
        assert states["shared-stream"] == "success"
        assert [states[f"{name}.result"] for name in NAMES] == ["success", "failed", "success"]
        for name in NAMES:
            assert [states[f"{name}.{task}"] for task in UPKEEP] == [
                "success",
                "success",
                "skipped",
            ]
        assert {name: amounts(place) for name, place in places.items()} == {
            "one": [5],
            "three": [],
            "two": [5],
        }
        rows = [row for place in places.values() for row in runs_of(place)]
        assert {(row["run"], row["dag"]) for row in rows} == {("first", dag)}
        # Each has a session of its own of the one Spark that was started.
        jobs = home.folder.rglob("run_id=first/task_id=shared-stream/attempt=1.log")
        assert next(jobs).read_text().count("Spark-Submit cmd") == 1

        land(places["two"], 2, 7)
        second = run(services, api, dag, "second")
        assert second.state == "success", explain(second, home)
        states = {task.task: task.state for task in second.tasks}
        assert [states[f"{name}.result"] for name in NAMES] == ["skipped", "success", "success"]
        assert {states[f"one.{task}"] for task in UPKEEP} == {"skipped"}
        assert {name: amounts(place) for name, place in places.items()} == {
            "one": [5],
            "three": [5],
            "two": [12],
        }
        wait_until(
            lambda: told.exists() and "recovered" in told.read_text(), services.check, "The alerts"
        )
    assert told.read_text().splitlines() == [
        "failed three first three.result",
        "recovered three second",
    ]


def runs_of(place: Place) -> list[dict[str, object]]:
    found: list[dict[str, object]] = place.table(place.places.runs).to_pylist()
    return found


def run(services: Services, api: AirflowApi, dag: str, run_id: str) -> DagRun:
    api.trigger(dag, run_id, datetime.now(UTC))
    wait_until(lambda: api.run(dag, run_id).ended, services.check, f"The end of {run_id}")
    return api.run(dag, run_id)
