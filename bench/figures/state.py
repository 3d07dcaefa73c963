"""A million keys in the state of an open window, in each state store that a pipeline can have."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from bench.contenders import NAME, OURS, Workspace, pipeline_content, write_settings
from bench.figure import Figure
from bench.inputs import write_events
from bench.measured import Cost, cost_of
from bench.sizes import Sizes

_STATE = "spark.sql.streaming.stateStore"
# What stands under `advanced` in the pipeline's file: the platform's two, and what their defaults
# are better than.
STORES: dict[str, dict[str, Any]] = {
    "memory": {"state": {"store": "memory"}},
    "memory, kept loaded": {
        "state": {"store": "memory"},
        "spark": {f"{_STATE}.unloadOnCommit": "false"},
    },
    "rocksdb": {"state": {"store": "rocksdb"}},
    "rocksdb, without changelog": {
        "state": {"store": "rocksdb"},
        "spark": {f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "false"},
    },
}


@dataclass(frozen=True)
class Held:
    """The run that fills the state, a small run that loads it, and its bytes after both."""

    fill: Cost
    load: Cost
    bytes: int


def measure(sizes: Sizes, folder: Path) -> list[Figure]:
    """Each store: one run that fills the state, and one that loads it for a few rows more."""
    found = {store: _one(store, asked, sizes, folder) for store, asked in STORES.items()}
    return [_figure(found, sizes.state_keys)]


def _one(store: str, advanced: Mapping[str, Any], sizes: Sizes, folder: Path) -> Held:
    name = store.replace(", ", "-").replace(" ", "-")
    place = Workspace(folder / f"{name}-source", folder / name)
    for old in (place.root, place.source):
        shutil.rmtree(old, ignore_errors=True)
    # A day in one window that is never closed: every key stays in the state.
    content = pipeline_content(place.source, **advanced)
    content["watermark"] = {"delay": "400 days"}
    write_settings(place.root, content)
    log = folder / f"{name}.log"
    write_events(place.source, 0, sizes.state_keys, keys=sizes.state_keys)
    fill = cost_of(OURS.start(place), OURS.environment(place), log)
    write_events(place.source, sizes.state_keys, sizes.small_rows, keys=sizes.state_keys)
    load = cost_of(OURS.start(place), OURS.environment(place), log)
    state = (place.root / NAME / "checkpoints").rglob("state/**/*")
    return Held(fill, load, sum(file.stat().st_size for file in state if file.is_file()))


def _figure(found: Mapping[str, Held], keys: int) -> Figure:
    rows = [
        [
            store,
            f"{held.fill.wall:.1f}",
            f"{held.fill.cpu:.1f}",
            f"{held.fill.peak_mb:,.0f}",
            f"{held.load.wall:.1f}",
            f"{held.load.cpu:.1f}",
            f"{held.load.peak_mb:,.0f}",
            f"{held.bytes / 1e6:,.0f}",
        ]
        for store, held in found.items()
    ]
    numbers = {
        store: {"fill": vars(held.fill), "load": vars(held.load), "bytes": held.bytes}
        for store, held in found.items()
    }

    def draw(axes: Axes) -> None:
        for offset, what in ((-0.2, "fill"), (0.2, "load")):
            places = [number + offset for number in range(len(found))]
            seconds = [getattr(held, what).wall for held in found.values()]
            axes.bar(places, seconds, 0.38, label=f"{what} the state")
        axes.set_xticks(range(len(found)), list(found))
        axes.set_ylabel("seconds of the run")
        axes.legend()

    columns = ("store", "fill, s", "CPU, s", "peak MB", "load, s", "CPU, s", "peak MB", "state, MB")
    title = f"{keys:,} keys in the state"
    told = ["`load` is a run with a few new rows, which reads the whole state first."]
    return Figure("state", title, columns, rows, told, numbers, draw)
