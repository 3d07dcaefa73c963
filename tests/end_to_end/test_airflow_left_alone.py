"""An Airflow whose processes die and whose tasks fail: its runs end as undisturbed ones do.

The tests stand in one story, in their order: each lands a file more, and runs once.
"""

from __future__ import annotations

import gzip
import json
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from deltalake import DeltaTable
from rich.console import Console

from demo.api import AirflowApi, DagRun
from demo.environment import (
    CONNECTION,
    REPOSITORY,
    USER,
    AirflowHome,
    airflow_environment,
    prepare_home,
)
from demo.running import running_airflow
from demo.runs import explain, result_of, task_log, wait_until
from demo.screen import Screen
from demo.services import Services
from tests.end_to_end.one_pipeline import DAG, land_sample, one_pipeline
from tests.end_to_end.pages import example_after, page
from tests.end_to_end.test_airflow_run import expected, gold
from tidemark.pipeline.load import load_pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.settings import load_settings
from tidemark.storage.lease.lease import LeaseRecord, hold_lease, read_lease, this_process
from tidemark.storage.processes import is_alive, send_signal
from tidemark.upkeep.accept_changes import accept_changes

pytestmark = [pytest.mark.process, pytest.mark.long]

CONSUMER = "spot_report"
# It is never run: paused, as all Dags are at first.
SCHEDULED = "access_log"
# In the environment, and in Spark's connection: both are places where the page puts secrets.
SECRETS = ("planted-storage-key-5d1e", "planted-session-token-77c0", "planted-password-c93a")
DAGS = """\
from datetime import timedelta
from pathlib import Path

from tidemark.airflow import pipeline_dags

told = Path({told!r})


def failed(context):
    with told.open("a") as file:
        print("failed", context["run_id"], *context["tidemark"].failed, file=file)


def recovered(context):
    with told.open("a") as file:
        print("recovered", context["run_id"], context["tidemark"].result.outcome, file=file)


dags = pipeline_dags(
    default_args={{"retry_delay": timedelta(seconds=1)}}, on_failure=failed, on_recovery=recovered
)
globals().update(dags)
"""


@dataclass
class Airflow:
    """A running Airflow, what its callbacks and gauges said, and how to run the pipeline once."""

    folder: Path
    home: AirflowHome
    services: Services
    api: AirflowApi
    gauges: list[str] = field(default_factory=list)

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def pipeline(self) -> Path:
        return self.folder / "pipelines" / f"{DAG}.yaml"

    @property
    def summary(self) -> list[str]:
        file = self.folder / "told"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def consumed(self) -> list[str]:
        return self.api.runs(CONSUMER)

    def land(self, file: str) -> None:
        land_sample(self.root, file)

    def start(self, run_id: str) -> None:
        self.api.trigger(DAG, run_id, datetime.now(UTC))

    def end(self, run_id: str) -> DagRun:
        self.wait_until(f"The end of {run_id}", lambda: self.api.run(DAG, run_id).ended)
        return self.api.run(DAG, run_id)

    def run(self, run_id: str) -> DagRun:
        self.start(run_id)
        return self.end(run_id)

    def streaming(self, run_id: str) -> LeaseRecord:
        """The lease of the run's job, once it holds it."""
        found: list[LeaseRecord] = []

        def held() -> bool:
            lease = read_lease(Places(str(self.root), DAG).lease, {})
            if lease and (lease.run_id, lease.purpose, lease.released) == (run_id, "stream", False):
                found.append(lease)
            return bool(found)

        self.wait_until(f"The stream of {run_id}", held)
        return found[0]

    def wait_until(self, what: str, done: Callable[[], bool]) -> None:
        wait_until(done, self.services.check, what)

    def states(self, run: DagRun) -> dict[str, str | None]:
        return {task.task: task.state for task in run.tasks}


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    folder = tmp_path_factory.mktemp("left_alone")
    base, dags = one_pipeline(folder), folder / "dags"
    dags.mkdir()
    scheduled = REPOSITORY / "include" / "pipelines" / f"{SCHEDULED}.yaml"
    shutil.copy(scheduled, folder / "pipelines")
    (dags / "pipelines.py").write_text(DAGS.format(told=str(folder / "told")))
    (dags / "consumer.py").write_text(example_after(page("airflow.md"), "consumer"))
    home = prepare_home(folder / "airflow")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        environment = {
            **airflow_environment({**base, **_with_secrets()}, home, quick=True),
            **{f"AIRFLOW__{name}": value for name, value in _settings(dags, receiver).items()},
        }
        with running_airflow(Screen(Console()), home, environment) as (services, api):
            airflow = Airflow(folder, home, services, api)
            threading.Thread(target=_receive, args=(receiver, airflow.gauges), daemon=True).start()
            for dag in (DAG, CONSUMER):
                airflow.wait_until(dag, lambda dag=dag: api.knows(dag))
                api.unpause(dag)
            yield airflow


