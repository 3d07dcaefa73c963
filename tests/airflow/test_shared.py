"""Pipelines of one schedule in one Dag: which tasks it has, what is skipped, and what each is told.

In spark-submit's place stands a process that leaves real results, or none.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException, DownstreamTasksSkipped

from tests.airflow.test_stream_operator import SUCCEEDED
from tests.kit.running import Place, clicks, succeed
from tidemark.airflow import pipeline_dags
from tidemark.airflow.alerts import Alert, SharedAlert
from tidemark.airflow.page_access import DagAccess
from tidemark.airflow.shared import SharedResultOperator, SharedStreamOperator, shared_dag_id
from tidemark.errors import ChecksFailed, StorageUnavailable
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.settings import load_settings
from tidemark.runs.results.newest_result import newest_try
from tidemark.runs.results.result import RunResult
from tidemark.runs.run import Run
from tidemark.storage.result_file import RunError, read_result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Write = Callable[..., Path]
HOURLY = "shared-hourly"
RUN, RUN_AFTER = "scheduled__2026-11-21T10:00:00+00:00", datetime(2026, 11, 21, 10, tzinfo=UTC)
UPKEEP = ("checkpoint_housekeeping", "state_check", "compact_state")
# Leaves the results that it is told to, by pipeline, where each of its arguments says.
SUBMIT = """\
#!{python}
import json, os, pathlib, sys
from tidemark.pipeline.places import Places
plan = json.loads(pathlib.Path({plan!r}).read_text())
arguments = sys.argv[1:]
with open(plan["seen"], "a") as seen:
    print(json.dumps(arguments), file=seen)
def given(name):
    return [arguments[n + 1] for n, one in enumerate(arguments) if one == name]
for file in given("--pipeline"):
    name = pathlib.Path(file).stem
    if name in plan["results"]:
        number = given("--try-number")
        shared = Places(plan["root"], name).result(given("--run-id")[0], number and number[0])
        place = (given("--result") or [shared])[0]
        pathlib.Path(place).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(place).write_text(json.dumps(plan["results"][name]))
sys.exit(plan["exit"])
"""


class Instance:
    """A task's try, as far as it is asked; the states of the tasks before, if there was a run."""

    dag_id, run_before, max_tries = HOURLY, "before", 3

    def __init__(
        self,
        try_number: int = 1,
        before: Mapping[str, str] | None = None,
        now: Mapping[str, str] | None = None,
    ) -> None:
        self.try_number, self.before, self.now = try_number, before, now
        self.pushed: dict[str, Any] = {}

    def get_previous_dagrun(self) -> SimpleNamespace | None:
        return None if self.before is None else SimpleNamespace(run_id=self.run_before)

    def get_task_states(self, dag_id: str, run_ids: list[str]) -> dict[str, Any]:
        assert dag_id == HOURLY
        states = self.before if run_ids == [self.run_before] else self.now
        return {run_ids[0]: states} if states else {}

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value


@dataclass
class Shared:
    """The Dag of pipelines that run every hour, and what spark-submit is to leave."""

    folder: Path
    exit: int = 0
    results: dict[str, Any] = field(default_factory=dict)

    @property
    def root(self) -> str:
        return str(self.folder / "root")

    @property
    def dag(self) -> DAG:
        return pipeline_dags(session="shared")[HOURLY]

    def result(self, name: str, published: bool = True, **changes: Any) -> dict[str, Any]:
        table = SUCCEEDED["tables"]["page_1h"]
        if published:
            told = {"windows": 3, "start_ms": 0, "end_ms": 3_600_000}
            table = table | {"gold": 2, "published_windows": 3, "published": told}
        own = {"pipeline": name, "run_id": RUN, "held": False, "tables": {"page_1h": table}}
        return SUCCEEDED | own | changes

    def context(self, instance: Instance) -> Any:
        dag_run = SimpleNamespace(
            data_interval_end=None,
            run_after=RUN_AFTER,
            run_type="scheduled",
            triggering_user_name=None,
            dag_id=HOURLY,
        )
        events: Any = defaultdict(SimpleNamespace)
        return {"run_id": RUN, "ti": instance, "dag_run": dag_run, "outlet_events": events}

    def leave(self) -> str:
        """A spark-submit that leaves the results."""
        told = {"results": self.results, "root": self.root, "exit": self.exit}
        told["seen"] = str(self.folder / "seen")
        (self.folder / "plan.json").write_text(json.dumps(told))
        return str(self.folder / "spark-submit")

    def stream(self, instance: Instance) -> dict[str, Any]:
        operator = self.dag.get_task("shared-stream")
        assert isinstance(operator, SharedStreamOperator)
        operator._spark_binary = self.leave()
        return operator.execute(self.context(instance))

    def told(self, name: str, shared: Mapping[str, str], try_number: int = 1) -> list[str]:
        """The Assets of which the task of a pipeline makes events."""
        operator = self.dag.get_task(f"{name}.result")
        assert isinstance(operator, SharedResultOperator)
        operator._spark_binary = self.leave()
        operator.shared = shared
        operator.execute(self.context(Instance(try_number)))
        return [asset.name for asset in operator.outlets]

    @property
    def asked(self) -> list[list[str]]:
        """The pipelines of each job."""
        file = self.folder / "seen"
        lines = file.read_text().splitlines() if file.exists() else []
        found = [json.loads(line) for line in lines]
        return [
            [Path(line[n + 1]).stem for n, one in enumerate(line) if one == "--pipeline"]
            for line in found
        ]


