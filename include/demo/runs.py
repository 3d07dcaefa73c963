"""Dag runs: started together, watched until they end, and explained when they fail."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from demo.api import AirflowApi, DagRun, TaskState
from demo.environment import AirflowHome, DemoFailed
from demo.screen import Tell
from tidemark.errors import ResultUnreadable
from tidemark.pipeline.places import Places
from tidemark.tables.result import RunResult, read_result

PAUSE_SECONDS = 0.5
_LONGEST_ERROR = 4_000
# A run of the samples takes half a minute on two cores.
LONGEST_RUN_SECONDS = 300.0


def wait_until(
    done: Callable[[], bool], check: Callable[[], None], what: str, seconds: float
) -> None:
    """Wait for `done`; `check` raises when waiting has become useless."""
    deadline = time.monotonic() + seconds
    while not done():
        check()
        if time.monotonic() > deadline:
            raise DemoFailed(f"{what} did not happen within {seconds:.0f} seconds.")
        time.sleep(PAUSE_SECONDS)


def run_all(
    api: AirflowApi,
    dags: Sequence[str],
    run_id: str,
    check: Callable[[], None],
    tell: Tell,
    seconds: float = LONGEST_RUN_SECONDS,
) -> list[DagRun]:
    """Start a run of each Dag and return them when all have ended, well or badly."""
    for dag in dags:
        api.unpause(dag)
        api.trigger(dag, run_id)
    runs: list[DagRun] = []

    def all_ended() -> bool:
        runs[:] = [api.run(dag, run_id) for dag in dags]
        tell(" · ".join(_told(run) for run in runs))
        return all(run.ended for run in runs)

    wait_until(all_ended, check, f"The end of the runs {run_id}", seconds)
    return runs


def result_of(run: DagRun, root: str) -> RunResult | None:
    """What the stream task's last try wrote down; None when it could not."""
    stream = next((task for task in run.tasks if task.task == "stream"), None)
    if stream is None:
        return None
    with suppress(ResultUnreadable):
        return read_result(Places(root, run.dag).result(run.run_id, stream.try_number), {})
    return None


def explain(run: DagRun, home: AirflowHome) -> str:
    """Why a Dag run failed: the failed task's error, and where its log lies."""
    failed = [task for task in run.tasks if task.state == "failed"]
    told = [f"{run.dag}, run {run.run_id}: {run.state}"]
    for task in failed:
        log = task_log(run, task, home)
        told += [f"  {task.task}, try {task.try_number}: {_error_in(log)}", f"  log: {log}"]
    return "\n".join(told)


def task_log(run: DagRun, task: TaskState, home: AirflowHome) -> Path:
    folder = home.folder / "logs" / f"dag_id={run.dag}" / f"run_id={run.run_id}"
    return folder / f"task_id={task.task}" / f"attempt={task.try_number}.log"


def _error_in(log: Path) -> str:
    """The last error of a task's log, which has a JSON object a line."""
    found = "no error in its log"
    for line in log.read_text(errors="replace").splitlines() if log.is_file() else []:
        with suppress(ValueError):
            for detail in json.loads(line).get("error_detail") or []:
                found = f"{detail['exc_type']}: {detail['exc_value']}"
    return found[:_LONGEST_ERROR]


def _told(run: DagRun) -> str:
    tasks = ", ".join(f"{task.task} {task.state or 'waiting'}" for task in run.tasks)
    return f"{run.dag}: {tasks or run.state}"
