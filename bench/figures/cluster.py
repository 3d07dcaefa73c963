"""The same input on one machine's two cores and on two workers of one core, with the root in a
folder and on an object store: what a store and a cluster add, to a small run and to a large one.

    TIDEMARK_STORAGE_OPTIONS='{"AWS_ENDPOINT_URL": …}' BENCH_ROOT=s3://bucket/bench \\
        python -m bench --figures cluster
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from matplotlib.axes import Axes

from bench.cluster import standalone
from bench.contenders import (
    NAME,
    TABLE,
    Workspace,
    our_command,
    pipeline_content,
    with_both_compilers,
    write_pipeline,
)
from bench.drawing import bars
from bench.figure import Figure
from bench.inputs import write_events
from bench.measured import Cost, Failed, cost_of, median
from bench.sizes import Sizes
from tidemark.storage.files import remove_folder, write_bytes

# Where the store's runs have their root, and the settings' own variable with its options.
ROOT, OPTIONS = "BENCH_ROOT", "TIDEMARK_STORAGE_OPTIONS"
_LOCAL = "local[2]"


@dataclass(frozen=True)
class Setting:
    """A master and a root, and what runs there cost: the first over all rows, then small ones."""

    name: str
    master: str
    root: str
    options: Mapping[str, str]
    folder: Path

    def land(self, files: Sequence[Path]) -> None:
        for file in files:
            place = f"{self.root}/landing/{file.name}"
            write_bytes(place, file.read_bytes(), self.options)

    def run(self) -> Cost:
        """By the command, in a process of its own; the executors are none of its children."""
        content = pipeline_content(self.folder)
        source = {**dict(content["source"]), "files": "landing/*.json"}  # type: ignore[call-overload]
        settings, pipeline = write_pipeline(self.folder, {**content, "source": source})
        place = Workspace(self.folder, self.folder, self.master)
        variables = {**with_both_compilers(place), "TIDEMARK_ROOT": self.root}
        variables |= {OPTIONS: json.dumps(dict(self.options))}
        command = our_command(place, "run", settings, pipeline)
        return cost_of(command, variables, self.folder / "runs.log")

    def gold(self) -> list[tuple[object, ...]]:
        place = f"{self.root}/{NAME}/{TABLE}/gold"
        table = DeltaTable(place, storage_options=dict(self.options)).to_pyarrow_dataset()
        rows = pa.table(table.to_table(columns=["window_start", "key", "events", "amount"]))
        return sorted((tuple(row.values()) for row in rows.to_pylist()), key=str)


def measure(sizes: Sizes, folder: Path) -> list[Figure]:
    """Each setting in turn: a first run over many rows, and small ones behind it."""
    store = os.environ.get(ROOT)
    if store is None:
        raise Failed(f"{ROOT} is not set: an object store's folder for this figure's roots.")
    options = json.loads(os.environ.get(OPTIONS, "{}"))
    rows = sizes.throughput[-1][0]
    many = write_events(folder / "source", 0, rows)
    small = [
        write_events(folder / f"small-{number}", rows + number * sizes.small_rows, sizes.small_rows)
        for number in range(sizes.repetitions + 1)
    ]
    settings = [
        Setting("local[2], a folder", _LOCAL, str(folder / "root"), {}, folder / "local"),
        Setting("local[2], a store", _LOCAL, f"{store}/one", options, folder / "store"),
    ]
    costs = {one.name: _costs(one, many, small) for one in settings}
    with standalone(folder / "cluster", workers=2) as master:
        many_workers = Setting(
            "two workers, a store", master, f"{store}/two", options, folder / "workers"
        )
        costs[many_workers.name] = _costs(many_workers, many, small)
    golds = [one.gold() for one in (*settings, many_workers)]
    for one in (*settings, many_workers):
        remove_folder(one.root, one.options)
    if any(gold != golds[0] for gold in golds):
        raise Failed("The golds of the three settings differ: their costs cannot be compared.")
    return [_figure(costs, rows, sizes.small_rows)]


def _costs(one: Setting, many: Sequence[Path], small: Sequence[Sequence[Path]]) -> list[Cost]:
    """That of the first run, and those of small ones but the first of them."""
    one.folder.mkdir(parents=True)
    remove_folder(one.root, one.options)
    one.land(many)
    costs = [one.run()]
    for files in small:
        one.land(files)
        costs.append(one.run())
    return [costs[0], *costs[2:]]


def _figure(costs: Mapping[str, Sequence[Cost]], rows: int, small: int) -> Figure:
    walls = {
        name: (found[0].wall, median([cost.wall for cost in found[1:]]))
        for name, found in costs.items()
    }
    table = [
        [name, f"{first:.1f}", f"{rows / first:,.0f}", f"{then:.1f}"]
        for name, (first, then) in walls.items()
    ]
    (_, alone), (_, on_store), (_, on_cluster) = walls.values()
    told = [
        f"To a run with {small:,} new rows the store adds {on_store - alone:.1f} s, the cluster "
        f"{on_cluster - on_store:.1f} s more: its executors start anew for each run.",
        "All on the same two cores, the store and the cluster's own processes too; wall time only.",
    ]
    numbers = {name: [cost.wall for cost in found] for name, found in costs.items()}

    def draw(axes: Axes) -> None:
        labels = (f"{rows:,} rows", f"{small:,} rows")
        seen = {
            name: dict(zip(labels, ([w] for w in pair), strict=True))
            for name, pair in walls.items()
        }
        bars(axes, seen, "seconds")

    columns = ("where", f"{rows:,} rows, s", "rows/s", f"{small:,} rows, s")
    title = "One machine, a store, a cluster"
    return Figure("cluster", title, columns, table, told, numbers, draw)
