"""Rows per second from JSON to gold, and the peak memory, at several sizes of input."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from matplotlib.axes import Axes

from bench.contenders import DUCKDB, OURS, POLARS, TUNED, Workspace, check_gold
from bench.drawing import bars
from bench.figure import Figure, Goal
from bench.inputs import write_events
from bench.measured import Cost, cost_of, median, spread
from bench.sizes import Sizes

_ALL = (OURS, TUNED, DUCKDB, POLARS)


def measure(sizes: Sizes, folder: Path) -> list[Figure]:
    """Each size anew for each contender and repetition, in turn."""
    found: dict[int, dict[str, list[Cost]]] = {}
    for rows, repetitions in sizes.throughput:
        source = folder / f"source-{rows}"
        write_events(source, 0, rows)
        costs: dict[str, list[Cost]] = {one.name: [] for one in _ALL}
        for number in range(repetitions):
            places = {one: Workspace(source, folder / f"{rows}-{one.name}") for one in _ALL}
            for one, place in places.items():
                shutil.rmtree(place.root, ignore_errors=True)
                log = folder / f"{rows}-{number}-{one.name}.log"
                costs[one.name].append(cost_of(one.start(place), one.environment(place), log))
            check_gold(places)
        found[rows] = costs
    return [_figure(found)]


def _figure(found: Mapping[int, Mapping[str, list[Cost]]]) -> Figure:
    rows, told, goals = [], [], []
    rates: dict[str, dict[str, list[float]]] = {one.name: {} for one in _ALL}
    for size, costs in found.items():
        wall = {name: median([cost.wall for cost in some]) for name, some in costs.items()}
        for name, some in costs.items():
            rates[name][f"{size:,} rows"] = [size / cost.wall for cost in some]
            rows.append(
                [
                    f"{size:,}",
                    name,
                    spread([cost.wall for cost in some]),
                    f"{size / wall[name]:,.0f}",
                    spread([cost.cpu for cost in some]),
                    f"{max(cost.peak_mb for cost in some):,.0f}",
                ]
            )
        of_tuned = wall[TUNED.name] / wall[OURS.name]
        told.append(
            f"{size:,} rows: tidemark does {of_tuned:.2f} of tuned's "
            f"rows/s, 1/{wall[OURS.name] / wall[DUCKDB.name]:.1f} of DuckDB's."
        )
        goals.append(Goal(f"{size:,} rows: rows/s, tidemark / tuned", of_tuned, 0.9, True))
    numbers = {
        str(size): {name: [vars(cost) for cost in some] for name, some in costs.items()}
        for size, costs in found.items()
    }

    def draw(axes: Axes) -> None:
        bars(axes, rates, "rows per second (logarithmic)", digits=0)
        axes.set_xscale("log")

    columns = ("rows", "contender", "wall, s", "rows/s", "CPU, s", "peak MB")
    title = "From JSON to bronze and gold, all at once"
    return Figure("throughput", title, columns, rows, told, numbers, draw, goals)
