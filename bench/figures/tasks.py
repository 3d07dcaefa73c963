"""What each task of a pipeline's Dag takes in Airflow: a run with little new input, one that an
expectation of Great Expectations judges too, and one that finds nothing new."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from matplotlib.axes import Axes
from ruamel.yaml import YAML

from bench.contenders import NAME, TABLE, pipeline_content, write_settings
from bench.drawing import bars
from bench.figure import Figure
from bench.inputs import write_events
from bench.measured import median, spread
from bench.sizes import Sizes
from demo.api import AirflowApi, DagRun
from demo.runs import wait_until

_FIRST = datetime(2026, 1, 2, tzinfo=UTC)
_CONDITION: dict[str, object] = {"fail": "events > 0"}
_EXPECTATION: dict[str, object] = {
    "fail": {"ExpectColumnValuesToNotBeNull": {"column": "window_start"}}
}
_WITH_NEW, _EXPECTED, _IDLE = "new rows", "new rows, an expectation", "nothing new"
DAG_FILE = """
from tidemark.airflow import pipeline_dags

globals().update(pipeline_dags(settings={settings!r}))
"""


@dataclass(frozen=True)
class TaskBench:
    """A pipeline in a folder of its own, run by an Airflow that is there."""

    folder: Path
    api: AirflowApi
    check: Callable[[], None]

    @property
    def source(self) -> Path:
        return self.folder / "source"

    def measure(self, sizes: Sizes) -> Figure:
        """The tasks' seconds, as Airflow has them, of runs one after the other."""
        wait_until(lambda: self.api.knows(NAME), self.check, NAME, 120)
        self.api.unpause(NAME)
        found: dict[str, list[DagRun]] = {name: [] for name in (_WITH_NEW, _EXPECTED, _IDLE)}
        number = 0
        for number in range(sizes.warm_ups + sizes.repetitions):
            run = self._run(number, sizes.small_rows)
            if number >= sizes.warm_ups:
                found[_WITH_NEW].append(run)
        write_pipeline(self.folder, (_CONDITION, _EXPECTATION))
        found[_EXPECTED].append(self._run(number + 1, sizes.small_rows))
        found[_IDLE].append(self._run(number + 2, 0))
        return _figure(found)

    def _run(self, number: int, rows: int) -> DagRun:
        run_id = f"run-{number}"
        if rows:
            write_events(self.source, number * rows, rows)
        self.api.trigger(NAME, run_id, _FIRST + timedelta(days=number))
        wait_until(lambda: self.api.run(NAME, run_id).ended, self.check, run_id, 600)
        run = self.api.run(NAME, run_id)
        if run.state != "success":
            raise RuntimeError(f"{run_id} of {NAME} ended as {run.state}: {run.tasks}")
        return run


def prepare_tasks(folder: Path, dags: Path) -> None:
    """The pipeline, its settings, and the Dag file."""
    (folder / "source").mkdir(parents=True)
    settings = write_pipeline(folder, (_CONDITION,))
    (dags / "pipeline.py").write_text(DAG_FILE.format(settings=str(settings)))


def write_pipeline(folder: Path, checks: Sequence[Mapping[str, object]]) -> Path:
    """The pipeline's file, with these checks; where its settings are."""
    content = pipeline_content(folder / "source")
    tables = content["tables"]
    assert isinstance(tables, dict)
    tables[TABLE] = tables[TABLE] | {"checks": list(checks)}
    settings, pipeline = write_settings(folder / "root", content)
    YAML().dump(content, pipeline)
    return settings


def _figure(found: Mapping[str, Sequence[DagRun]]) -> Figure:
    tasks = [one.task for one in found[_WITH_NEW][0].tasks if one.state == "success"]
    seconds = {task: {name: _seconds(runs, task) for name, runs in found.items()} for task in tasks}
    rows = [
        [task, *(spread(some) if some else "–" for some in by_run.values())]
        for task, by_run in seconds.items()
    ]
    sums = [
        sum(median(by_run[name]) for by_run in seconds.values() if by_run[name]) for name in found
    ]
    rows.append(["all of them", *(f"{one:.1f}" for one in sums)])
    told = [
        "As Airflow has it: from a task's start in its own process to its end. What stands between "
        "two tasks is the scheduler's.",
        "The table has one condition; with an expectation, Great Expectations is imported too.",
    ]

    def draw(axes: Axes) -> None:
        bars(axes, {t: {n: s for n, s in by.items() if s} for t, by in seconds.items()}, "seconds")

    columns = ("task", *(f"{name}, s" for name in found))
    title = "What each task of a pipeline's Dag takes"
    return Figure("tasks", title, columns, rows, told, {"seconds": seconds}, draw)


def _seconds(runs: Sequence[DagRun], task: str) -> list[float]:
    return [
        one.seconds
        for run in runs
        for one in run.tasks
        if one.task == task and one.seconds is not None and one.state == "success"
    ]
