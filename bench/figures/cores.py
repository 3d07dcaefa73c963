"""The same input on one core, on two, and on two workers of a standalone cluster."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from matplotlib.axes import Axes

from bench.cluster import standalone
from bench.contenders import OURS, TUNED, Workspace, check_gold
from bench.drawing import bars
from bench.figure import Figure
from bench.inputs import write_events
from bench.measured import Cost, cost_of
from bench.sizes import Sizes

_LOCAL = {"one core": "local[1]", "two cores": "local[2]"}
_CLUSTER = "two workers of one core"


def measure(sizes: Sizes, folder: Path) -> list[Figure]:
    """Each master in turn, the platform and the tuned script on each."""
    source = folder / "source"
    write_events(source, 0, sizes.cores_rows)
    found = {name: _both(source, folder, name, master) for name, master in _LOCAL.items()}
    with standalone(folder / "cluster", workers=2) as master:
        found[_CLUSTER] = _both(source, folder, _CLUSTER, master)
    return [_figure(found, sizes.cores_rows)]


def _both(source: Path, folder: Path, name: str, master: str) -> dict[str, Cost]:
    slug = name.replace(" ", "-")
    places = {
        one: Workspace(source, folder / f"{slug}-{one.name}", master) for one in (OURS, TUNED)
    }
    costs = {}
    for one, place in places.items():
        shutil.rmtree(place.root, ignore_errors=True)
        log = folder / f"{slug}-{one.name}.log"
        costs[one.name] = cost_of(one.start(place), one.environment(place), log)
    check_gold(places)
    return costs


def _figure(found: Mapping[str, Mapping[str, Cost]], size: int) -> Figure:
    rows = [
        [where, name, f"{cost.wall:.1f}", f"{size / cost.wall:,.0f}"]
        for where, costs in found.items()
        for name, cost in costs.items()
    ]
    one, two = (found[name][OURS.name].wall for name in _LOCAL)
    told = [
        f"tidemark on two cores: {one / two:.2f} times as fast as on one.",
        "The workers' executors start anew for each run. They are no children of the driver, so "
        "only wall time is told.",
    ]
    numbers = {where: {n: cost.wall for n, cost in costs.items()} for where, costs in found.items()}

    def draw(axes: Axes) -> None:
        walls = {w: {n: [cost.wall] for n, cost in costs.items()} for w, costs in found.items()}
        bars(axes, walls, "seconds")

    columns = ("master", "contender", "wall, s", "rows/s")
    return Figure("cores", f"{size:,} rows by cores", columns, rows, told, numbers, draw)
