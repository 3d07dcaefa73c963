"""Publishing many changed windows: all new, then every one of them changed; and a few of a date."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from matplotlib.axes import Axes

from bench.drawing import bars
from bench.figure import Figure
from bench.measured import Cost, cost_of
from bench.publishing import BOUNDED
from bench.sizes import Sizes

_WHAT = {
    "new": "all new, into empty gold",
    "changed": "all changed",
    "bounded": f"all changed, `memory_limit: {BOUNDED}`",
}
_FEW = {"spans": "spans of time", "dates": "whole dates, as versions before did"}


def measure(sizes: Sizes, folder: Path) -> list[Figure]:
    """Each publish is a process of its own, so that its peak memory is its own too."""
    costs: dict[str, Cost] = {}
    for what in _WHAT:
        for step in ("write", "publish"):
            job = [sys.executable, "-m", "bench.publishing", step, what]
            command = [*job, str(folder), str(sizes.published_windows)]
            costs[f"{step} {what}"] = cost_of(command, os.environ, folder / "publish.log")
    few, windows = dict[str, dict[str, float]](), sizes.windows_of_a_date
    for how in _FEW:
        own = folder / how
        own.mkdir()
        command = [sys.executable, "-m", "bench.publishing", "few", how, str(own), str(windows)]
        cost = cost_of(command, os.environ, folder / "publish.log")
        few[how] = json.loads((own / "few.json").read_text()) | {"peak_mb": cost.peak_mb}
    return [
        _figure({what: costs[f"publish {what}"] for what in _WHAT}, sizes),
        _figure_of_few(few, windows),
    ]


def _figure_of_few(found: dict[str, dict[str, float]], windows: int) -> Figure:
    rows = [
        [
            _FEW[how],
            f"{one['cpu']:.2f}",
            f"{one['written'] / 1e6:.2f}",
            f"{one['written'] / one['changed']:.1f}",
            f"{one['written'] * 1_008 / 1e9:.2f}",
            f"{one['peak_mb']:,.0f}",
        ]
        for how, one in found.items()
    ]

    def draw(axes: Axes) -> None:
        bars(axes, {_FEW[how]: {"MB": [one["written"] / 1e6]} for how, one in found.items()}, "MB")

    columns = (
        f"{windows // 500:,} of {windows:,} windows of a date change; what is replaced",
        *("CPU, s", "MB written", "of what changed", "a week of 1,008 runs, GB", "peak MB"),
    )
    title = "A few windows of a date"
    return Figure("publish_few", title, columns, rows, [], {"publish": found}, draw)


def _figure(costs: dict[str, Cost], sizes: Sizes) -> Figure:
    windows = sizes.published_windows
    rows = [
        [
            _WHAT[what],
            f"{c.wall:.1f}",
            f"{c.cpu:.1f}",
            f"{windows / c.wall:,.0f}",
            f"{c.peak_mb:,.0f}",
            f"{c.own_mb:,.0f}",
        ]
        for what, c in costs.items()
    ]
    numbers = {what: vars(cost) for what, cost in costs.items()}

    def draw(axes: Axes) -> None:
        found = {_WHAT[what]: {"wall": [c.wall], "CPU": [c.cpu]} for what, c in costs.items()}
        bars(axes, found, "seconds")

    columns = (f"{windows:,} windows", "wall, s", "CPU, s", "windows/s", "peak MB", "without files")
    return Figure("publish", "One publish, without a JVM", columns, rows, [], numbers, draw)
