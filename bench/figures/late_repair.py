"""A thousand late rows on a small and on a large history, beside a full refresh of the table; and
what it costs to take them back."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from bench.drawing import bars
from bench.figure import Figure, Goal
from bench.measured import cost_of, median, spread
from bench.repairing import LATE_ROWS
from bench.sizes import Sizes
from bench.warm import RESULT
from tidemark.pipeline.settings.jvm import LARGE_BYTES, jvm_variables


def measure(sizes: Sizes, folder: Path) -> list[Figure]:
    """Both histories in one warm session, so that only the repair itself is compared."""
    given = ["--rows", *map(str, sizes.history), "--repetitions", str(sizes.late_repetitions)]
    command = [sys.executable, "-m", "bench.repairing", str(folder), *given]
    # As for any large input, both of the JVM's compilers.
    environment = os.environ | jvm_variables(os.environ, LARGE_BYTES)
    cost_of(command, environment, folder / "late_repair.log")
    return [_figure(json.loads((folder / RESULT).read_text()))]


def _figure(measured: Sequence[Mapping[str, Any]]) -> Figure:
    small, large = measured
    rows = [
        [
            f"{one['rows']:,}",
            spread(one["repair"], 2),
            f"{one['files_read']} of {one['files']}",
            spread(one["refresh"], 2),
            f"{median(one['refresh']) / median(one['repair']):.1f}",
            spread(one["run"], 2),
            spread(one["retraction"], 2),
        ]
        for one in measured
    ]
    repair, refresh = (median(large[w]) / median(small[w]) for w in ("repair", "refresh"))
    retraction = median(large["retraction"]) / median(large["run"])
    told = [
        f"{large['rows'] / small['rows']:.0f} times the history: repair takes {repair:.2f} times "
        f"as long, a full refresh {refresh:.2f} times.",
        f"To take the rows back again costs {retraction:.2f} times what the run cost that repaired "
        f"them, in the {large['rows']:,} rows of the large history.",
    ]

    def draw(axes: Axes) -> None:
        found = {
            f"{one['rows']:,} rows\nin bronze": {
                "late repair": one["repair"],
                "full refresh": one["refresh"],
            }
            for one in measured
        }
        bars(axes, found, "seconds")

    columns = (
        "rows in bronze", "repair, s", "files opened", "full refresh, s", "refresh / repair",
        "its run, s", "retraction, s",
    )  # fmt: skip
    title = f"Repairing {LATE_ROWS:,} late rows"
    goals = [
        Goal("late repair: time, 10 times the history / the history", repair, 1.3),
        Goal("retraction / the run that repaired the rows", retraction, 2),
    ]
    numbers = {"measured": list(measured)}
    return Figure("late_repair", title, columns, rows, told, numbers, draw, goals)
