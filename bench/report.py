"""One page of all figures that were measured into a folder: goals, tables and pictures.

Written from the figures' JSON files alone, so that some can be measured again while the others
stay.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from bench.figure import Goal

PAGE = "README.md"
_PACKAGES = ("pyspark", "delta-spark", "deltalake", "duckdb", "polars", "apache-airflow")
_HEAD = """# What `make bench` measured

Produced by `make bench BENCH_ARGS="--folder docs/bench"`; one figure again, with the others kept,
by `make bench BENCH_ARGS="--folder docs/bench --figures NAME"`, where NAME is that of its JSON
file (`steps` is measured with `fixed_cost`, `tasks` with `airflow`). The JSON files hold every
repetition. Where a number has two more in brackets, it is the median of several repetitions, with
the smallest and the largest. [What a run costs](../cost.md) explains them.
"""


def write_report(folder: Path, figures: Sequence[str]) -> Path:
    """The page of the figures that are in the folder, in this order; those of earlier calls too."""
    files = {name: folder / f"{name}.json" for name in figures}
    found = {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}
    told = [_figure(name, one) for name, one in found.items()]
    report = folder / PAGE
    head = [_HEAD, _machines(found), *_times(found), *_goals(found)]
    report.write_text("\n".join([*head, *told]))
    return report


def _machines(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Once where all were measured on the same machine, else with the figures of each."""
    figures: dict[str, list[str]] = {}
    for name, one in found.items():
        figures.setdefault(one["machine"], []).append(name)
    if len(figures) == 1:
        return f"{next(iter(figures))}\n"
    return "".join(f"- {', '.join(names)}: {where}\n" for where, names in figures.items())


def _times(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """What to expect of a whole run; what was measured with another figure took no time."""
    minutes = {name: one["seconds"] / 60 for name, one in found.items() if one["seconds"]}
    if minutes:
        each = ", ".join(f"{name} {took:.1f}" for name, took in minutes.items())
        yield f"Measured in {sum(minutes.values()):.0f} minutes: {each}.\n"


def _goals(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    goals = [Goal(**goal) for one in found.values() for goal in one["goals"]]
    if goals:
        rows = [
            [
                goal.what,
                f"{goal.measured:.3g}",
                f"{'at least' if goal.at_least else 'at most'} {goal.limit:g}",
                "reached" if goal.reached else "not reached",
            ]
            for goal in goals
        ]
        yield "\n".join(["## Goals", "", *_table(("goal", "measured", "limit", ""), rows), ""])


def _figure(name: str, one: Mapping[str, Any]) -> str:
    """Its table, its sentences and its picture."""
    lines = [
        f"## {one['title']}",
        "",
        *_table(one["columns"], one["rows"]),
        "",
        *(f"- {line}" for line in one["told"]),
        "",
        f"![{one['title']}]({name}.png)",
    ]
    return "\n".join(lines) + "\n"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(columns)} |",
        f"|{'---|' * len(columns)}",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def machine() -> str:
    """This machine's size, and the versions of what is measured, in a sentence."""
    memory = psutil.virtual_memory().total / 2**30
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GiB of memory, {platform.system()}, "
        f"Python {platform.python_version()}, {_java()}; {packages}."
    )


def _java() -> str:
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    return told.stderr.splitlines()[0].replace(' version "', " ").partition('"')[0]
