"""The checkpoint doctor on a large checkpoint, as a process of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from bench.drawing import bars
from bench.figure import Figure
from bench.large_checkpoint import write_checkpoint
from bench.measured import Cost, cost_of, median, spread
from bench.sizes import Sizes

_COMMAND = "from tidemark.cli.main import app; app(prog_name='tidemark')"


def measure(sizes: Sizes, folder: Path) -> list[Figure]:
    """The command a user types, on one checkpoint, again and again; each must find it clean."""
    files = write_checkpoint(folder / "checkpoint", sizes.checkpoint_files)
    doctor = [sys.executable, "-c", _COMMAND, "checkpoint", "doctor", str(folder / "checkpoint")]
    log = folder / "doctor.log"
    # A damaged verdict would be another exit code, and no cost.
    times = min(sizes.repetitions, 2)
    costs = [cost_of(doctor, os.environ, log) for _ in range(sizes.warm_ups + times)]
    return [_figure(costs[sizes.warm_ups :], files)]


def _figure(costs: Sequence[Cost], files: int) -> Figure:
    walls = [cost.wall for cost in costs]
    row = [
        f"{files:,}",
        spread(walls),
        spread([cost.cpu for cost in costs]),
        f"{files / median(walls):,.0f}",
        f"{max(cost.peak_mb for cost in costs):,.0f}",
    ]
    numbers = {"files": files, "costs": [vars(cost) for cost in costs]}

    def draw(axes: Axes) -> None:
        cpu = [cost.cpu for cost in costs]
        bars(axes, {f"{files:,} files": {"wall": walls, "CPU": cpu}}, "seconds")

    columns = ("files", "wall, s", "CPU, s", "files/s", "peak MB")
    told = [
        "The whole command: start, one listing, what a start reads, the verdict. Of the files, "
        "nine in ten are the state of 20 partitions, and half are checksums."
    ]
    title = "The doctor on a large checkpoint, without a JVM"
    return Figure("doctor", title, columns, [row], told, numbers, draw)
