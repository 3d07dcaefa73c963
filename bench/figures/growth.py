"""Does run 60 cost what run 10 costs? CPU seconds and files, run by run, and where files grow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from bench.contenders import NAME, OURS, Workspace
from bench.figure import Figure
from bench.inputs import write_events
from bench.measured import Cost, cost_of, median
from bench.sizes import Sizes

_EARLY, _LATE = slice(4, 24), slice(-20, None)
_SHOWN = 8


def measure(sizes: Sizes, folder: Path) -> list[Figure]:
    """So many runs of the platform, each with a small new file."""
    place = Workspace(folder / "source", folder / OURS.name)
    costs: list[Cost] = []
    files: list[Counter[str]] = []
    for number in range(sizes.growth_runs):
        write_events(place.source, number * sizes.small_rows, sizes.small_rows)
        costs.append(cost_of(OURS.start(place), OURS.environment(place), folder / "runs.log"))
        files.append(_files(place.root))
    return [_figure(costs, files)]


def _files(root: Path) -> Counter[str]:
    """Files by the folder that they are in, two levels below the pipeline's."""
    found: Counter[str] = Counter()
    for path in root.rglob("*"):
        if path.is_file():
            parts = path.relative_to(root).parts[:-1]
            names = [part for part in parts if not part.isdigit() and "=" not in part]
            found["/".join(names[1:] if names[:1] == [NAME] else names)] += 1
    return found


def _figure(costs: Sequence[Cost], files: Sequence[Counter[str]]) -> Figure:
    cpu = [cost.cpu for cost in costs]
    totals = [float(sum(one.values())) for one in files]
    walls = [cost.wall for cost in costs]
    series = {"CPU seconds": cpu, "wall seconds": walls, "files": totals}
    rows = [
        [name, f"{_early(v):,.1f}", f"{_late(v):,.1f}", f"{_late(v) / _early(v):.2f}"]
        for name, v in series.items()
    ]
    grown = files[-1]
    grown.subtract(files[min(4, len(files) - 1)])
    told = [f"+{count:,} files in {name}" for name, count in grown.most_common(_SHOWN) if count > 0]
    numbers = {
        "costs": [vars(cost) for cost in costs],
        "files": [dict(one) for one in files],
        "ratios": {name: _late(values) / _early(values) for name, values in series.items()},
    }

    def draw(axes: Axes) -> None:
        axes.plot(range(1, len(cpu) + 1), cpu, label="CPU seconds")
        axes.set_xlabel("run")
        axes.set_ylabel("CPU seconds")
        axes.set_ylim(bottom=0)
        right = axes.twinx()
        right.plot(range(1, len(totals) + 1), totals, color="tab:orange", label="files")
        right.set_ylabel("files")
        right.set_ylim(bottom=0)
        axes.figure.legend(loc="upper left")

    columns = ("per run", "runs 5–24", "last 20", "ratio")
    title = f"Growth over {len(costs)} runs (medians)"
    return Figure("growth", title, columns, rows, told, numbers, draw)


def _early(values: Sequence[float]) -> float:
    return median(values[_EARLY] or values)


def _late(values: Sequence[float]) -> float:
    return median(values[_LATE])
