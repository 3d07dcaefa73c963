"""What a figure is: a table for people, numbers for machines, and how it is drawn."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """`columns` and `rows` are the table, `told` the sentences below it, `numbers` what goes into
    the JSON file; `draw` draws it."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    told: Sequence[str]
    numbers: Mapping[str, Any]
    draw: Callable[[Axes], None] = field(repr=False)


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


def save(figure: Figure, folder: Path) -> None:
    """`NAME.json`, `NAME.md` and `NAME.png`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{figure.name}.json").write_text(json.dumps(figure.numbers, indent=2) + "\n")
    (folder / f"{figure.name}.md").write_text(_as_markdown(figure))
    canvas = Canvas(figsize=(8, 4.5), layout="constrained")
    axes = canvas.add_subplot()
    axes.set_title(figure.title)
    figure.draw(axes)
    axes.spines[["top", "right"]].set_visible(False)
    canvas.savefig(folder / f"{figure.name}.png", dpi=120)


def _as_markdown(figure: Figure) -> str:
    """The same table, its sentences and its picture."""
    lines = [
        f"## {figure.title}",
        "",
        f"| {' | '.join(figure.columns)} |",
        f"|{'---|' * len(figure.columns)}",
        *(f"| {' | '.join(row)} |" for row in figure.rows),
        "",
        *(f"- {line}" for line in figure.told),
        "",
        f"![{figure.title}]({figure.name}.png)",
    ]
    return "\n".join(lines) + "\n"
