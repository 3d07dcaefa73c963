"""Many small pipelines by one `tidemark run`, which starts Spark once, beside one of them alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pyarrow as pa
from matplotlib.axes import Axes

from bench.contenders import (
    OUR_COMMAND,
    Contender,
    Workspace,
    check_gold,
    gold_of,
    our_command,
    pipeline_content,
    write_settings,
)
from bench.drawing import bars
from bench.figure import Figure, Goal
from bench.inputs import write_events
from bench.measured import Cost, cost_of, median, spread
from bench.sizes import Sizes

# CPU seconds of each, of those of one alone, by how many there are: the most that it shall be.
_GOALS = {10: 0.25, 100: 0.12}


def measure(sizes: Sizes, folder: Path) -> list[Figure]:
    """On each small input one pipeline alone, and all in one command; all read the same files."""
    source, names = folder / "source", [f"p{number:03}" for number in range(sizes.many)]
    alone, together = (Workspace(source, folder / name) for name in ("alone", "together"))
    lone: list[Cost] = []
    shared: list[Cost] = []
    for number in range(sizes.warm_ups + sizes.repetitions):
        write_events(source, number * sizes.small_rows, sizes.small_rows)
        costs = _alone(alone), _together(together, names)
        if number >= sizes.warm_ups:
            lone.append(costs[0])
            shared.append(costs[1])
    golds: dict[Contender, Workspace] = {OUR_COMMAND: alone}
    for name in names:
        gold = partial(_gold, name)
        golds[Contender(name, OUR_COMMAND.start, OUR_COMMAND.environment, gold)] = together
    windows = check_gold(golds)
    return [_figure({1: lone, sizes.many: shared}, sizes, windows)]


def _alone(place: Workspace) -> Cost:
    log = place.root / "runs.log"
    return cost_of(OUR_COMMAND.start(place), OUR_COMMAND.environment(place), log)


def _together(place: Workspace, names: list[str]) -> Cost:
    for name in names:
        settings, pipeline = write_settings(place.root, pipeline_content(place.source), name)
    command = [*our_command(place, "run", settings, pipeline), "--folder", str(pipeline.parent)]
    command.remove(str(pipeline))
    return cost_of(command, OUR_COMMAND.environment(place), place.root / "runs.log")


def _gold(name: str, place: Workspace) -> pa.Table:
    return gold_of(place, name)


def _figure(costs: Mapping[int, list[Cost]], sizes: Sizes, windows: int) -> Figure:
    cpu = {number: median([cost.cpu for cost in some]) / number for number, some in costs.items()}
    wall = {number: median([cost.wall for cost in some]) / number for number, some in costs.items()}
    rows = [
        [
            f"{number}",
            spread([cost.wall for cost in some]),
            spread([cost.cpu for cost in some]),
            f"{wall[number]:.1f}",
            f"{cpu[number]:.1f}",
            f"{cpu[number] / cpu[1]:.2f}",
            spread([cost.peak_mb for cost in some], 0),
        ]
        for number, some in costs.items()
    ]
    share = cpu[sizes.many] / cpu[1]
    told = [
        f"Of {sizes.many} pipelines each takes {share:.2f} of the CPU seconds and "
        f"{wall[sizes.many] / wall[1]:.2f} of the time of one alone.",
        f"{sizes.small_rows:,} new rows for each in each run; all golds equal ({windows:,} "
        "windows).",
    ]
    columns = (
        "pipelines", "wall, s", "CPU, s", "wall of each, s", "CPU of each, s", "CPU / alone",
        "peak MB",
    )  # fmt: skip
    numbers = {str(number): [vars(cost) for cost in some] for number, some in costs.items()}

    def draw(axes: Axes) -> None:
        found = {
            f"{number} together" if number > 1 else "alone": {
                "wall": [cost.wall / number for cost in some],
                "CPU": [cost.cpu / number for cost in some],
            }
            for number, some in costs.items()
        }
        bars(axes, found, "seconds of each")

    title = f"{sizes.many} small pipelines by one command"
    goals = [
        Goal(f"{sizes.many} pipelines: CPU seconds of each / of one alone", share, limit)
        for number, limit in _GOALS.items()
        if number == sizes.many
    ]
    return Figure("many", title, columns, rows, told, numbers, draw, goals)