def _settings(dags: Path, receiver: socket.socket) -> dict[str, str]:
    host, port = receiver.getsockname()
    return {
        "CORE__DAGS_FOLDER": str(dags),
        # Airflow's own waits five minutes before it believes that a worker is dead.
        "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
        "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
        "METRICS__STATSD_ON": "True",
        "METRICS__STATSD_HOST": host,
        "METRICS__STATSD_PORT": str(port),
    }


def _with_secrets() -> dict[str, str]:
    key, token, password = SECRETS
    options = {
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": key,
        "AWS_SESSION_TOKEN": token,
    }
    connection = {**CONNECTION, "login": "somebody", "password": password}
    return {
        "TIDEMARK_STORAGE_OPTIONS": json.dumps(options),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection),
    }


def _receive(receiver: socket.socket, into: list[str]) -> None:
    with suppress(OSError):  # closed with the fixture
        while True:
            into.append(receiver.recv(65_535).decode())


def test_what_a_run_changed_reaches_the_consumer_and_the_gauges(airflow: Airflow) -> None:
    airflow.land("trigger-1.json")
    run = airflow.run("first")
    assert run.state == "success", explain(run, airflow.home)
    assert airflow.states(run)["watcher"] == "skipped"
    assert gold(airflow.root) == expected(after_trigger=1)

    airflow.wait_until("The consumer", lambda: len(airflow.consumed) == 1)
    (consumed,) = airflow.consumed
    airflow.wait_until("Its end", lambda: airflow.api.run(CONSUMER, consumed).ended)
    windows = [(row["window_start"], row["window_end"]) for row in gold(airflow.root)]
    assert airflow.api.returned(CONSUMER, consumed, "changed_windows") == {
        "from": min(start for start, _ in windows).isoformat(),
        "to": max(end for _, end in windows).isoformat(),
    }

    gauges = dict(line.partition(":")[::2] for line in airflow.gauges)
    prefix = f"airflow.tidemark.{DAG}"
    assert gauges[f"{prefix}.rows_read"] == "2|g"
    assert gauges[f"{prefix}.rows_accepted"] == "2|g"
    assert gauges[f"{prefix}.rows_rejected"] == "0|g"
    assert gauges[f"{prefix}.spot_10m.late_rows"] == "0|g"
    assert float(gauges[f"{prefix}.spot_10m.lag_seconds"].removesuffix("|g")) > 0
    assert int(gauges[f"{prefix}.spot_10m.state_bytes"].removesuffix("|g")) > 0


