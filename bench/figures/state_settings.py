"""The engine's settings for state against each other, in many short runs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from bench.drawing import bars
from bench.figure import Figure
from bench.measured import cost_of, spread
from bench.sizes import Sizes
from bench.state_runs import KEPT, ROWS
from bench.warm import RESULT

Found = Mapping[int, Sequence[Mapping[str, Any]]]


def measure(sizes: Sizes, folder: Path) -> list[Figure]:
    """Each size of state in a session of its own, the variants in turn."""
    found = {}
    for keys in sizes.settings_keys:
        place = folder / str(keys)
        asked = [str(place), "--keys", str(keys), "--runs", str(sizes.settings_runs)]
        command = [sys.executable, "-m", "bench.state_runs", *asked]
        cost_of(command, os.environ, folder / f"{keys}.log")
        found[keys] = json.loads((place / RESULT).read_text())
    return [_figure(found, sizes.settings_runs)]


def _figure(found: Found, runs: int) -> Figure:
    late = max(1, runs // 2)
    rows = [
        [
            f"{keys:,}",
            one["name"],
            spread(one["seconds"][-late:], 2),
            spread(one["cpu"][-late:], 2),
            f"{max(one['longest'])}",
            f"{one['files'][-1] - one['files'][late - 1]:+,}",
            f"{one['files'][-1]:,}",
            f"{one['bytes'] / 1e6:,.1f}",
        ]
        for keys, variants in found.items()
        for one in variants
    ]
    told = [
        f"{runs} runs of {ROWS} rows, {KEPT} kept batches; seconds and the JVM's CPU seconds are "
        f"those of the last {late}. All emit the same.",
        "The chain is what the next start replays of a partition, in deltas or changelogs; files "
        "and MB are those of the state, after the last run, and what the last half added.",
    ]

    def draw(axes: Axes) -> None:
        shown = {
            one["name"]: {
                f"{keys:,} keys": variants[at]["cpu"][-late:] for keys, variants in found.items()
            }
            for at, one in enumerate(next(iter(found.values())))
        }
        bars(axes, shown, "CPU seconds of the JVM a run", digits=2)

    columns = (
        "keys",
        "settings",
        "run, s",
        "CPU, s",
        "longest chain",
        "files, more",
        "files",
        "MB",
    )
    title = "Settings for state, in short runs"
    numbers = {str(keys): list(variants) for keys, variants in found.items()}
    return Figure("state_settings", title, columns, rows, told, numbers, draw)
