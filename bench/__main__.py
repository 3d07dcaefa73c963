"""`python -m bench`: measure the platform beside its rivals; tables, JSON files and pictures.

python -m bench [--size usual|long|smallest] [--figures NAME …] [--folder FOLDER]
"""

from __future__ import annotations

import shutil
import time
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from bench.contenders import REPOSITORY
from bench.figure import Figure, save, show
from bench.figures import (
    airflow,
    cores,
    doctor,
    fixed_cost,
    growth,
    late_repair,
    publish,
    settings,
    state,
    state_check,
    throughput,
)
from bench.report import write_report
from bench.sizes import LONG, SMALLEST, USUAL, Sizes

Measure = Callable[[Sizes, Path], list[Figure]]
FIGURES: dict[str, Measure] = {
    "fixed_cost": fixed_cost.measure,
    "settings": settings.measure,
    "airflow": airflow.measure,
    "growth": growth.measure,
    "throughput": throughput.measure,
    "late_repair": late_repair.measure,
    "cores": cores.measure,
    "state": state.measure,
    "publish": publish.measure,
    "doctor": doctor.measure,
    "state_check": state_check.measure,
}
# In the order of the page; the first figure is told as two.
FIGURES_TOLD = ("fixed_cost", "steps", *list(FIGURES)[1:])
SIZES = {"usual": USUAL, "long": LONG, "smallest": SMALLEST}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure the figures that are asked for, one after the other."""
    parser = ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="usual")
    parser.add_argument("--figures", nargs="+", choices=FIGURES, help="default: all of the size")
    parser.add_argument("--folder", type=Path, default=REPOSITORY / ".tidemark" / "bench")
    given = parser.parse_args(argv)
    console = Console()
    sizes = SIZES[given.size]
    for name in given.figures or [name for name in FIGURES if name not in sizes.left_out]:
        begin = time.monotonic()
        for figure in measured(name, sizes, given.folder.resolve()):
            show(figure, console)
        console.print(f"  ({name}: {time.monotonic() - begin:.0f} s)\n", style="dim")
    console.print(f"All of it, with pictures: {write_report(given.folder, FIGURES_TOLD)}")


def measured(name: str, sizes: Sizes, folder: Path) -> list[Figure]:
    """One figure, from an empty folder; its numbers and picture are saved in `folder`."""
    work = folder / "work" / name
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    figures = FIGURES[name](sizes, work)
    for figure in figures:
        save(figure, folder)
    shutil.rmtree(work.parent)
    return figures


if __name__ == "__main__":
    main()
