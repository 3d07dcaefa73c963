"""The same run on a long chain of deltas, and on its compacted copy."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from bench.compacting import KEYS
from bench.drawing import bars
from bench.figure import Figure
from bench.measured import cost_of, median, spread
from bench.sizes import Sizes
from bench.warm import RESULT


def measure(sizes: Sizes, folder: Path) -> list[Figure]:
    """Both stores in one warm session."""
    asked = ["--chain", str(sizes.chain), "--repetitions", str(sizes.chain_repetitions)]
    command = [sys.executable, "-m", "bench.compacting", str(folder), *asked]
    cost_of(command, os.environ, folder / "compaction.log")
    return [_figure(json.loads((folder / RESULT).read_text()))]


def _figure(measured: Sequence[Mapping[str, Any]]) -> Figure:
    rows = [
        [
            one["store"],
            f"{one['chain']}",
            spread(one["long"], 2),
            spread(one["compacted"], 2),
            f"{median(one['long']) - median(one['compacted']):+.2f}",
            f"{one['compaction']:.2f}",
        ]
        for one in measured
    ]

    def draw(axes: Axes) -> None:
        found = {
            one["store"]: {"on the chain": one["long"], "compacted": one["compacted"]}
            for one in measured
        }
        bars(axes, found, "seconds of the query", digits=2)

    columns = ("store", "chain", "on the chain, s", "compacted, s", "more, s", "compaction, s")
    title = "What a compaction is worth"
    told = [
        f"{KEYS:,} keys in four partitions; the query of a run that reads one small file, in a "
        "warm session whose stores hold nothing. Both emit the same.",
        "A compaction has the engine write the snapshots, and reads the state before and after.",
    ]
    numbers = {"measured": list(measured)}
    return Figure("compaction", title, columns, rows, told, numbers, draw)
