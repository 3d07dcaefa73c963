"""Publishing many changed windows: all new, then every one of them changed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from matplotlib.axes import Axes

from bench.drawing import bars
from bench.figure import Figure
from bench.measured import Cost, cost_of
from bench.sizes import Sizes

_WHAT = {"new": "all new, into empty gold", "changed": "all changed"}


def measure(sizes: Sizes, folder: Path) -> list[Figure]:
    """Each publish is a process of its own, so that its peak memory is its own too."""
    costs: dict[str, Cost] = {}
    for what in _WHAT:
        for step in ("write", "publish"):
            job = [sys.executable, "-m", "bench.publishing", step, what]
            command = [*job, str(folder), str(sizes.published_windows)]
            costs[f"{step} {what}"] = cost_of(command, os.environ, folder / "publish.log")
    return [_figure({what: costs[f"publish {what}"] for what in _WHAT}, sizes)]


def _figure(costs: dict[str, Cost], sizes: Sizes) -> Figure:
    windows = sizes.published_windows
    rows = [
        [
            _WHAT[what],
            f"{c.wall:.1f}",
            f"{c.cpu:.1f}",
            f"{windows / c.wall:,.0f}",
            f"{c.peak_mb:,.0f}",
        ]
        for what, c in costs.items()
    ]
    numbers = {what: vars(cost) for what, cost in costs.items()}

    def draw(axes: Axes) -> None:
        found = {_WHAT[what]: {"wall": [c.wall], "CPU": [c.cpu]} for what, c in costs.items()}
        bars(axes, found, "seconds")

    columns = (f"{windows:,} windows", "wall, s", "CPU, s", "windows/s", "peak MB")
    return Figure("publish", "One publish, without a JVM", columns, rows, [], numbers, draw)
