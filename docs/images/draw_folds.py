"""Draw `folds.png`: `python docs/images/draw_folds.py`.

A visitor meets an error and comes back, as the sample `after_errors` folds it: once with all rows
in time, once with a row that comes late and joins two episodes. The timeout is 30 minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

GOOD, ERROR, EPISODE, OUTPUT, GONE = "#4c78a8", "#e45756", "#d9e3ee", "#72b7b2", "#bbbbbb"
Row = tuple[float, bool]


def rows(axes: Any, at: float, given: Sequence[Row], late: float | None = None) -> None:
    for time, fails in given:
        marker = "D" if time == late else "o"
        axes.plot([time], [at], marker, color=ERROR if fails else GOOD, markersize=8, zorder=3)


def episode(axes: Any, at: float, start: float, end: float) -> None:
    axes.barh(at, end - start + 6, left=start - 3, height=0.5, color=EPISODE, zorder=1)


def output(axes: Any, at: float, time: float, said: str, color: str = OUTPUT) -> None:
    axes.plot([time], [at], "v", color=color, markersize=9, zorder=3)
    axes.annotate(
        said, (time, at), (0, -13), textcoords="offset points", ha="center", va="top", color="black"
    )


def main() -> None:
    figure, axes = plt.subplots(figsize=(9, 3), layout="constrained")
    first: list[Row] = [(0, False), (8, True), (60, False), (75, False)]
    episode(axes, 3, 0, 8)
    episode(axes, 3, 60, 75)
    rows(axes, 3, first)
    output(axes, 2.55, 38, "left, at the timeout", GONE)
    whole = sorted([*first, (34, True)])
    episode(axes, 1.2, 0, 75)
    rows(axes, 1.2, whole, late=34)
    axes.annotate("late", (34, 1.2), (0, 10), textcoords="offset points", ha="center", color=ERROR)
    output(axes, 0.75, 60, "came back after 52 minutes, 2 tries")
    axes.set_yticks([3, 1.2], ["in time", "with the late row"])
    axes.set_ylim(-0.1, 3.7)
    axes.set_xlim(-5, 82)
    axes.set_xlabel(
        "minutes of one visitor; red: an error; a band: an episode; a triangle: an output"
    )
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_title("A late row folds the episode again: one output goes, another comes", loc="left")
    figure.savefig(Path(__file__).with_name("folds.png"), dpi=110)


if __name__ == "__main__":
    main()