@pytest.fixture
def shared(write_pipeline: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shared:
    for name in ("hits", "visits"):
        write_pipeline(name, schedule="@hourly", owner="web")
        landing = tmp_path / "root" / "landing" / "visits"
        landing.mkdir(parents=True, exist_ok=True)
    (landing / "1.json").write_text('{"at": "2026-11-21T09:00:00Z", "page": "a"}\n')
    submit = tmp_path / "spark-submit"
    submit.write_text(SUBMIT.format(python=sys.executable, plan=str(tmp_path / "plan.json")))
    submit.chmod(0o755)
    connection = {"conn_type": "spark", "host": "local[2]"}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    return Shared(tmp_path)


def test_pipelines_of_a_schedule_share_a_dag_and_their_own_ones_have_none(
    shared: Shared, write_pipeline: Write
) -> None:
    write_pipeline("daily", schedule="0 3 * * *")
    write_pipeline("by_hand")
    dags = pipeline_dags(session="shared")
    assert {name for name in dags if name.startswith("shared-")} == {
        HOURLY, "shared-0_3_x_x_x",
    }  # fmt: skip
    assert not any(dags[name].schedule for name in ("hits", "visits", "daily", "by_hand"))
    dag = dags[HOURLY]
    tasks = [f"{name}.{task}" for name in ("hits", "visits") for task in ("result", *UPKEEP)]
    assert set(dag.task_ids) == {"shared-stream", *tasks, "shared-watcher"}
    assert (dag.max_active_runs, dag.catchup) == (1, False)
    assert dag.get_task("hits.result").upstream_task_ids == {"shared-stream"}
    assert dag.get_task("shared-watcher").upstream_task_ids == {"shared-stream", *tasks}
    assert [dag.get_task(f"hits.{one}").is_teardown for one in UPKEEP] == [True] * 3
    assert {dag.get_task(one).owner for one in tasks} == {"web"}
    (asset,) = dag.get_task("hits.result").outlets
    assert asset.name == "tidemark/hits/page_1h"
    assert all(task.doc_md for task in dag.tasks)


def test_a_shared_dag_takes_no_backfill_of_airflow_s(shared: Shared) -> None:
    dags = pipeline_dags(session="shared")
    assert dags[HOURLY].allowed_run_types == dags["hits"].allowed_run_types
    assert "backfill" not in {kind.value for kind in dags[HOURLY].allowed_run_types or ()}


def test_two_shared_dags_of_one_dag_file_have_names_of_their_own_or_are_refused(
    shared: Shared, write_pipeline: Write, tmp_path: Path
) -> None:
    """Airflow would keep one of them, and run the pipelines of the other no more."""
    more = tmp_path / "more"
    more.mkdir()
    (more / "orders.yaml").write_text(write_pipeline("orders", schedule="@hourly").read_text())
    (tmp_path / "pipelines" / "orders.yaml").unlink()
    file = tmp_path / "dags.py"

    def parsed(arguments: str) -> DagBag:
        file.write_text(
            "from tidemark.airflow import pipeline_dags\n"
            'made = [pipeline_dags(session="shared"),\n'
            f'        pipeline_dags({str(more)!r}, session="shared"{arguments})]\n'
            "for dags in made:\n    globals().update(dags)\n"
        )
        return DagBag(str(file))

    for _ in range(2):
        (error,) = parsed("").import_errors.values()
        assert f"has made the Dag {HOURLY} already" in error
    bag = parsed(', shared_name="more"')
    assert not bag.import_errors
    groups = {
        name: {"hits", "visits", "orders"} & bag.dags[name].task_group.children.keys()
        for name in (HOURLY, "shared-more-hourly")
    }
    assert groups == {HOURLY: {"hits", "visits"}, "shared-more-hourly": {"orders"}}


def test_without_a_shared_session_each_pipeline_has_its_schedule(shared: Shared) -> None:
    dags = pipeline_dags()
    assert dags["hits"].schedule == "@hourly"
    assert HOURLY not in dags
    with pytest.raises(ValueError, match="session='one' is none"):
        pipeline_dags(session="one")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("schedules", "ids"),
    [
        (("@daily", "*/10 * * * *"), ("daily", "x.10_x_x_x_x")),
        (("0 1,2 * * *", "0 1-2 * * *"), ("0_1-and-2_x_x_x", "0_1-2_x_x_x")),
        (("0 0 * * 5#2", "0  0 * * 5#2 "), ("0_0_x_x_5232", "0_0_x_x_5232")),
    ],
)
def test_a_shared_dag_is_named_by_its_schedule(
    schedules: tuple[str, str], ids: tuple[str, str]
) -> None:
    assert tuple(shared_dag_id(one, "a team") for one in schedules) == tuple(
        f"shared-a_team-{one}" for one in ids
    )
    assert tuple(map(shared_dag_id, schedules)) == tuple(f"shared-{one}" for one in ids)


