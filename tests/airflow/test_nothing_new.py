"""A stream task that has nothing for Spark to do: spark-submit is not started."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowException, DownstreamTasksSkipped

from tests.kit.running import Place, clicks, succeed
from tests.kit.windows import at, window
from tests.quality.held import Held
from tests.runs.pipelines import begun, ended
from tidemark.airflow.assets import asset_of
from tidemark.airflow.stream import StreamOperator
from tidemark.airflow.validate import PublishOperator
from tidemark.pipeline.places import Places
from tidemark.runs.recorded_runs import record_run
from tidemark.runs.results.result import RunResult
from tidemark.runs.run import Run
from tidemark.storage.result_file import read_result, write_result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUN = "scheduled__2026-07-01T00:10:00+00:00"
RUN_AFTER = datetime(2026, 7, 1, 0, 10, tzinfo=UTC)


class Instance:
    """A task's try, as far as it is asked; by Airflow the Dag run before it ended in this state."""

    dag_id = "clicks"

    def __init__(self, state: str | None, before: str = "before", try_number: int = 1) -> None:
        self.before = None if state is None else SimpleNamespace(state=state, run_id=before)
        self.try_number = try_number
        self.pushed: dict[str, Any] = {}

    def get_task_states(self, **_: Any) -> dict[str, Any]:
        """All tasks were cleared."""
        return {}

    def get_previous_dagrun(self) -> SimpleNamespace | None:
        return self.before

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value


def stream(
    place: Place, run_id: str = RUN, instance: Instance | None = None, skips: tuple[str, ...] = ()
) -> dict[str, Any]:
    operator = StreamOperator(
        task_id="stream",
        pipeline_file=str(place.root / "pipelines" / "clicks.yaml"),
        settings_file=str(place.root / "settings.yaml"),
        conn_id="spark_default",
        # It fails, and leaves no result.
        spark_binary="/bin/false",
    )
    operator.followers = skips
    dag_run = SimpleNamespace(
        data_interval_end=None,
        run_after=RUN_AFTER,
        run_type="scheduled",
        triggering_user_name=None,
        dag_id="clicks",
    )
    instance = instance or Instance(None)
    context: Any = {"run_id": run_id, "ti": instance, "dag_run": dag_run}
    return operator.execute(context)


def skipped(
    place: Place,
    run_id: str,
    state: str | None = "success",
    before: str = "before",
    try_number: int = 1,
) -> dict[str, Any]:
    """What the task pushes where it skips those after it; nothing where it does not."""
    instance = Instance(state, before, try_number)
    try:
        stream(place, run_id, instance, skips=("validate", "publish"))
    except DownstreamTasksSkipped as skip:
        return {**instance.pushed, "skipped": skip.tasks}
    assert not instance.pushed
    return {}


EXTRA = {
    "run": RUN,
    "windows": 1,
    "window_start": "2026-01-01T10:00:00+00:00",
    "window_end": "2026-01-01T10:10:00+00:00",
}


def publish(place: Place, result: str) -> tuple[int, list[dict[str, Any]]]:
    """How many windows the task published, and the extras of its Assets' events."""
    operator = PublishOperator(
        task_id="publish",
        pipeline_file=str(place.root / "pipelines" / "clicks.yaml"),
        settings_file=str(place.root / "settings.yaml"),
        result=result,
        outlets=[asset_of("per_10m", Places(str(place.root), "clicks"))],
    )
    events: Any = defaultdict(SimpleNamespace)
    context: Any = {"outlet_events": events}
    windows = operator.execute(context)["per_10m"]["windows"]
    return windows, [events[asset].extra for asset in operator.outlets]


