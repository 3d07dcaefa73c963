"""What a figure is: a table for people, numbers for machines, and how it is drawn."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Goal:
    """What a figure shall reach: a measured number that is at most, or at least, a limit."""

    what: str
    measured: float
    limit: float
    at_least: bool = False

    @property
    def reached(self) -> bool:
        if self.at_least:
            return self.measured >= self.limit
        return self.measured <= self.limit


@dataclass(frozen=True)
class Figure:
    """`columns` and `rows` are the table, `told` the sentences below it, `numbers` those of every
    repetition; `draw` draws it."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    told: Sequence[str]
    numbers: Mapping[str, Any]
    draw: Callable[[Axes], None] = field(repr=False)
    goals: Sequence[Goal] = ()


def show(figure: Figure, console: Console) -> None:
    """The table and its sentences on the terminal."""
    table = Table(title=figure.title, box=SIMPLE, show_edge=False, title_justify="left")
    for number, name in enumerate(figure.columns):
        # A narrow terminal breaks a cell, and cuts none off.
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in figure.rows:
        table.add_row(*row)
    console.print(table)
    for line in figure.told:
        console.print(f"  {line}", highlight=False)
    console.print()


def save(figure: Figure, folder: Path, machine: str, seconds: int) -> None:
    """`NAME.json`, which has all that the page tells, and `NAME.png`; `seconds`: to measure it."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "title": figure.title,
        "machine": machine,
        "seconds": seconds,
        "columns": figure.columns,
        "rows": figure.rows,
        "told": figure.told,
        "goals": [asdict(goal) for goal in figure.goals],
        "numbers": figure.numbers,
    }
    (folder / f"{figure.name}.json").write_text(json.dumps(content, indent=2) + "\n")
    canvas = Canvas(figsize=(8, 4.5), layout="constrained")
    axes = canvas.add_subplot()
    axes.set_title(figure.title)
    figure.draw(axes)
    axes.spines[["top", "right"]].set_visible(False)
    canvas.savefig(folder / f"{figure.name}.png", dpi=120)
