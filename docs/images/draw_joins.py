"""Draw `joins.png`: `python docs/images/draw_joins.py`.

Left: a click that is late by itself, of an impression whose window is open; a story of
`tests/operators/contract/test_joins.py`. Right: five runs that bring rows of one side, or of both.
The engine's watermark moves to the least over the sides of (newest row of this run - delay), and
only in a run that brings rows of each; with clock rows it is the least over both bronzes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

IN_TIME, LATE, WRONG, RIGHT = "#4c78a8", "#e45756", "#f2a6a0", "#72b7b2"
DELAY = 10
# Event times that each run brings: of impressions, of clicks; minutes.
RUNS = (((5,), (6,)), ((30, 35), ()), ((), (34, 40)), ((50,), ()), ((60,), (12,)))


def late_match(axes: Any) -> None:
    axes.plot([3], [3], "o", color=IN_TIME, markersize=8)
    axes.text(3, 3.22, "impression", ha="center", color=IN_TIME)
    axes.plot([6], [3], "D", color=LATE, markersize=9)
    axes.annotate("click, dropped", (6, 3), (0, 11), textcoords="offset points", color=LATE)
    axes.axvline(8, color="grey", linestyle=":", linewidth=1)
    axes.text(8.15, 1.42, "watermark", color="grey")
    for at, color, said in (
        (2, WRONG, "1 impression, no click"),
        (1, RIGHT, "1 impression, 1 click"),
    ):
        axes.barh(at, 10, left=0, height=0.36, color=color)
        axes.text(5, at, said, ha="center", va="center")
    axes.set_title("A click late by itself, its window open", loc="left")
    axes.set_yticks([3, 2, 1], ["rows", "engine", "gold"])
    axes.set_ylim(0.6, 3.6)
    axes.set_xlim(-0.5, 11.5)
    axes.set_xlabel("minutes")


def watermarks() -> tuple[list[int | None], list[int | None]]:
    """After each run: the engine's by itself, and that by clock rows."""
    engine: int | None = None
    alone: list[int | None] = []
    clocked: list[int | None] = []
    newest: list[int | None] = [None, None]
    for sides in RUNS:
        if all(sides):
            engine = max(engine or 0, min(max(side) for side in sides) - DELAY, 0)
        alone.append(engine)
        newest = [
            max([*side, *([] if old is None else [old])], default=None)
            for side, old in zip(sides, newest, strict=True)
        ]
        both = [one for one in newest if one is not None]
        clocked.append(max(min(both) - DELAY, 0) if len(both) == len(newest) else None)
    return alone, clocked


def silent_sides(axes: Any) -> None:
    numbers = range(1, len(RUNS) + 1)
    for number, sides in zip(numbers, RUNS, strict=True):
        for side, marker, said in ((0, "o", "impressions"), (1, "s", "clicks")):
            axes.plot(
                [number] * len(sides[side]),
                sides[side],
                marker,
                color=IN_TIME,
                alpha=0.45,
                label=said if number == 1 else None,
            )
    alone, clocked = watermarks()
    axes.step(numbers, alone, where="mid", color=LATE, label="watermark, the engine alone")
    axes.step(numbers, clocked, where="mid", color=RIGHT, label="watermark with clock rows")
    axes.set_title("Sides that come in turn, by run", loc="left")
    axes.set_xticks(list(numbers))
    axes.set_xlabel("run")
    axes.set_ylabel("event time, minutes")
    axes.legend(frameon=False, fontsize=8, loc="upper left")


def main() -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
    late_match(left)
    silent_sides(right)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    left.spines["left"].set_visible(False)
    left.tick_params(axis="y", length=0)
    figure.savefig(Path(__file__).with_name("joins.png"), dpi=110)


if __name__ == "__main__":
    main()