def test_a_backfill_of_airflow_is_refused(airflow: Airflow) -> None:
    dates = ("--from-date", "2026-03-01", "--to-date", "2026-03-02")
    asked = subprocess.run(
        [sys.executable, "-m", "airflow", "backfill", "create", "--dag-id", SCHEDULED, *dates],
        env=dict(airflow.services.environment),
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode != 0
    assert "backfill" in asked.stderr.splitlines()[-1].lower(), asked.stderr
    assert airflow.api.runs(SCHEDULED) == []


def test_a_run_that_published_nothing_wakes_no_consumer(airflow: Airflow) -> None:
    run = airflow.run("nothing-new")
    assert run.state == "success", explain(run, airflow.home)
    assert len(airflow.consumed) == 1


def test_a_run_that_finds_another_at_work_waits_by_retrying(airflow: Airflow) -> None:
    lease = Places(str(airflow.root), DAG).lease
    airflow.land("trigger-2.json")
    with hold_lease(lease, this_process("somebody", "test"), {}):
        airflow.start("waiting")
        airflow.wait_until("A retry", lambda: _tries(airflow.api.run(DAG, "waiting")) == 2)
    run = airflow.end("waiting")
    assert run.state == "success", explain(run, airflow.home)
    first = airflow.home.folder.rglob("run_id=waiting/task_id=stream/attempt=1.log")
    assert "LeaseHeld" in next(first).read_text()
    assert gold(airflow.root) == expected(after_trigger=2)


def test_a_retry_ends_the_orphan_of_a_killed_worker_and_takes_its_lease_over(
    airflow: Airflow,
) -> None:
    airflow.land("trigger-3.json")
    airflow.start("worker-killed")
    lease = airflow.streaming("worker-killed")
    driver, jvm = lease.processes
    task = psutil.Process(jvm.pid).parent()
    assert task is not None
    # A command line is read by everybody on the machine.
    told: list[str] = []
    for process in (task, *task.children(True)):
        with suppress(psutil.NoSuchProcess):  # some live for moments only
            told += process.cmdline()
    assert told
    assert not [secret for secret in SECRETS if secret in " ".join(told)]
    worker = task.parent()
    assert worker is not None
    # So that the orphan surely lives when the retry starts.
    for mark in (driver, jvm):
        send_signal(mark, signal.SIGSTOP)
    worker.kill()
    task.kill()
    airflow.wait_until("The retry", lambda: _tries(airflow.api.run(DAG, "worker-killed")) == 2)
    assert is_alive(driver)
    assert is_alive(jvm)

    run = airflow.end("worker-killed")
    assert run.state == "success", explain(run, airflow.home)
    assert not is_alive(driver)
    assert not is_alive(jvm)
    because = "because it was of an earlier try of this run"
    stream = next(task for task in run.tasks if task.task == "stream")
    assert because in task_log(run, stream, airflow.home).read_text()
    result = result_of(run, str(airflow.root))
    assert result is not None
    assert because in str(result.took_over)
    assert airflow.api.returned(DAG, run.run_id, "stream", "took_over") == result.took_over
    assert gold(airflow.root) == expected(after_trigger=3)


def test_a_run_goes_on_when_the_scheduler_is_killed_and_started_again(airflow: Airflow) -> None:
    airflow.land("further/trigger-4.json")
    airflow.start("scheduler-killed")
    airflow.streaming("scheduler-killed")
    processes = airflow.services.processes()
    airflow.services.crash("scheduler")
    run = airflow.end("scheduler-killed")
    # The workers of the first scheduler outlive it, and nobody else ends them.
    for worker in set(processes) - set(airflow.services.processes()):
        with suppress(psutil.NoSuchProcess):
            worker.kill()
    assert run.state == "success", explain(run, airflow.home)
    assert gold(airflow.root) == expected(after_trigger=4)


KEPT_BY_ALL, KEPT_BY_NONE = "fail: mobile <= rows", "fail: mobile > rows"


def test_what_fails_its_checks_stays_unpublished_upkeep_runs_and_people_are_told(
    airflow: Airflow,
) -> None:
    consumed, before = len(airflow.consumed), _gold_files(airflow)
    airflow.land("further/trigger-5.json")
    airflow.pipeline.write_text(airflow.pipeline.read_text().replace(KEPT_BY_ALL, KEPT_BY_NONE))
    run = airflow.run("not-published")
    assert run.state == "failed"
    assert airflow.states(run) == {
        "stream": "success",
        "validate": "failed",
        "publish": "upstream_failed",
        "checkpoint_housekeeping": "success",
        "state_check": "success",
        "compact_state": "skipped",
        "watcher": "failed",
    }
    validate = next(task for task in run.tasks if task.task == "validate")
    assert validate.try_number == 1, "no retry can help"
    assert "mobile > rows" in task_log(run, validate, airflow.home).read_text()
    assert "The run failed, because of: validate" in _watcher_log(airflow, run)
    airflow.wait_until("An alert", lambda: airflow.summary == ["failed not-published validate"])
    assert (len(airflow.consumed), _gold_files(airflow)) == (consumed, before)


def test_the_next_good_run_publishes_what_was_held_and_people_are_told(airflow: Airflow) -> None:
    consumed = len(airflow.consumed)
    airflow.pipeline.write_text(airflow.pipeline.read_text().replace(KEPT_BY_NONE, KEPT_BY_ALL))
    run = airflow.run("well-again")
    assert run.state == "success", explain(run, airflow.home)
    assert gold(airflow.root) == expected(after_trigger=5)
    airflow.wait_until("The consumer", lambda: len(airflow.consumed) == consumed + 1)
    airflow.wait_until("An alert", lambda: "recovered well-again succeeded" in airflow.summary)
    assert len(airflow.summary) == 2


def test_what_a_backfill_mends_is_held_to_the_checks_and_reaches_the_consumer(
    airflow: Airflow,
) -> None:
    consumed, good = len(airflow.consumed), gold(airflow.root)
    closed = next(row for row in good if row["status"] != "provisional")
    start = datetime.fromisoformat(str(closed["window_start"]))
    table = DeltaTable(str(airflow.root / DAG / "spot_10m" / "gold"))
    spoilt = f"window_start = '{start.isoformat()}' AND spotId = {closed['spotId']}"
    table.update({"impressions": "impressions + 7"}, predicate=spoilt)
    settings = load_settings(airflow.folder / "settings.yaml")
    accept_changes(load_pipeline(airflow.pipeline), settings, "accepted", "it is mended", "Ada")
    asked = {
        "table": "spot_10m",
        "from": start.isoformat(),
        "to": (start + timedelta(seconds=1)).isoformat(),
        "dry_run": False,
    }
    kept = airflow.pipeline.read_text()
    airflow.pipeline.write_text(kept.replace(KEPT_BY_ALL, KEPT_BY_NONE))
    refused = _backfill(airflow, "refused", asked)
    assert refused.state == "failed"
    assert gold(airflow.root) != good
    accepted = _backfill(airflow, "mend", {**asked, "accept": "known"})
    airflow.pipeline.write_text(kept)
    assert accepted.state == "success", explain(accepted, airflow.home)
    told = {**closed, "status": "corrected"}
    assert gold(airflow.root) == [told if row == closed else row for row in good]
    airflow.wait_until("The consumer", lambda: len(airflow.consumed) == consumed + 1)
    verdicts = (
        DeltaTable(str(airflow.root / DAG / "ops" / "quality")).to_pyarrow_table().to_pylist()
    )
    by = {(row["run"], row["accepted"], row["accepted_by"]) for row in verdicts if row["accepted"]}
    assert by == {("backfill__mend", "known", f"{USER}, by Airflow")}


def _backfill(airflow: Airflow, run_id: str, asked: dict[str, Any]) -> DagRun:
    dag = f"{DAG}__backfill"
    airflow.api.unpause(dag)
    airflow.api.trigger(dag, run_id, datetime.now(UTC), asked)
    airflow.wait_until(f"The end of {run_id}", lambda: airflow.api.run(dag, run_id).ended)
    return airflow.api.run(dag, run_id)


def test_no_secret_is_left_in_any_file_or_table(airflow: Airflow) -> None:
    """After all of the above: runs that went well, were tried again, killed and refused."""
    kept = [path for path in airflow.folder.rglob("*") if path.is_file()]
    assert any(path.name == "attempt=2.log" for path in kept)
    for path in kept:
        content = path.read_bytes()
        text = gzip.decompress(content) if path.suffix == ".gz" else content
        found = [secret for secret in SECRETS if secret.encode() in text]
        assert not found, f"{found} in {path}"
    # Parquet is compressed, and SQLite splits long values over its pages.
    ops = airflow.root / DAG / "ops"
    tables = {place.parent.name: DeltaTable(place.parent) for place in ops.glob("*/_delta_log")}
    assert {"runs", "ledger", "upkeep", "quality"} <= set(tables)
    for name, table in tables.items():
        rows = str(table.to_pyarrow_table().to_pylist())
        assert not [secret for secret in SECRETS if secret in rows], name
    with closing(sqlite3.connect(airflow.home.folder / "airflow.db")) as metadata:
        dumped = "\n".join(metadata.iterdump())
    assert "rendered_task_instance_fields" in dumped
    assert not [secret for secret in SECRETS if secret in dumped]


def _tries(run: DagRun) -> int:
    stream = next(task for task in run.tasks if task.task == "stream")
    return stream.try_number if stream.state == "running" else 0


def _gold_files(airflow: Airflow) -> dict[Path, bytes]:
    folder = airflow.root / DAG / "spot_10m" / "gold"
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _watcher_log(airflow: Airflow, run: DagRun) -> str:
    watcher = next(task for task in run.tasks if task.task == "watcher")
    return task_log(run, watcher, airflow.home).read_text()
