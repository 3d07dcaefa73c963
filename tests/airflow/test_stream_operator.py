"""The stream task against a real process in spark-submit's place, which leaves a real result."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowTaskTimeout
from airflow.sdk.execution_time.timeout import timeout

from tests.kit.patience import PATIENCE_SECONDS
from tidemark.airflow import PipelineTaskGroup
from tidemark.airflow.job import job_file
from tidemark.airflow.stream import StreamOperator
from tidemark.pipeline.settings.masters import check_master
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.requests import StreamRequest
from tidemark.storage.processes import mark_of

RUN = "manual__2026-11-21T10:00:00+00:00"
RUN_AFTER = datetime(2026, 11, 21, 10, tzinfo=UTC)
FILE = "manual__2026-11-21T10_00_00_00_00--try1.json"

SUCCEEDED: dict[str, Any] = {
    "pipeline": "visits",
    "run_id": RUN,
    "outcome": "succeeded",
    "held": True,
    "started_at": "2026-11-21T10:00:01Z",
    "ended_at": "2026-11-21T10:00:09Z",
    "rows": {"read": 10, "accepted": 8, "rejected": {"malformed": 2}, "counted": {}},
    "seconds": {"session": 3.0},
    "tables": {
        "page_1h": {
            "generation": 1,
            "changes": 4,
            "bronze": 2,
            "windows_changed": 3,
            "watermark_before_ms": 0,
            "watermark_after_ms": 1_772_366_340_000,
            "close_before_ms": 0,
            "close_after_ms": 1_772_366_340_000,
        }
    },
}

# Leaves `result` where it is told to, as a job does, and ends as the test says.
SUBMIT = """\
#!{python}
import json, os, pathlib, signal, subprocess, sys, time
plan = json.loads(pathlib.Path({plan!r}).read_text())
pathlib.Path(plan["seen"]).write_text(json.dumps(sys.argv[1:]))
pathlib.Path(plan["seen"]).with_name("environment.json").write_text(json.dumps(dict(os.environ)))
if plan["result"] is not None:
    target = pathlib.Path(sys.argv[sys.argv.index("--result") + 1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(plan["result"])
if plan["hang"]:
    driver = subprocess.Popen([sys.executable, "-c", plan["driver"]])
    while plan["ready"] and not pathlib.Path(plan["ready"]).exists():
        time.sleep(0.01)
    pathlib.Path(plan["hang"]).write_text(str(driver.pid))
    time.sleep(600)
if plan["exit"] < 0:
    os.kill(os.getpid(), -plan["exit"])
sys.exit(plan["exit"])
"""
DRIVER = "import time; time.sleep(600)"
DEAF_DRIVER = """\
import os, pathlib, signal, time
os.setpgid(0, 0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path({ready!r}).touch()
time.sleep(600)
"""


@dataclass
class Submit:
    """A stream task whose spark-submit does what it is told."""

    folder: Path
    pipeline: Path
    operator: StreamOperator | None = None
    data_interval_end: datetime | None = None

    @property
    def result_file(self) -> Path:
        return self.folder / "root" / "visits" / "results" / FILE

    def plan(
        self,
        result: dict[str, Any] | str | None = None,
        exit_status: int = 0,
        hang: Path | None = None,
        deaf: bool = False,
    ) -> None:
        text = json.dumps(result) if isinstance(result, dict) else result
        told: dict[str, Any] = {
            "result": text,
            "exit": exit_status,
            "hang": str(hang) if hang else None,
        }
        ready = str(self.folder / "deaf")
        told["driver"] = DEAF_DRIVER.format(ready=ready) if deaf else DRIVER
        told["ready"] = ready if deaf else None
        told["seen"] = str(self.folder / "seen.json")
        (self.folder / "plan.json").write_text(json.dumps(told))

    def run(
        self,
        try_number: int = 1,
        after: Mapping[str, str | None] | None = None,
        operator: StreamOperator | None = None,
    ) -> dict[str, Any]:
        """As in a process of its own, which is what each try is. `after` are the tasks after it, in
        these states; a run without news skips them, unless the operator is given."""
        self.operator = operator or StreamOperator(
            task_id="stream", pipeline_file=str(self.pipeline), conn_id="spark_default"
        )
        self.operator._spark_binary = str(self.folder / "spark-submit")
        if operator is None:
            self.operator.followers = tuple(after or ())
        dag_run = SimpleNamespace(
            data_interval_end=self.data_interval_end,
            run_after=RUN_AFTER,
            run_type="scheduled",
            triggering_user_name=None,
            dag_id="visits",
        )

        def states(dag_id: str, task_ids: list[str], run_ids: list[str]) -> dict[str, Any]:
            assert (dag_id, run_ids) == ("visits", [RUN])
            return {RUN: {name: state for name, state in (after or {}).items() if name in task_ids}}

        task = SimpleNamespace(try_number=try_number, dag_id="visits", get_task_states=states)
        context: Any = {"run_id": RUN, "ti": task, "dag_run": dag_run}
        return self.operator.execute(context)

    @property
    def arguments(self) -> list[str]:
        seen: list[str] = json.loads((self.folder / "seen.json").read_text())
        return seen

    @property
    def environment(self) -> dict[str, str]:
        seen: dict[str, str] = json.loads((self.folder / "environment.json").read_text())
        return seen

    @property
    def was_started(self) -> bool:
        return (self.folder / "seen.json").exists()


@pytest.fixture
def submit(
    write_pipeline: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Submit:
    binary = tmp_path / "spark-submit"
    plan = str(tmp_path / "plan.json")
    binary.write_text(SUBMIT.format(python=sys.executable, plan=plan))
    binary.chmod(0o755)
    connection = {"conn_type": "spark", "host": "local[2]"}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    (tmp_path / "root" / "landing" / "visits").mkdir(parents=True)
    return Submit(tmp_path, write_pipeline("visits"))


def failed(retry_can_help: bool, **changed: Any) -> dict[str, Any]:
    error = {"class": "RunFailed", "message": "batch 7 broke", "retry_can_help": retry_can_help}
    return {**SUCCEEDED, "outcome": "failed", "error": error, **changed}


def test_a_run_that_succeeded_pushes_a_small_summary(submit: Submit) -> None:
    submit.plan(SUCCEEDED)
    assert submit.run() == {
        "result": str(submit.result_file),
        "rows": {"read": 10, "accepted": 8, "rejected": {"malformed": 2}, "counted": {}},
        "took_over": None,
        "tables": {
            "page_1h": {
                "windows_changed": 3,
                "late_rows": 0,
                "windows_corrected": 0,
                "watermark_ms": 1_772_366_340_000,
            }
        },
    }


@pytest.mark.parametrize(
    "after",
    [
        {"validate": "skipped", "publish": "skipped", "state_check": "skipped"},
        {"validate": "success", "publish": "success", "state_check": "success"},
    ],
)
def test_a_later_try_fails_where_the_tasks_that_would_publish_its_run_are_over(
    submit: Submit, after: dict[str, str | None]
) -> None:
    submit.plan(SUCCEEDED)
    over = after["publish"]
    with pytest.raises(AirflowFailException) as raised:
        submit.run(2, after)
    assert str(raised.value) == (
        "The run is held, and nothing of this Dag run would publish it: validate: "
        f"{over}, publish: {over} before this try. What it committed stays, and gold is as it was. "
        "Clear this task together with those after it, or wait: the next run publishes what this "
        "one left."
    )


@pytest.mark.parametrize("group", ["visits", "web"])
def test_a_later_try_of_a_group_fails_where_its_own_tasks_that_would_publish_are_over(
    submit: Submit, group: str
) -> None:
    with DAG("visits", schedule=None) as dag:
        PipelineTaskGroup("visits", group_id=group)
    stream = dag.get_task(f"{group}.stream")
    assert isinstance(stream, StreamOperator)
    submit.plan(SUCCEEDED)
    of_others = {"publish": "success", "other.publish": "success"}
    assert submit.run(2, {f"{group}.publish": None} | of_others, stream)["result"]
    submit.plan(SUCCEEDED | {"ended_at": "2026-11-21T10:00:10Z"})
    with pytest.raises(AirflowFailException, match=f"would publish it: {group}.publish: success"):
        submit.run(3, {f"{group}.publish": "success"}, stream)


@pytest.mark.parametrize(
    "after",
    [
        {"validate": None, "publish": None, "state_check": None},
        {"validate": None, "publish": None, "state_check": "success"},
        {},
    ],
)
def test_a_later_try_succeeds_where_they_were_cleared_with_it(
    submit: Submit, after: dict[str, str | None]
) -> None:
    submit.plan(SUCCEEDED)
    assert submit.run(2, after)["result"]


def test_the_job_is_submitted_held_with_its_run_and_result(submit: Submit) -> None:
    submit.plan(SUCCEEDED)
    submit.run()
    job = submit.arguments.index(job_file(StreamRequest.job))
    assert submit.arguments[:2] == ["--master", "local[2]"]
    assert StreamRequest.read(submit.arguments[job + 1 :]) == StreamRequest(
        pipeline=str(submit.pipeline),
        run_id=RUN,
        result=str(submit.result_file),
        by="Airflow",
        dag="visits",
        hold=True,
        scheduled_time=datetime(2026, 11, 21, 10, tzinfo=UTC),
        trigger="scheduled",
    )


@pytest.mark.parametrize(
    ("master", "address"), [("local[2]", "127.0.0.1"), ("spark://elsewhere", None)]
)
def test_a_driver_is_bound_to_this_machine_only_where_its_executors_are_here(
    submit: Submit, monkeypatch: pytest.MonkeyPatch, master: str, address: str | None
) -> None:
    connection = {"conn_type": "spark", "host": master, "port": 7077 if address is None else None}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    # The root of this test is a folder, so that its result can be read.
    monkeypatch.setattr("tidemark.airflow.job.check_master", lambda *_: None)
    submit.plan(SUCCEEDED)
    submit.run()
    assert submit.arguments[0] == "--master"
    assert submit.environment.get("SPARK_LOCAL_IP") == address


def on_kubernetes(monkeypatch: pytest.MonkeyPatch, **extra: str) -> None:
    connection = {"conn_type": "spark", "host": "k8s://https://cluster", "port": 443}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection | {"extra": extra}))
    monkeypatch.setattr("tidemark.airflow.job.check_master", lambda *_: None)


def test_a_driver_whose_executors_are_on_kubernetes_is_a_process_of_the_worker(
    submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow's provider of Kubernetes is not asked for, and the job's variables reach it."""
    on_kubernetes(monkeypatch)
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    submit.plan(SUCCEEDED)
    submit.run()
    assert submit.arguments[:2] == ["--master", "k8s://https://cluster:443"]
    assert submit.environment["LC_ALL"] == "C.UTF-8"


def test_that_spark_submit_says_nothing_is_no_failure_on_kubernetes(
    submit: Submit, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_kubernetes(monkeypatch)
    submit.plan(SUCCEEDED)
    submit.run()
    assert "Spark-Submit cmd" in (said := capsys.readouterr().out)
    assert "spark-submit then failed" not in said


def test_a_driver_in_a_pod_of_its_own_takes_airflows_provider_of_kubernetes(
    submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_kubernetes(monkeypatch, **{"deploy-mode": "cluster"})
    submit.plan(SUCCEEDED)
    with pytest.raises(AirflowFailException, match="providers-cncf-kubernetes on the worker"):
        submit.run()


def test_no_storage_option_is_on_the_command_line(
    submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = {"AWS_ACCESS_KEY_ID": "hush-id", "AWS_SECRET_ACCESS_KEY": "hush"}
    monkeypatch.setenv("TIDEMARK_STORAGE_OPTIONS", json.dumps(secret))
    submit.plan(SUCCEEDED)
    submit.run()
    assert "hush" not in " ".join(submit.arguments)


def test_a_failure_that_a_retry_cannot_help_is_not_retried(submit: Submit) -> None:
    submit.plan(failed(retry_can_help=False), exit_status=1)
    with pytest.raises(AirflowFailException) as raised:
        submit.run()
    message = str(raised.value)
    assert "RunFailed: batch 7 broke" in message
    assert "will not try again" in message


def test_a_failure_that_a_retry_can_help_is_retried(submit: Submit) -> None:
    submit.plan(failed(retry_can_help=True), exit_status=75)
    with pytest.raises(AirflowException, match="RunFailed: batch 7 broke") as raised:
        submit.run()
    assert not isinstance(raised.value, AirflowFailException)


def test_a_failed_result_fails_the_task_though_spark_submit_ended_well(submit: Submit) -> None:
    submit.plan(failed(retry_can_help=True), exit_status=0)
    with pytest.raises(AirflowException, match="batch 7 broke"):
        submit.run()


def test_a_result_that_succeeded_counts_though_spark_submit_then_failed(submit: Submit) -> None:
    submit.plan(SUCCEEDED, exit_status=1)
    assert submit.run()["rows"]["accepted"] == 8


@pytest.mark.parametrize(
    ("exit_status", "told"), [(3, "ended with exit status 3"), (-9, "was killed by signal 9")]
)
def test_a_job_without_a_result_is_retried_and_its_exit_is_told(
    submit: Submit, exit_status: int, told: str
) -> None:
    submit.plan(None, exit_status)
    with pytest.raises(AirflowException) as raised:
        submit.run()
    assert not isinstance(raised.value, AirflowFailException)
    assert f"spark-submit {told} without a result" in str(raised.value)
    assert str(submit.result_file) in str(raised.value)


def test_a_file_that_is_no_result_is_told_as_such(submit: Submit) -> None:
    submit.plan('{"format": 2}')
    with pytest.raises(AirflowException, match="is not a RunResult of format 1"):
        submit.run()


def test_the_result_of_an_earlier_run_with_the_same_id_is_not_taken(submit: Submit) -> None:
    submit.plan(SUCCEEDED)
    submit.run()
    submit.plan(None, exit_status=-9)
    with pytest.raises(AirflowException, match="of an earlier run with this id"):
        submit.run()


def test_a_second_try_has_a_result_of_its_own(submit: Submit) -> None:
    submit.plan(failed(retry_can_help=True), exit_status=75)
    with pytest.raises(AirflowException):
        submit.run()
    submit.plan(SUCCEEDED)
    assert submit.run(try_number=2)["result"].endswith("--try2.json")


@pytest.mark.parametrize("host", ["spark://10.0.0.1:7077", "yarn", "local-cluster[2,1,1024]"])
def test_a_local_root_with_a_cluster_is_refused_before_anything_starts(
    submit: Submit, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = {"conn_type": "spark", "host": host}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    submit.plan(SUCCEEDED)
    with pytest.raises(AirflowFailException, match="is a folder of this machine") as raised:
        submit.run()
    assert f"the master {host}" in str(raised.value)
    assert not submit.was_started


@pytest.mark.parametrize(
    ("root", "master"),
    [
        ("s3://lake/tidemark", "spark://10.0.0.1:7077"),
        ("s3://lake/tidemark", "local[2]"),
        ("/srv/tidemark", "local[*]"),
        ("/srv/tidemark", "local"),
    ],
)
def test_a_root_that_all_executors_reach_is_not_refused(root: str, master: str) -> None:
    check_master(Settings(root=root, pipelines="/srv/pipelines"), master, "--master")


def test_a_root_whose_mount_is_missing_is_retried_and_nothing_is_written_there(
    submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_ROOT_MARKER", "here")
    submit.plan(SUCCEEDED)
    with pytest.raises(AirflowException, match=r"RootMissing: .* has no file here") as told:
        submit.run()
    assert not isinstance(told.value, AirflowFailException)
    assert not submit.was_started
    assert [one.name for one in (submit.folder / "root").iterdir()] == ["landing"]


def test_a_connection_that_does_not_exist_is_told(
    submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    submit.plan(SUCCEEDED)
    with pytest.raises(AirflowFailException, match="there is no connection spark_default"):
        submit.run()


def test_unusable_settings_fail_the_task_before_anything_starts(
    submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_SETTINGS", "/nowhere/settings.yaml")
    submit.plan(SUCCEEDED)
    with pytest.raises(AirflowFailException, match=r"no settings file /nowhere/settings\.yaml"):
        submit.run()
    assert not submit.was_started


@contextmanager
def hanging(submit: Submit, pid_file: Path) -> Iterator[tuple[psutil.Process, list[str]]]:
    """A task whose job hangs: the job's driver, and what the task said when it ended."""
    ended: list[str] = []

    def run() -> None:
        try:
            submit.run()
        except AirflowException as error:
            ended.append(str(error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    driver = _driver(pid_file)
    try:
        yield driver, ended
        # Not before the driver is gone: it holds the output that the provider reads.
        thread.join(timeout=PATIENCE_SECONDS)
    finally:
        with suppress(psutil.NoSuchProcess):
            driver.kill()


def test_a_killed_task_ends_the_driver_that_spark_submit_started(
    submit: Submit, tmp_path: Path
) -> None:
    submit.plan(None, hang=tmp_path / "driver.pid")
    with hanging(submit, tmp_path / "driver.pid") as (driver, ended):
        assert submit.operator is not None
        submit.operator.on_kill()
        assert mark_of(driver.pid) is None
    assert f"signal {signal.SIGTERM.value}" in ended[0]


@pytest.mark.slow
def test_a_job_that_hears_nothing_is_killed_before_airflow_kills_the_task(
    submit: Submit, tmp_path: Path
) -> None:
    """Also a process that has left spark-submit's process group, as pyspark's daemon does."""
    submit.plan(None, hang=tmp_path / "driver.pid", deaf=True)
    with hanging(submit, tmp_path / "driver.pid") as (driver, ended):
        assert os.getpgid(driver.pid) == driver.pid
        assert submit.operator is not None
        began = time.monotonic()
        submit.operator.on_kill()
        assert mark_of(driver.pid) is None
        assert time.monotonic() - began < 5, "seconds that Airflow gives a task to end"
    assert ended


@pytest.mark.slow
def test_a_task_that_takes_too_long_ends_its_job(submit: Submit, tmp_path: Path) -> None:
    submit.plan(None, hang=tmp_path / "driver.pid")
    with pytest.raises(AirflowTaskTimeout), timeout(5):
        submit.run()
    assert mark_of(int((tmp_path / "driver.pid").read_text())) is None


def test_a_task_that_was_ended_before_its_job_started_starts_none(
    submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow's signal comes at any time, and calls nothing but on_kill."""
    monkeypatch.setattr(
        StreamOperator, "new_bytes", lambda operator, settings: operator.on_kill() or 0
    )
    submit.plan(SUCCEEDED)
    with pytest.raises(AirflowException, match="ended before the job was started"):
        submit.run()
    assert not submit.was_started


def _driver(pid_file: Path) -> psutil.Process:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (pid_file.exists() and pid_file.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return psutil.Process(int(pid_file.read_text()))


def test_the_job_that_is_submitted_exists_and_pyspark_is_not_loaded_to_find_it() -> None:
    assert Path(job_file(StreamRequest.job)).is_file()
    assert Path(job_file(StreamRequest.job)).parts[-3:] == (
        "streaming",
        "jobs",
        "stream.py",
    )
    assert os.access(job_file(StreamRequest.job), os.R_OK)


@pytest.mark.parametrize(
    ("interval_end", "expected"),
    [
        (None, "2026-11-21T10:00:00+00:00"),
        (datetime(2026, 11, 21, 9, 50, tzinfo=UTC), "2026-11-21T09:50:00+00:00"),
    ],
)
def test_the_job_is_told_what_started_the_run_and_for_which_time(
    submit: Submit, interval_end: datetime | None, expected: str
) -> None:
    submit.plan(SUCCEEDED)
    submit.data_interval_end = interval_end
    submit.run()
    told = submit.arguments
    assert told[told.index("--scheduled-time") + 1] == expected
    assert told[told.index("--trigger") + 1] == "scheduled"
