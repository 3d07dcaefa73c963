"""`python -m bench`: measure the platform beside its rivals; tables, JSON files and pictures.

python -m bench [--size usual|long|smallest] [--figures NAME …] [--folder FOLDER] [--many N]
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from bench.contenders import REPOSITORY
from bench.figure import Figure, save, show
from bench.figures import (
    airflow,
    cluster,
    compaction,
    cores,
    doctor,
    fixed_cost,
    formats,
    growth,
    judging,
    kafka,
    large_gold,
    late_repair,
    many,
    messages,
    migration,
    operators,
    page,
    publish,
    settings,
    state,
    state_check,
    state_settings,
    throughput,
)
from bench.report import machine, write_report
from bench.sizes import LONG, SMALLEST, USUAL, Sizes

Measure = Callable[[Sizes, Path], list[Figure]]
FIGURES: dict[str, Measure] = {
    "fixed_cost": fixed_cost.measure,
    "many": many.measure,
    "settings": settings.measure,
    "airflow": airflow.measure,
    "growth": growth.measure,
    "throughput": throughput.measure,
    "judging": judging.measure,
    "formats": formats.measure,
    "kafka": kafka.measure,
    "messages": messages.measure,
    "late_repair": late_repair.measure,
    "sessions": operators.sessions,
    "joins": operators.joins,
    "folds": operators.folds,
    "days": operators.days,
    "distinct": operators.distinct,
    "lookup": operators.lookup,
    "large_lookup": operators.large_lookup,
    "migration": migration.measure,
    "cores": cores.measure,
    "cluster": cluster.measure,
    "state": state.measure,
    "publish": publish.measure,
    "large_gold": large_gold.measure,
    "doctor": doctor.measure,
    "page": page.measure,
    "state_check": state_check.measure,
    "state_settings": state_settings.measure,
    "compaction": compaction.measure,
}
# Of what was decided once: only where it is asked for, and in `make bench-long`.
ASKED_FOR = ("state_settings", "compaction")
# Not below the folder of the results: what a failure leaves there, with its logs, is no result.
WORK = REPOSITORY / ".tidemark" / "bench" / "work"
# In the order of the page. What is measured with another figure stands behind it.
_WITH = {"fixed_cost": "steps", "airflow": "tasks", "publish": "publish_few"}
FIGURES_TOLD = [told for name in FIGURES for told in (name, _WITH.get(name)) if told]
SIZES = {"usual": USUAL, "long": LONG, "smallest": SMALLEST}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure the figures that are asked for, one after the other."""
    parser = ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="usual")
    parser.add_argument(
        "--figures",
        nargs="+",
        choices=FIGURES,
        help=f"default: all but {', '.join((*ASKED_FOR, 'cluster'))}",
    )
    parser.add_argument("--folder", type=Path, default=REPOSITORY / ".tidemark" / "bench")
    parser.add_argument("--many", type=int, help="how many pipelines the figure `many` has")
    given = parser.parse_args(argv)
    sizes = SIZES[given.size]
    sizes = replace(sizes, many=given.many or sizes.many)
    # Into a file or a pipe no line is broken: a table has up to seven columns.
    console, here = Console(width=None if sys.stdout.isatty() else 120), machine()
    # The figure of a cluster needs a store that somebody names.
    left_out = set() if given.size == "long" else set(ASKED_FOR)
    every = [
        name
        for name in FIGURES
        if name not in left_out and (name != "cluster" or cluster.ROOT in os.environ)
    ]
    for name in given.figures or every:
        begin = time.monotonic()
        figures = measured(name, sizes)
        seconds = round(time.monotonic() - begin)
        for number, figure in enumerate(figures):
            show(figure, console)
            save(figure, given.folder, here, 0 if number else seconds)
        console.print(f"  ({name}: {seconds} s)\n", style="dim")
        # After each: the page has what was measured also where a later figure fails.
        report = write_report(given.folder, FIGURES_TOLD)
    console.print(f"All of it, with pictures: {report}")


def measured(name: str, sizes: Sizes) -> list[Figure]:
    """One figure, from an empty folder, which is gone afterwards unless the figure failed."""
    work = WORK / name
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    figures = FIGURES[name](sizes, work)
    shutil.rmtree(work)
    return figures


if __name__ == "__main__":
    main()
