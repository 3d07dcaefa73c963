"""Rows per second from JSON to gold, and the peak memory, at several sizes of input."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes

from bench.contenders import (
    DUCKDB,
    OURS_BOTH,
    OURS_C1,
    POLARS,
    TUNED_BOTH,
    TUNED_C1,
    Contender,
    Workspace,
    check_gold,
)
from bench.drawing import bars
from bench.figure import Figure, Goal
from bench.inputs import write_events
from bench.measured import Cost, cost_of, median, spread
from bench.sizes import Sizes

_OURS, _TUNED = (OURS_C1, OURS_BOTH), (TUNED_C1, TUNED_BOTH)
_ALL = (*_OURS, *_TUNED, DUCKDB, POLARS)


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


def _best(some: Sequence[Contender], seen: Mapping[str, float]) -> float:
    return min(seen[one.name] for one in some)


def _most_cpu(rows: int) -> float:
    return 0.75 if rows < 5_000_000 else 0.6


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
        cpu = {name: median([cost.cpu for cost in some]) for name, some in costs.items()}
        # Each at its own best: which of the JVM's compilers serves it is its author's to find.
        of_wall, of_cpu = (_best(_OURS, seen) / _best(_TUNED, seen) for seen in (wall, cpu))
        told.append(
            f"{size:,} rows, each at its best: tidemark takes {of_cpu:.2f} of tuned's CPU seconds "
            f"and {of_wall:.2f} of its time, {_best(_OURS, wall) / wall[DUCKDB.name]:.1f} times "
            "DuckDB's."
        )
        goals.append(Goal(f"{size:,} rows: CPU s, tidemark / tuned", of_cpu, _most_cpu(size)))
        goals.append(Goal(f"{size:,} rows: wall s, tidemark / tuned", of_wall, 1.0))
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
