"""Sessions, held against bronze before each publish, beside the engine's own without that."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from matplotlib.axes import Axes

from bench.contenders import OUR_SESSIONS, TUNED_SESSIONS, Workspace, check_gold
from bench.drawing import bars
from bench.figure import Figure, Goal
from bench.inputs import write_events
from bench.measured import Cost, cost_of, median, spread
from bench.sizes import Sizes

_LARGE, _SMALL = "large", "small"


def measure(sizes: Sizes, folder: Path) -> list[Figure]:
    """A first run over many rows, then small ones, for both in turn."""
    source, large = folder / "source", sizes.cores_rows
    places = {one: Workspace(source, folder / f"{n}") for n, one in enumerate(_CONTENDERS)}
    costs: dict[str, dict[str, list[Cost]]] = {one.name: {} for one in _CONTENDERS}
    small = sizes.small_rows
    landed = [(0, large), *((large + n * small, small) for n in range(sizes.repetitions + 1))]
    for number, (first, rows) in enumerate(landed):
        write_events(source, first, rows)
        for contender, place in places.items():
            log = folder / f"{place.root.name}.log"
            cost = cost_of(contender.start(place), contender.environment(place), log)
            # The first small one is the first that finds a checkpoint.
            if number != 1:
                costs[contender.name].setdefault(_SMALL if number else _LARGE, []).append(cost)
    return [_figure(costs, sizes, check_gold(places))]


_CONTENDERS = (OUR_SESSIONS, TUNED_SESSIONS)


def _figure(costs: Mapping[str, Mapping[str, list[Cost]]], sizes: Sizes, sessions: int) -> Figure:
    cpu = {
        (name, size): median([cost.cpu for cost in some])
        for name, by_size in costs.items()
        for size, some in by_size.items()
    }
    rows = [
        [
            name,
            size,
            spread([cost.wall for cost in some]),
            spread([cost.cpu for cost in some]),
            f"{cpu[name, size] / cpu[TUNED_SESSIONS.name, size]:.2f}",
        ]
        for name, by_size in costs.items()
        for size, some in by_size.items()
    ]
    ratio = {size: cpu[OUR_SESSIONS.name, size] / cpu[TUNED_SESSIONS.name, size]
             for size in (_LARGE, _SMALL)}  # fmt: skip
    told = [
        f"A first run over {sizes.cores_rows:,} rows, then {sizes.small_rows:,} more a run: "
        f"{ratio[_LARGE]:.2f} and {ratio[_SMALL]:.2f} of the CPU seconds of the script by hand, "
        f"which neither judges rows as we do nor notices what the engine got wrong. Both golds are "
        f"equal here ({sessions:,} sessions): no row is late.",
    ]

    def draw(axes: Axes) -> None:
        bars(
            axes,
            {
                name: {size: [cost.cpu for cost in some] for size, some in by_size.items()}
                for name, by_size in costs.items()
            },
            "CPU seconds",
        )

    columns = ("contender", "run", "wall, s", "CPU, s", "CPU / by hand")
    numbers = {
        name: {size: [vars(cost) for cost in some] for size, some in by_size.items()}
        for name, by_size in costs.items()
    }
    goal = Goal("sessions: CPU seconds of a small run, tidemark / by hand", ratio[_SMALL], 1.2)
    return Figure("sessions", "Sessions", columns, rows, told, numbers, draw, [goal])