def set_up(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    connection = {"conn_type": "spark", "host": "local[2]"}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    settings = {"root": str(place.root), "pipelines": str(place.write_file().parent)}
    (place.root / "settings.yaml").write_text(json.dumps(settings))
    return place


@pytest.fixture
def idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A pipeline whose gold has all that was read; the look at what is new, which needs the
    checkpoints of real queries, finds nothing. The run before succeeded."""
    held = Held(tmp_path, [])
    place = set_up(held.place, monkeypatch)
    held.publish(held.run(window(at(10), key="a", total=1), run_id="before", began=at(10)))

    begun(place)
    hours = count(14)

    def nothing_new(run: Run, _: datetime, uri: str, then: None) -> RunResult:
        result = held.run(run_id=run.run_id, began=at(next(hours)))
        write_result(uri, result, {})
        record_run(place.warehouse.runs, result)
        return result

    monkeypatch.setattr("tidemark.runs.without_spark.run_without_spark", nothing_new)
    return place


def test_tasks_are_skipped_in_a_first_try_alone(idle: Place) -> None:
    assert not skipped(idle, "second", try_number=2), "one of them may have failed before"
    assert skipped(idle, "first", before="second")["skipped"] == ["validate", "publish"]


def test_none_is_skipped_behind_a_run_that_airflow_does_not_see(idle: Place) -> None:
    ended(idle, "manual", began=at(11))
    assert not skipped(idle, "idle"), "it has no logical date, and its upkeep may have failed"
    assert skipped(idle, "later", before="idle")


@pytest.mark.parametrize("severity", ["warn", "fail"])
def test_a_check_that_a_run_without_rows_does_not_keep_is_told_by_its_own_task(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, severity: str
) -> None:
    checks = [{severity: {"freshness": {"at_most": "1 day"}}}]
    content = clicks()
    content["source"] = {**content["source"], "checks": checks}
    place = set_up(Place(tmp_path, content), monkeypatch)
    # Fresh for the run that reads it, and not for one that stands for half a year later.
    place.land("1.json", [{"at": "2026-01-01T10:01:00Z", "key": "a", "amount": 1}])
    succeed(spark, place, "first", scheduled=datetime(2026, 1, 1, 11, tzinfo=UTC))
    assert not skipped(place, "idle", before="first")
    result = read_result(RunResult, place.places.result("idle", 1), {})
    assert result.held, "it is for the next task"


def test_the_task_succeeds_without_spark_and_its_result_is_published(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = set_up(Place(tmp_path), monkeypatch)
    place.land("1.json", [{"at": "2026-01-01T10:01:00Z", "key": "a", "amount": 1}])
    succeed(spark, place, "held", hold=True)

    summary = stream(place)
    assert summary["rows"] == {"read": 0, "accepted": 0, "rejected": {}, "counted": {}}
    result = read_result(RunResult, summary["result"], {})
    assert result.without_spark is not None
    assert (result.run_id, result.trigger, result.scheduled_at) == (RUN, "scheduled", RUN_AFTER)
    assert publish(place, summary["result"]) == (1, [EXTRA])
    # Killed before Airflow heard of it, it is tried again.
    assert publish(place, summary["result"]) == (0, [EXTRA])
    assert publish(place, stream(place, "next")["result"]) == (0, []), "nothing to tell"
    _skips_the_others_where_nothing_is_left_to_do(place)

    place.land("2.json", [{"at": "2026-01-01T10:02:00Z", "key": "a", "amount": 1}])
    with pytest.raises(AirflowException, match="spark-submit ended with exit status 1"):
        stream(place)


def _skips_the_others_where_nothing_is_left_to_do(place: Place) -> None:
    before = "next"
    for state in (None, "failed", "running"):
        assert not skipped(place, f"after {state}", state, before), "what was wrong may be so still"
        before = f"after {state}"
    assert not skipped(place, "second", before="after running", try_number=2)
    pushed = skipped(place, "idle", before="second")
    assert pushed["skipped"] == ["validate", "publish"]
    result = read_result(RunResult, pushed["result"], {})
    assert (result.outcome, result.held) == ("succeeded", False)
    assert list(result.seconds) == ["preflight", "validate", "publish"]
    assert {name: table.published_windows for name, table in result.tables.items()} == {
        "per_10m": 0
    }
    assert "idle" in place.table(place.places.runs).column("run").to_pylist()
