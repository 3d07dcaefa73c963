"""A new measure for a table with history, beside a full refresh by hand; and runs afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from matplotlib.axes import Axes

from bench.contenders import (
    NAME,
    OUR_COMMAND,
    OURS,
    REFRESH,
    TABLE,
    Workspace,
    check_gold,
    our_command,
    pipeline_content,
    with_both_compilers,
    write_pipeline,
)
from bench.drawing import bars
from bench.figure import Figure, Goal
from bench.inputs import write_events
from bench.measured import Cost, cost_of, median, spread
from bench.sizes import Sizes

_MIGRATION, _REFRESH = "tidemark migrate", "full refresh"
_FIRST, _LATER = "first generation", "after 5 migrations"
_MIGRATIONS = 5


def measure(sizes: Sizes, folder: Path) -> list[Figure]:
    """Large history: migrate it, and refresh the same bronze by hand, in turn. Small history: runs
    of a table in its first generation and of one that was migrated five times, in turn."""
    return [_figure(sizes, _of_history(sizes, folder), _of_runs(sizes, folder))]


def _of_history(sizes: Sizes, folder: Path) -> dict[str, list[Cost]]:
    source = folder / "history"
    write_events(source, 0, sizes.migrated_rows)
    ours, rival = Workspace(source, folder / "tidemark"), folder / "refresh"
    cost_of(OURS.start(ours), OURS.environment(ours), folder / "history.log")
    refresh = Workspace(ours.root / NAME / "bronze", rival)
    costs: dict[str, list[Cost]] = {_MIGRATION: [], _REFRESH: []}
    for number in range(sizes.migrations):
        costs[_MIGRATION].append(_migrate(ours, number, folder))
        log = folder / "refresh.log"
        costs[_REFRESH].append(cost_of(REFRESH.start(refresh), with_both_compilers(refresh), log))
        check_gold({OURS: ours, REFRESH: refresh})
    return costs


def _migrate(place: Workspace, number: int, folder: Path) -> Cost:
    """A measure more than before: `largest`, under another name each time."""
    content = pipeline_content(place.source)
    tables = content["tables"]
    assert isinstance(tables, dict)
    tables[TABLE]["measures"] |= {f"largest{number or ''}": "max(amount)"}
    command = our_command(place, "migrate", *write_pipeline(place.root, content))
    return cost_of(command, with_both_compilers(place), folder / "migrate.log")


def _of_runs(sizes: Sizes, folder: Path) -> dict[str, list[Cost]]:
    source = folder / "source"
    places = {name: Workspace(source, folder / name) for name in (_FIRST, _LATER)}
    costs: dict[str, list[Cost]] = {name: [] for name in places}
    written = 0
    # Both have run once behind the last migration before they are measured.
    for number in range(2 + sizes.repetitions):
        write_events(source, written, sizes.small_rows)
        written += sizes.small_rows
        for name, place in places.items():
            cost = cost_of(OUR_COMMAND.start(place), OUR_COMMAND.environment(place), folder / "log")
            if number > 1:
                costs[name].append(cost)
        if number == 0:
            for migration in range(_MIGRATIONS):
                _migrate(places[_LATER], migration, folder)
    check_gold(
        {replace(OUR_COMMAND, name=name): place for name, place in places.items()},
    )
    return costs


def _figure(
    sizes: Sizes, history: Mapping[str, list[Cost]], runs: Mapping[str, list[Cost]]
) -> Figure:
    told_of = {
        _MIGRATION: f"{sizes.migrated_rows:,} rows, a measure more",
        _REFRESH: f"{sizes.migrated_rows:,} rows, a measure more",
        _FIRST: f"a run with {sizes.small_rows:,} new rows",
        _LATER: f"a run with {sizes.small_rows:,} new rows",
    }
    every = {**history, **runs}
    rows = [
        [
            told_of[name],
            name,
            spread([cost.wall for cost in some]),
            spread([cost.cpu for cost in some]),
            f"{max(cost.peak_mb for cost in some):,.0f}",
        ]
        for name, some in every.items()
    ]
    wall = _ratio(history, _MIGRATION, _REFRESH, "wall")
    cpu = _ratio(history, _MIGRATION, _REFRESH, "cpu")
    later = _ratio(runs, _LATER, _FIRST, "cpu")
    told = [
        f"A migration takes {wall:.2f} of the full refresh's time and {cpu:.2f} of its CPU "
        "seconds; both read the same bronze, and both golds are equal.",
        f"A run behind five migrations takes {later:.2f} of the CPU seconds of one without any.",
    ]
    numbers = {name: [vars(cost) for cost in some] for name, some in every.items()}

    def draw(axes: Axes) -> None:
        found = {
            name: {"wall": [cost.wall for cost in some], "CPU": [cost.cpu for cost in some]}
            for name, some in every.items()
        }
        bars(axes, found, "seconds")

    columns = ("what", "by", "wall, s", "CPU, s", "peak MB")
    goals = [
        Goal("migration: time, tidemark / full refresh", wall, 1.5),
        Goal("run after 5 generations: CPU seconds, migrated / not", later, 1.1),
    ]
    title = "A table changes: migration beside a full refresh"
    return Figure("migration", title, columns, rows, told, numbers, draw, goals)


def _ratio(costs: Mapping[str, Sequence[Cost]], one: str, other: str, of: str) -> float:
    return median([getattr(c, of) for c in costs[one]]) / median(
        [getattr(c, of) for c in costs[other]]
    )
