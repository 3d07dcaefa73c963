"""The fixed cost of a scheduled run with little new input, or none; and where ours goes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from matplotlib.axes import Axes

from bench.contenders import (
    DEFAULT,
    DUCKDB,
    OUR_COMMAND,
    OURS,
    TUNED,
    Contender,
    Workspace,
    check_gold,
)
from bench.drawing import bars
from bench.figure import Figure, Goal
from bench.inputs import write_events
from bench.measured import Cost, cost_of, median, spread
from bench.sizes import Sizes
from bench.stages import seconds_of_stages

# Our job by spark-submit, as the scripts are started, and by our command, as people start it.
_SPARK = (OURS, OUR_COMMAND, TUNED, DEFAULT)


def measure(sizes: Sizes, folder: Path) -> list[Figure]:
    """Every contender in turn on each small input; then each on no input at all."""
    source = folder / "source"
    places = {one: Workspace(source, folder / one.name) for one in (*_SPARK, DUCKDB)}
    costs: dict[str, list[Cost]] = {one.name: [] for one in places}
    idle: dict[str, list[Cost]] = {one.name: [] for one in _SPARK}
    stages: list[Mapping[str, float]] = []
    for number in range(sizes.warm_ups + sizes.repetitions):
        write_events(source, number * sizes.small_rows, sizes.small_rows)
        for contender, place in places.items():
            cost = _run(contender, place)
            if number >= sizes.warm_ups:
                costs[contender.name].append(cost)
        if number >= sizes.warm_ups:
            stages.append(seconds_of_stages(places[OURS]))
    windows = check_gold(places)
    for number in range(sizes.repetitions):
        # One minute of the slowest tells enough.
        for contender in _SPARK if number == 0 else (OURS, OUR_COMMAND, TUNED):
            idle[contender.name].append(_run(contender, places[contender]))
    return [_fixed(costs, idle, sizes, windows), _shares(stages, costs[OURS.name])]


def _run(contender: Contender, place: Workspace) -> Cost:
    log = place.root.parent / f"{contender.name}.log"
    return cost_of(contender.start(place), contender.environment(place), log)


def _fixed(
    costs: Mapping[str, list[Cost]],
    idle: Mapping[str, list[Cost]],
    sizes: Sizes,
    windows: int,
) -> Figure:
    wall = {name: median([cost.wall for cost in some]) for name, some in costs.items()}
    cpu = {name: median([cost.cpu for cost in some]) for name, some in costs.items()}
    none = {name: median([cost.wall for cost in some]) for name, some in idle.items()}
    ours, command = OURS.name, OUR_COMMAND.name
    rows = [
        [
            name,
            spread([cost.wall for cost in some]),
            spread([cost.cpu for cost in some]),
            f"{wall[name] / wall[ours]:.2f}",
            f"{cpu[name] / cpu[ours]:.2f}",
            spread([cost.wall for cost in idle[name]]) if name in idle else "–",
            spread([cost.peak_mb for cost in some], 0),
        ]
        for name, some in costs.items()
    ]
    default, tuned = DEFAULT.name, TUNED.name
    told = [
        f"tidemark takes 1/{wall[default] / wall[ours]:.1f} of default's time and "
        f"1/{cpu[default] / cpu[ours]:.1f} of its CPU seconds; of tuned's "
        f"{wall[ours] / wall[tuned]:.2f} and {cpu[ours] / cpu[tuned]:.2f}.",
        f"With nothing new, by `tidemark run`: 1/{none[default] / none[command]:.1f} of default's "
        f"time, {none[command] / none[tuned]:.2f} of tuned's. By spark-submit a JVM always starts: "
        f"1/{none[default] / none[ours]:.1f} and {none[ours] / none[tuned]:.2f}.",
        f"{sizes.small_rows:,} new rows a run; all golds equal ({windows:,} windows).",
    ]
    columns = (
        "contender", "wall, s", "CPU, s", "wall / ours", "CPU / ours", "nothing new, s", "peak MB",
    )  # fmt: skip
    numbers = {
        "costs": {name: [vars(cost) for cost in some] for name, some in costs.items()},
        "nothing_new": {name: [vars(cost) for cost in some] for name, some in idle.items()},
    }

    def draw(axes: Axes) -> None:
        found = {
            name: {"wall": [cost.wall for cost in some], "CPU": [cost.cpu for cost in some]}
            for name, some in costs.items()
        }
        for name, some in idle.items():
            found[name]["wall, nothing new"] = [cost.wall for cost in some]
        bars(axes, found, "seconds")

    idle_run = "nothing new: time, `tidemark run`"
    goals = [
        Goal("small run: time, tidemark / default", wall[ours] / wall[default], 0.2),
        Goal("small run: CPU seconds, tidemark / default", cpu[ours] / cpu[default], 0.2),
        Goal("small run: time, tidemark / tuned", wall[ours] / wall[tuned], 1),
        Goal("small run: CPU seconds, tidemark / tuned", cpu[ours] / cpu[tuned], 1),
        Goal(f"{idle_run} / default with new rows", none[command] / wall[default], 0.05),
        Goal(f"{idle_run} / default with nothing new", none[command] / none[default], 0.05),
    ]
    title = f"A scheduled run with {sizes.small_rows:,} new rows"
    return Figure("fixed_cost", title, columns, rows, told, numbers, draw, goals)


def _shares(stages: list[Mapping[str, float]], costs: list[Cost]) -> Figure:
    names = list(dict.fromkeys(name for one in stages for name in one))
    whole = median([cost.wall for cost in costs])
    found = {name: [one.get(name, 0.0) for one in stages] for name in names}
    found["start and end"] = [
        max(0.0, cost.wall - sum(one.values())) for cost, one in zip(costs, stages, strict=True)
    ]
    seconds = {name: median(some) for name, some in found.items()}
    rows = [[name, spread(some, 2), f"{seconds[name] / whole:.0%}"] for name, some in found.items()]
    care = sum(seconds.get(name, 0.0) for name in ("repair", "ledger", "publish"))
    told = [f"Repair, ledger and publish together: {care / whole:.1%} of the run."]

    def draw(axes: Axes) -> None:
        bars(axes, {name: {"wall": some} for name, some in found.items()}, "seconds", digits=2)

    columns = ("step", "seconds", "share")
    goal = Goal("small run: share of repair, ledger and publish", care / whole, 0.15)
    title, numbers = "Where a small run goes", {"seconds": found}
    return Figure("steps", title, columns, rows, told, numbers, draw, [goal])
