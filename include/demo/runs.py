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
# Of a slow machine at work something is new every few seconds.
PATIENCE_SECONDS = 300.0
_LONGEST_ERROR = 4_000
# Fails where another task failed, and is skipped otherwise.
_WATCHER = "watcher"
_NOT_WELL = ("failed", "up_for_retry", "upstream_failed")


def wait_until(
    done: Callable[[], bool],
    check: Callable[[], object],
    what: str,
    patience: float = PATIENCE_SECONDS,
) -> None:
    """Wait for `done`, however long, while something advances: then `check` returns another value
    than before. It raises when waiting has become useless. DemoFailed after so many seconds in
    which nothing was new."""
    seen, since = check(), time.monotonic()
    while not done():
        if (now := check()) != seen:
            seen, since = now, time.monotonic()
        elif time.monotonic() - since > patience:
            raise DemoFailed(f"{what} did not happen, and for {patience:.0f} s nothing advanced.")
        time.sleep(PAUSE_SECONDS)


def run_all(
    api: AirflowApi,
    dags: Sequence[str],
    run_id: str,
    stands_for: datetime,
    check: Callable[[], object],
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
        tell(*(told for run in runs if (told := _told(run, home))))
        return all(run.ended for run in runs)

    wait_until(all_ended, check, f"The end of the runs {run_id}")
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
    """The task that runs, and what its job said last; a task that did not go well; or that the run
    has ended. Nothing between two tasks."""
    if run.ended:
        return f"{run.dag}: {run.state}"
    for task in run.tasks:
        if task.state == "running":
            said = _last_said(task_log(run, task, home), run.dag)
            return f"{run.dag}: {task.task}" + (f" · {said}" if said else "")
        if task.state in _NOT_WELL:
            return f"{run.dag}: {task.task} {task.state}"
    return ""


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
