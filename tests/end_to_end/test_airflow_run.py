"""A real Airflow (scheduler, LocalExecutor, API server, Dag processor) runs a sample's Dag."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from deltalake import DeltaTable
from rich.console import Console

from demo.api import AirflowApi, DagRun
from demo.environment import (
    REPOSITORY,
    AirflowHome,
    airflow_environment,
    prepare_home,
)
from demo.running import running_airflow
from demo.runs import explain, result_of, run_all, wait_until
from demo.screen import Screen
from demo.services import Services
from tests.end_to_end.one_pipeline import DAG, SAMPLES, land_sample, one_pipeline
from tests.kit.patience import HUNG_SECONDS

pytestmark = pytest.mark.process


@dataclass
class Airflow:
    """An Airflow that runs one pipeline, and the sockets that it was seen to listen on."""

    folder: Path
    home: AirflowHome
    services: Services
    api: AirflowApi
    listening: set[tuple[str, int]] = field(default_factory=set)

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def pipeline(self) -> Path:
        return self.folder / "pipelines" / f"{DAG}.yaml"

    def land(self, trigger: int, name: str = "") -> None:
        land_sample(self.root, f"trigger-{trigger}.json", name)

    def ask(self, suffix: str, run_id: str, **params: Any) -> DagRun:
        """A run of a Dag of the pipeline that is started by hand."""
        dag, runs = f"{DAG}{suffix}", list[DagRun]()
        self.api.unpause(dag)
        self.api.trigger(dag, run_id, datetime.now(UTC), params)

        def ended() -> bool:
            runs[:] = [self.api.run(dag, run_id)]
            return runs[0].ended

        wait_until(ended, self.services.check, f"The end of {run_id}")
        return runs[0]

    def log(self, suffix: str, run_id: str, task: str) -> str:
        logs = self.home.folder / "logs" / f"dag_id={DAG}{suffix}" / f"run_id={run_id}"
        return (logs / f"task_id={task}" / "attempt=1.log").read_text()

    def run(self, run_id: str) -> DagRun:
        def watch(*_: str) -> None:
            self.listening |= listening(self.services)

        wait_until(lambda: self.api.knows(DAG), self.services.check, "The Dag")
        now = datetime.now(UTC)
        return run_all(self.api, [DAG], run_id, now, self.services.check, watch, self.home)[0]


@pytest.fixture
def airflow(tmp_path: Path) -> Iterator[Airflow]:
    base, home = one_pipeline(tmp_path), prepare_home(tmp_path / "airflow")
    environment = airflow_environment(base, home, quick=True)
    with running_airflow(Screen(Console()), home, environment) as (services, api):
        yield Airflow(tmp_path, home, services, api)


def listening(services: Services) -> set[tuple[str, int]]:
    found = set()
    for process in services.processes():
        with suppress(psutil.NoSuchProcess):
            for each in process.net_connections(kind="inet"):
                if each.status == psutil.CONN_LISTEN:
                    found.add((each.laddr.ip, each.laddr.port))
    return found


def test_a_dag_run_publishes_gold_on_loopback_only(airflow: Airflow) -> None:
    airflow.land(1)
    first = airflow.run("first")
    assert first.state == "success", explain(first, airflow.home)
    assert gold(airflow.root) == expected(after_trigger=1)

    result = result_of(first, str(airflow.root))
    assert result is not None
    assert (result.rows.read, result.held) == (2, False)
    assert {"session", "ingest", "aggregate", "publish"} <= set(result.seconds)
    assert ("127.0.0.1", airflow.home.port) in airflow.listening
    # Spark's sockets are of IPv4 addresses mapped into IPv6.
    addresses = {ip.removeprefix("::ffff:") for ip, _ in airflow.listening}
    assert addresses == {"127.0.0.1"}


@pytest.mark.long
def test_the_dag_of_rewinds_plans_and_then_takes_the_pipeline_back(airflow: Airflow) -> None:
    for trigger in (1, 2):
        airflow.land(trigger)
        ran = airflow.run(f"trigger-{trigger}")
        assert ran.state == "success", explain(ran, airflow.home)
    after = gold(airflow.root)
    assert after == expected(after_trigger=2)
    planned = airflow.ask("__rewind", "plan", to_run="trigger-1")
    assert planned.state == "success", explain(planned, airflow.home)
    assert "would go back to the end of run trigger-1" in airflow.log("__rewind", "plan", "rewind")
    assert gold(airflow.root) == after
    done = airflow.ask("__rewind", "back", to_run="trigger-1", dry_run=False)
    assert done.state == "success", explain(done, airflow.home)
    assert gold(airflow.root) == expected(after_trigger=1)
    undone = airflow.api.returned(f"{DAG}__rewind", "back", "rewind", "undone")
    assert undone == ["trigger-2"]
    again = airflow.run("again")
    assert again.state == "success", explain(again, airflow.home)
    assert gold(airflow.root) == after


# What the file says, what it says instead, how the Dag run ends, and what the stream task logs.
CHANGES = [
    ("description: Ad impressions per spot", "description: Changed", "success", None),
    ("delay: 10 minutes", "delay: 12 minutes", "success", "watermark.delay: 10 minutes → 12 min"),
    (
        "watermark:",
        "advanced: {shuffle_partitions: 3}\nwatermark:",
        "success",
        "safe, without effect until a new generation",
    ),
    ("impressions: count(*)", "views: count(*)", "failed", "needs a new generation"),
    ("landing/ad_impressions/**", "landing/elsewhere/**", "failed", "not allowed"),
]


@pytest.mark.long
def test_a_change_of_each_kind_is_taken_or_refused_by_the_dag(airflow: Airflow) -> None:
    airflow.land(1)
    assert airflow.run("first").state == "success"
    for number, (old, new, state, told) in enumerate(CHANGES):
        airflow.land(2, f"change-{number}.json")
        before, content = kept_files(airflow.root), airflow.pipeline.read_text()
        assert old in content
        airflow.pipeline.write_text(content.replace(old, new))
        ran = airflow.run(f"change-{number}")
        assert ran.state == state, explain(ran, airflow.home)
        logs = airflow.home.folder / "logs" / f"dag_id={DAG}" / f"run_id=change-{number}"
        assert told is None or told in (logs / "task_id=stream/attempt=1.log").read_text()
        if state == "failed":
            stream = next(task for task in ran.tasks if task.task == "stream")
            assert stream.try_number == 1, "no retry can help where a change is refused"
            explained = explain(ran, airflow.home)
            assert "PipelineChanged" in explained
            assert "PipelineChanged" in Path(explained.rpartition("log: ")[2]).read_text()
            assert kept_files(airflow.root) == before
            airflow.pipeline.write_text(content)
    assert airflow.run("put-back").state == "success"


def kept_files(root: Path) -> dict[str, int]:
    """All files of the tables, and of what the queries have planned and committed."""
    kept = (
        "bronze/",
        "rejects/",
        "changes/",
        "gold/",
        "offsets/",
        "commits/",
        "sources/",
        "state/",
    )
    files = {str(path.relative_to(root)): path for path in (root / DAG).rglob("*")}
    return {
        name: path.stat().st_mtime_ns
        for name, path in files.items()
        if path.is_file() and not set(kept).isdisjoint(path.parts)
    }


def gold(root: Path) -> list[dict[str, object]]:
    table = DeltaTable(str(root / DAG / "spot_10m" / "gold")).to_pyarrow_table()
    columns = ["window_start", "window_end", "spotId", "impressions", "mobile", "status"]
    rows: list[dict[str, object]] = table.select(columns).to_pylist()
    return sorted(rows, key=lambda row: (row["window_start"], row["spotId"]))


def expected(after_trigger: int) -> list[dict[str, object]]:
    sequences = json.loads((SAMPLES / "expected.json").read_text())["sequences"]
    windows = sequences["worked_example"][after_trigger - 1]["windows"]
    times = ("window_start", "window_end")
    return [{**w, **{t: datetime.fromisoformat(w[t]) for t in times}} for w in windows]


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_ended_while_spark_runs_leaves_no_process(number: signal.Signals) -> None:
    """In the demo's own folder: another demo must not be running."""
    demo = subprocess.Popen(
        [sys.executable, str(REPOSITORY / "include" / "demo" / "demo.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        # Whoever started the tests may have it ignored (nohup, `&`), which is inherited.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    try:
        family = _family_with_spark(demo)
        demo.send_signal(number)
        output, _ = demo.communicate(timeout=HUNG_SECONDS)
    finally:
        demo.terminate()  # killed, it would leave Airflow running
        demo.wait(HUNG_SECONDS)
    assert demo.returncode == 128 + number, output
    assert "Stopping Airflow" in output
    assert not [process for process in family if process.is_running()]


def _family_with_spark(demo: subprocess.Popen[str]) -> list[psutil.Process]:
    deadline = time.monotonic() + HUNG_SECONDS
    while time.monotonic() < deadline and demo.poll() is None:
        family: list[psutil.Process] = psutil.Process(demo.pid).children(recursive=True)
        if any(process.name() == "java" for process in family):
            return family
        time.sleep(0.5)
    raise AssertionError("Spark was not started")
