"""A small run beside a large gold: what it takes when a million windows are there already."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from matplotlib.axes import Axes

from bench.contenders import OURS, TUNED, Workspace, check_gold
from bench.drawing import bars
from bench.figure import Figure, Goal
from bench.inputs import write_events
from bench.measured import Cost, cost_of, median, spread
from bench.sizes import Sizes

# So many that most windows have one row: a million of them need few rows of input.
_KEYS = 20_000


def measure(sizes: Sizes, folder: Path) -> list[Figure]:
    """A first run over so many rows that gold gets the windows, then small ones, in turn."""
    source = folder / "source"
    places = {one: Workspace(source, folder / one.name) for one in (OURS, TUNED)}
    costs: dict[str, list[Cost]] = {one.name: [] for one in places}
    first = 0
    for number in range(1 + sizes.warm_ups + sizes.repetitions):
        rows = sizes.small_rows if number else sizes.large_gold_rows
        write_events(source, first, rows, keys=_KEYS)
        first += rows
        for one, place in places.items():
            log = folder / f"{one.name}.log"
            cost = cost_of(one.start(place), one.environment(place), log)
            if number > sizes.warm_ups:
                costs[one.name].append(cost)
    return [_figure(costs, sizes, check_gold(places))]


def _figure(costs: Mapping[str, list[Cost]], sizes: Sizes, windows: int) -> Figure:
    rows = [
        [
            name,
            spread([cost.wall for cost in some]),
            spread([cost.cpu for cost in some]),
            spread([cost.peak_mb for cost in some], 0),
            spread([cost.own_mb for cost in some], 0),
        ]
        for name, some in costs.items()
    ]
    memory, cpu = (
        median([getattr(cost, what) for cost in costs[OURS.name]])
        / median([getattr(cost, what) for cost in costs[TUNED.name]])
        for what in ("peak_mb", "cpu")
    )

    def draw(axes: Axes) -> None:
        found = {name: {"peak": [cost.peak_mb for cost in some]} for name, some in costs.items()}
        bars(axes, found, "megabytes", 0)

    title = f"A small run beside {windows:,} windows of gold"
    told = [
        f"{sizes.small_rows:,} new rows a run; tidemark takes {memory:.2f} of the script's memory "
        f"and {cpu:.2f} of its CPU seconds; both golds are equal."
    ]
    columns = ("contender", "wall, s", "CPU, s", "peak MB", "without files")
    numbers = {name: [vars(cost) for cost in some] for name, some in costs.items()}
    goal = Goal("small run beside a large gold: memory, tidemark / tuned", memory, 1.2)
    return Figure("large_gold", title, columns, rows, told, numbers, draw, [goal])
