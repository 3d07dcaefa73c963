"""Inventory and check of a large state, as a process of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from bench.drawing import bars
from bench.figure import Figure
from bench.large_checkpoint import write_batches
from bench.measured import Cost, cost_of, spread
from bench.sizes import Sizes

_COMMAND = "from tidemark.cli.main import app; app(prog_name='tidemark')"


def measure(sizes: Sizes, folder: Path) -> list[Figure]:
    """The command a user types, again and again; each must find the state healthy."""
    partitions, versions = sizes.checked_state
    files = write_batches(folder / "checkpoint", versions, partitions)
    show = [sys.executable, "-c", _COMMAND, "state", "show", str(folder / "checkpoint")]
    # Another verdict would be another exit code, and no cost.
    times = min(sizes.repetitions, 2)
    costs = [cost_of(show, os.environ, folder / "show.log") for _ in range(sizes.warm_ups + times)]
    return [_figure(costs[sizes.warm_ups :], sizes, files)]


def _figure(costs: Sequence[Cost], sizes: Sizes, files: int) -> Figure:
    partitions, versions = sizes.checked_state
    walls = [cost.wall for cost in costs]
    row = [
        f"{partitions:,} × {versions:,}",
        f"{files:,}",
        spread(walls),
        spread([cost.cpu for cost in costs]),
        f"{max(cost.peak_mb for cost in costs):,.0f}",
    ]
    numbers = {
        "partitions": partitions,
        "versions": versions,
        "files": files,
        "costs": [vars(cost) for cost in costs],
    }

    def draw(axes: Axes) -> None:
        cpu = [cost.cpu for cost in costs]
        bars(axes, {f"{files:,} files": {"wall": walls, "CPU": cpu}}, "seconds")

    columns = ("partitions × versions", "files", "wall, s", "CPU, s", "peak MB")
    told = [
        "The whole command `tidemark state show`: start, one listing, the inventory of every "
        "partition, the check. Half of the files are checksums; every tenth version is a snapshot "
        "as well."
    ]
    title = "The state check on a large state, without a JVM"
    return Figure("state_check", title, columns, [row], told, numbers, draw)
