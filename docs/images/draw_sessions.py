"""Draw `sessions.png`: `python docs/images/draw_sessions.py`.

The stories are two of `tests/operators/session_stories.py`, whose tests run them: the gap is 6
minutes, the watermark 10 minutes behind the newest row.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

IN_TIME, LATE, WRONG, RIGHT = "#4c78a8", "#e45756", "#f2a6a0", "#72b7b2"
Session = tuple[float, float, int]


def draw(
    axes: Any,
    title: str,
    rows: Sequence[float],
    later: float,
    engine: Sequence[Session],
    gold: Session,
    said: str,
) -> None:
    """Rows as points, above what the engine emits, above gold."""
    axes.plot(rows, [3] * len(rows), "o", color=IN_TIME, markersize=8)
    axes.plot([later], [3], "D", color=LATE, markersize=9)
    axes.annotate(said, (later, 3), (0, 12), textcoords="offset points", ha="center", color=LATE)
    for number, session in enumerate(engine):
        bar(axes, session, 2 - 0.36 * number, WRONG)
    bar(axes, gold, 0.8, RIGHT)
    axes.set_title(title, loc="left")
    axes.set_yticks([3, 2 - 0.18 * (len(engine) - 1), 0.8], ["rows of a key", "engine", "gold"])
    axes.set_ylim(0.4, 3.7)
    axes.set_xlim(gold[0] - 2, gold[1] + 1)
    axes.set_xlabel("minutes")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)


def bar(axes: Any, session: Session, at: float, color: str) -> None:
    start, end, rows = session
    axes.barh(at, end - start, left=start, height=0.3, color=color)
    axes.text((start + end) / 2, at, f"{rows} rows", ha="center", va="center")


def main() -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
    draw(
        left,
        "Late by itself, its session open",
        (0, 5, 10, 15, 20),
        3,
        [(0, 26, 5)],
        (0, 26, 6),
        "dropped at watermark 20",
    )
    draw(
        right,
        "In time, its session emitted",
        (25, 33),
        28,
        [(25, 31, 1), (28, 39, 2)],
        (25, 39, 3),
        "kept at watermark 31",
    )
    figure.savefig(Path(__file__).with_name("sessions.png"), dpi=110)


if __name__ == "__main__":
    main()
