"""Dag runs: started together, watched until they end, and explained when they fail."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from demo.api import AirflowApi, DagRun, TaskState
from demo.environment import AirflowHome, DemoFailed
from demo.screen import Tell
from tidemark.errors import ResultUnreadable
from tidemark.pipeline.places import Places
from tidemark.runs.results.result import RunResult
from tidemark.storage.result_file import read_result

PAUSE_SECONDS = 0.5
_LONGEST_ERROR = 4_000
# Fails where another task failed, and is skipped otherwise.
_WATCHER = "watcher"
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
    stands_for: datetime,
    check: Callable[[], None],
    tell: Tell,
    home: AirflowHome,
) -> list[DagRun]:
    """Start a run of each Dag and return them when all have ended, well or badly.

    `stands_for` is the runs' logical date: their time on the scheduler's clock.
    """
    for dag in dags:
        api.unpause(dag)
        api.trigger(dag, run_id, stands_for)
    runs: list[DagRun] = []

    def all_ended() -> bool:
        runs[:] = [api.run(dag, run_id) for dag in dags]
        tell(*(_told(run, home) for run in runs))
        return all(run.ended for run in runs)

    wait_until(all_ended, check, f"The end of the runs {run_id}", LONGEST_RUN_SECONDS)
    return runs


def result_of(run: DagRun, root: str) -> RunResult | None:
    """What the stream task's last try wrote down; None when it could not."""
    stream = next((task for task in run.tasks if task.task == "stream"), None)
    if stream is None:
        return None
    with suppress(ResultUnreadable):
        uri = Places(root, run.dag).result(run.run_id, stream.try_number)
        return read_result(RunResult, uri, {})
    return None


def explain(run: DagRun, home: AirflowHome) -> str:
    """Why a Dag run failed: the failed task's error, and where its log lies."""
    failed = [task for task in run.tasks if task.state == "failed" and task.task != _WATCHER]
    told = [f"{run.dag}, run {run.run_id}: {run.state}"]
    for task in failed:
        log = task_log(run, task, home)
        told += [f"  {task.task}, try {task.try_number}: {_error_in(log)}", f"  log: {log}"]
    return "\n".join(told)


def task_log(run: DagRun, task: TaskState, home: AirflowHome) -> Path:
    folder = home.folder / "logs" / f"dag_id={run.dag}" / f"run_id={run.run_id}"
    return folder / f"task_id={task.task}" / f"attempt={task.try_number}.log"


def _error_in(log: Path) -> str:
    """The last error of a task's log."""
    details = [d for entry in _entries(log) for d in entry.get("error_detail") or []]
    if not details:
        return "no error in its log"
    return f"{details[-1]['exc_type']}: {details[-1]['exc_value']}"[:_LONGEST_ERROR]


def _told(run: DagRun, home: AirflowHome) -> str:
    """The first task that has not succeeded, and what its job said last."""
    going = (task for task in run.tasks if task.task != _WATCHER and task.state != "success")
    task = next(going, None)
    if task is None:
        return f"{run.dag}: {run.state}"
    said = _last_said(task_log(run, task, home), run.dag) if task.state == "running" else ""
    return f"{run.dag}: {task.task} {task.state or 'waiting'}" + (f" · {said}" if said else "")


def _last_said(log: Path, pipeline: str) -> str:
    """The job's last line of progress, which begins with the time and the pipeline."""
    said = ""
    for entry in _entries(log):
        _, found, text = str(entry.get("event", "")).partition(f"Z {pipeline}: ")
        said = text if found else said
    return said


def _entries(log: Path) -> Iterator[dict[str, Any]]:
    """A task's log: a JSON object a line; the last line may not be whole yet."""
    for line in log.read_text(errors="replace").splitlines() if log.is_file() else []:
        with suppress(ValueError):
            yield json.loads(line)
