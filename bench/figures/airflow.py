"""What Airflow adds: the time of tasks that do nothing, in a Dag of one and of six, and then that
of a pipeline's own tasks."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from matplotlib.axes import Axes
from rich.console import Console

from bench.drawing import bars
from bench.figure import Figure
from bench.figures.tasks import TaskBench, prepare_tasks
from bench.measured import median, spread
from bench.sizes import Sizes
from demo.api import AirflowApi
from demo.environment import airflow_environment, prepare_home, set_up_environment
from demo.running import running_airflow
from demo.runs import wait_until
from demo.screen import Screen
from demo.services import Services

_TASKS = (1, 6)
_FIRST = datetime(2026, 1, 1, tzinfo=UTC)
_DAGS = f"""
from airflow.sdk import DAG, chain, task

for count in {_TASKS}:
    with DAG(f"tasks_{{count}}", schedule=None):

        @task
        def nothing():
            pass

        chain(*(nothing.override(task_id=f"task_{{n}}")() for n in range(count)))
"""


def measure(sizes: Sizes, folder: Path) -> list[Figure]:
    """Dag runs in turn, on an Airflow of its own (SQLite, LocalExecutor)."""
    dags = folder / "dags"
    dags.mkdir(parents=True)
    (dags / "empty_tasks.py").write_text(_DAGS)
    prepare_tasks(folder / "pipeline", dags)
    home = prepare_home(folder / "airflow")
    environment = airflow_environment(set_up_environment(), home, quick=True)
    environment["AIRFLOW__CORE__DAGS_FOLDER"] = str(dags)
    # The scheduler as it comes; only new Dag files are found quicker.
    del environment["AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME"]
    found: dict[int, list[float]] = {count: [] for count in _TASKS}
    with (
        Path(os.devnull).open("w") as nowhere,
        running_airflow(Screen(Console(file=nowhere)), home, environment) as (services, api),
    ):
        for count in _TASKS:
            wait_until(lambda c=count: api.knows(_dag(c)), services.check, _dag(count), 120)
            api.unpause(_dag(count))
        for number in range(sizes.warm_ups + sizes.repetitions):
            for count in _TASKS:
                seconds = _seconds(services, api, count, number)
                if number >= sizes.warm_ups:
                    found[count].append(seconds)
        tasks = TaskBench(folder / "pipeline", api, services.check).measure(sizes)
    return [_figure(found), tasks]


def _dag(count: int) -> str:
    return f"tasks_{count}"


def _seconds(services: Services, api: AirflowApi, count: int, number: int) -> float:
    run_id = f"run-{number}"
    begin = time.monotonic()
    api.trigger(_dag(count), run_id, _FIRST + timedelta(days=number))
    wait_until(lambda: api.run(_dag(count), run_id).ended, services.check, run_id, 300)
    return time.monotonic() - begin


def _told(count: int) -> str:
    return "1 empty task" if count == 1 else f"{count} empty tasks in a row"


def _figure(found: Mapping[int, Sequence[float]]) -> Figure:
    few, many = _TASKS
    each = (median(found[many]) - median(found[few])) / (many - few)
    rows = [[_told(count), spread(seconds)] for count, seconds in found.items()]
    told = [f"Each task more: {each:.1f} s, most of it a new Python process that loads Airflow."]

    def draw(axes: Axes) -> None:
        lying = {_told(count): {"wall": seconds} for count, seconds in found.items()}
        bars(axes, lying, "seconds of the Dag run")

    numbers = {"seconds": {str(count): list(s) for count, s in found.items()}, "each": each}
    columns = ("Dag run", "wall, s")
    return Figure("airflow", "What Airflow adds", columns, rows, told, numbers, draw)