def test_a_task_process_loads_the_pipeline_of_its_group(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", HOURLY)
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_TASK_ID", "hits.state_check")
    ((name, dag),) = pipeline_dags(session="shared").items()
    assert name == HOURLY
    assert {task.partition(".")[0] for task in dag.task_ids} == {
        "shared-stream",
        "hits",
        "shared-watcher",
    }
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_TASK_ID", "shared-stream")
    assert pipeline_dags(session="shared")[HOURLY].has_task("visits.result")


def test_one_job_runs_all_and_each_pipeline_has_its_own_result_and_events(shared: Shared) -> None:
    shared.results = {name: shared.result(name) for name in ("hits", "visits")}
    results = shared.stream(Instance())["results"]
    assert shared.asked == [["hits", "visits"]]
    assert results == {
        name: Places(shared.root, name).result(RUN, 1) for name in ("hits", "visits")
    }
    for name in ("hits", "visits"):
        assert shared.told(name, results) == [f"tidemark/{name}/page_1h"]
    assert shared.asked == [["hits", "visits"]], "no task has run its pipeline again"


def test_an_error_of_one_is_its_own_and_a_further_try_runs_it_alone(shared: Shared) -> None:
    error = RunError.of(StorageUnavailable("gone")).model_dump(mode="json", by_alias=True)
    failed = shared.result("hits", published=False, outcome="failed", error=error)
    shared.results = {"hits": failed, "visits": shared.result("visits")}
    results = shared.stream(Instance())["results"]
    assert shared.told("visits", results) == ["tidemark/visits/page_1h"]
    with pytest.raises(AirflowException, match="StorageUnavailable: gone"):
        shared.told("hits", results)
    assert len(shared.asked) == 1
    shared.results = {"hits": shared.result("hits")}
    assert shared.told("hits", results, try_number=2) == ["tidemark/hits/page_1h"]
    assert shared.asked[1:] == [["hits"]]
    newest = newest_try("hits", load_settings(), RUN)
    assert newest is not None
    assert newest.error is None


def test_a_result_that_is_good_is_told_again_where_its_task_is_cleared_and_nothing_runs(
    shared: Shared,
) -> None:
    shared.results = {name: shared.result(name) for name in ("hits", "visits")}
    results = shared.stream(Instance())["results"]
    for number in (1, 2):
        assert shared.told("hits", results, try_number=number) == ["tidemark/hits/page_1h"]
    assert shared.asked == [["hits", "visits"]]


def test_a_run_that_could_not_work_sends_no_gauge(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    monkeypatch.setattr("tidemark.airflow.metrics.gauge", lambda name, _: sent.append(name))

    def looked(run: Run, _: datetime, uri: str, then: Any) -> RunResult:
        error = RunError.of(StorageUnavailable("gone")) if run.pipeline.name == "hits" else None
        changes = {"error": error, "outcome": "failed"} if error else {}
        result = shared.result(run.pipeline.name, published=False) | changes
        return RunResult.model_validate(result)

    monkeypatch.setattr("tidemark.runs.without_spark.run_without_spark", looked)
    shared.stream(Instance())
    assert "tidemark.visits.rows_read" in sent
    assert "tidemark.visits.source_lag_files" in sent
    assert not [name for name in sent if name.startswith("tidemark.hits")]


def test_what_no_retry_can_help_is_told_so(shared: Shared) -> None:
    error = RunError.of(ChecksFailed("no")).model_dump(mode="json", by_alias=True)
    shared.results = {
        name: shared.result(name, published=False, outcome="failed", error=error)
        for name in ("hits", "visits")
    }
    results = shared.stream(Instance())["results"]
    with pytest.raises(AirflowFailException, match="ChecksFailed: no"):
        shared.told("visits", results)


def test_a_pipeline_that_the_job_did_not_reach_is_run_by_its_own_task(shared: Shared) -> None:
    shared.results, shared.exit = {"hits": shared.result("hits")}, 75
    results = shared.stream(Instance())["results"]
    assert list(results) == ["hits"]
    with pytest.raises(AirflowException, match="without a result of this try"):
        shared.told("visits", results)
    assert shared.asked == [["hits", "visits"], ["visits"]]


def test_a_job_without_any_result_is_tried_again_once(shared: Shared) -> None:
    shared.exit = 1
    with pytest.raises(AirflowException, match=r"exit status 1 .*It was to run hits, visits"):
        shared.stream(Instance())
    # Else one that ends the job's process would keep the others from ever being run.
    assert shared.stream(Instance(try_number=2)) == {"results": {}}
    no_retries = Instance()
    no_retries.max_tries = 0
    assert shared.stream(no_retries) == {"results": {}}
    shared.results, shared.exit = {"visits": shared.result("visits")}, 0
    assert shared.told("visits", {}) == ["tidemark/visits/page_1h"]


def test_pipelines_with_other_settings_of_the_process_have_a_job_of_their_own(
    shared: Shared, write_pipeline: Write
) -> None:
    advanced = {"spark": {"spark.executor.memory": "2g"}}
    write_pipeline("visits", schedule="@hourly", advanced=advanced)
    shared.results = {"hits": shared.result("hits")}
    # What has ended is told, whatever became of the other job.
    assert list(shared.stream(Instance())["results"]) == ["hits"]
    assert shared.asked == [["hits"], ["visits"]]


@pytest.mark.parametrize("state", ["skipped", "success"])
def test_a_later_try_is_refused_where_the_task_that_would_tell_of_it_is_over(
    shared: Shared, state: str
) -> None:
    shared.results = {name: shared.result(name) for name in ("hits", "visits")}
    for states in ({}, {"hits.result": None, "visits.result": "upstream_failed"}):
        assert shared.stream(Instance(2, now=states))["results"]
        shared.results["hits"]["ended_at"] = "2026-11-21T10:00:11Z"
        shared.results["visits"]["ended_at"] = "2026-11-21T10:00:11Z"
    with pytest.raises(AirflowFailException, match=r"^visits.result ended before this try"):
        shared.stream(Instance(3, now={"visits.result": state}))


def test_each_pipeline_is_in_the_dag_of_its_schedule_however_that_is_written(
    shared: Shared, write_pipeline: Write
) -> None:
    for name, schedule in (("a", "*/10 * * * *"), ("b", "*/10  * * * *"), ("stream", "@hourly")):
        write_pipeline(name, schedule=schedule)
    dags = pipeline_dags(session="shared")
    assert dags["shared-x.10_x_x_x_x"].task_group.children.keys() >= {"a", "b"}
    assert dags[HOURLY].task_group.children.keys() >= {"hits", "stream", "visits"}


def test_a_long_schedule_has_a_dag_of_its_own_whose_id_airflow_takes(
    shared: Shared, write_pipeline: Write
) -> None:
    minutes = ",".join(map(str, range(60)))
    for name, hour in (("a", "1"), ("b", "2"), ("stream", "1")):
        write_pipeline(name, schedule=f"{minutes} {hour} * * *")
    dags = pipeline_dags(session="shared")
    groups = [
        {"a", "b", "stream"} & dag.task_group.children.keys()
        for name, dag in dags.items()
        if name.startswith("shared-0-and-1-and-2-and-")
    ]
    assert sorted(map(sorted, groups)) == [["a", "stream"], ["b"]]
    assert HOURLY in dags


@pytest.mark.parametrize("failed", [["hits.state_check"], ["shared-stream"], []])
def test_a_pipeline_is_told_of_its_own_tasks_and_of_what_they_share(failed: list[str]) -> None:
    called: list[tuple[Any, ...]] = []

    def then(what: str) -> Any:
        return lambda context: called.append((what, context["tidemark"].pipeline,
                                              context["tidemark"].failed))  # fmt: skip

    alert = SharedAlert(
        tuple(Alert((then("failed"),), name, None, "/none") for name in ("hits", "visits")),
        tuple(Alert((then("recovered"),), name, None, "/none") for name in ("hits", "visits")),
    )
    task = Instance(before={"hits.result": "failed"}, now=dict.fromkeys(failed, "failed"))
    alert.ended({"ti": task, "run_id": RUN})  # type: ignore[typeddict-unknown-key,typeddict-item]
    told = {"hits": tuple(failed), "visits": tuple(failed)} if "shared-stream" in failed else {}
    told = {"hits": ("hits.state_check",)} if "hits.state_check" in failed else told
    recovered = [] if failed else [("recovered", "hits", ())]
    assert called == [*(("failed", name, tasks) for name, tasks in told.items()), *recovered]


@pytest.mark.parametrize("context", [{}, {"ti": Instance(now={"hits.result": "skipped"})}])
def test_all_are_told_of_a_failed_run_of_which_no_task_says_why(context: dict[str, Any]) -> None:
    """Airflow gives no task that is no longer in the Dag; of a run that timed out none failed."""
    told: list[str] = []
    failures = tuple(
        Alert((lambda context: told.append(context["tidemark"].text),), name, None, "/none")
        for name in ("hits", "visits")
    )
    alert = SharedAlert(failures, failures)
    alert.failed(context | {"run_id": RUN})  # type: ignore[arg-type]
    assert told == [
        f"{name}: run {RUN} failed: no task that is known" for name in ("hits", "visits")
    ]


def test_who_sees_a_pipeline_s_own_dag_sees_it_whoever_reads_the_shared_one() -> None:
    known = frozenset({"hits", "visits", HOURLY})
    assert DagAccess(known, frozenset({"hits"})).sees("hits", HOURLY)
    assert not DagAccess(known, frozenset({HOURLY, "visits"})).sees("hits", HOURLY)


def test_a_result_of_an_earlier_run_of_this_id_is_none(shared: Shared) -> None:
    shared.results = {name: shared.result(name) for name in ("hits", "visits")}
    shared.stream(Instance())
    with pytest.raises(AirflowException, match="It was to run hits, visits"):
        shared.stream(Instance())


def test_tasks_of_an_idle_pipeline_are_skipped_where_they_went_well_before(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path, clicks(schedule="@hourly"))
    place.land("1.json", [{"at": "2026-01-01T10:01:00Z", "key": "a", "amount": 1}])
    succeed(spark, place, "first")
    settings = {"root": str(place.root), "pipelines": str(place.write_file().parent)}
    (tmp_path / "settings.yaml").write_text(json.dumps(settings))
    monkeypatch.setenv("TIDEMARK_SETTINGS", str(tmp_path / "settings.yaml"))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local"}')
    operator = pipeline_dags(session="shared")[HOURLY].get_task("shared-stream")
    # It fails, and leaves no result.
    operator._spark_binary = "/bin/false"
    tasks = [f"clicks.{task}" for task in ("result", *UPKEEP)]
    well = dict.fromkeys(tasks, "success") | {tasks[-1]: "skipped", "watcher": "failed"}

    def skipped(run_id: str, behind: str, **instance: Any) -> list[str]:
        task = Instance(**instance)
        task.run_before = behind
        context = Shared(tmp_path).context(task) | {"run_id": run_id}
        try:
            results = operator.execute(context)["results"]
            found: list[str] = []
        except DownstreamTasksSkipped as skip:
            results, found = task.pushed["results"], list(skip.tasks)
        result = read_result(RunResult, results["clicks"], {})
        assert (result.run_id, result.outcome, result.held) == (run_id, "succeeded", False)
        assert result.without_spark
        return found

    assert skipped("idle", "first", before=well) == tasks
    assert skipped("none-before", "idle") == []
    assert skipped("failed-before", "none-before", before=well | {tasks[1]: "failed"}) == []
    assert skipped("again", "failed-before", before=well, try_number=2) == []
    assert skipped("by-hand-between", "failed-before", before=well) == []
    assert skipped("well", "by-hand-between", before=well) == tasks
    place.land("2.json", [{"at": "2026-01-01T10:02:00Z", "key": "a", "amount": 1}])
    with pytest.raises(AirflowException, match="It was to run clicks"):
        skipped("new", "well", before=well)
