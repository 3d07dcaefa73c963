"""Looking at many pipelines: `tidemark status` by what acts have left and by a look at everything,
and the page, as a process that has answered before; and the story of a row amid a month's runs."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from matplotlib.axes import Axes

from bench.contenders import (
    NAME,
    OURS,
    TABLE,
    Workspace,
    our_command,
    pipeline_content,
    write_settings,
)
from bench.drawing import bars
from bench.figure import Figure, Goal
from bench.inputs import write_events
from bench.measured import cost_of, median, spread
from bench.sizes import Sizes
from tidemark.gold.checkpoints import query_checkpoint
from tidemark.pipeline.load import find_pipeline
from tidemark.pipeline.settings.settings import load_settings
from tidemark.runs.status.recorded_status import record_status
from tidemark.storage.delta.history import schema_of
from tidemark.storage.delta.notes import EmittedNote, as_metadata
from tidemark.storage.warehouse import Warehouse
from tidemark.story.explain import story_of

_COMMAND = "from tidemark.cli.main import app; app(prog_name='tidemark')"
_EVERY = timedelta(minutes=10)
_LEFT, _FULL = "status", "status --full"
_OVERVIEW, _PIPELINE = "page: all pipelines", "page: a pipeline"
_NEWEST, _OLDEST = "story: of the newest run", "story: of a month ago"


@dataclass(frozen=True)
class _Copy:
    """A pipeline that is a copy of the one that ran."""

    settings: Path
    source: str
    name: str
    runs: int


def measure(sizes: Sizes, folder: Path) -> list[Figure]:
    """One pipeline really runs; the others are copies of it, with more runs in `ops/runs`."""
    number, runs = sizes.pipelines
    place = Workspace(folder / "source", folder / "root")
    write_events(place.source, 0, sizes.small_rows)
    settings, pipeline = write_settings(place.root, pipeline_content(place.source))
    command = our_command(place, "run", settings, pipeline)
    cost_of(command, OURS.environment(place), folder / "run.log")
    names = [f"p{one:03}" for one in range(number)]
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(_copy, [_Copy(settings, NAME, name, runs) for name in names]))
    pipeline.unlink()
    status = [sys.executable, "-c", _COMMAND, "status", "--settings", str(settings)]
    ask = partial(cost_of, environment=OURS.environment(place), log=folder / "status.log")
    found = {
        _LEFT: [ask(status).cpu for _ in range(1 + sizes.repetitions)],
        _FULL: [ask([*status, "--full"]).cpu],
    }
    found |= _pages(settings, names[0], sizes.repetitions)
    found |= _stories(settings, names[0], sizes.told_commits, sizes.repetitions)
    return [_figure(found, number, runs)]


def _copy(one: _Copy) -> None:
    """As many runs as are told of, the last of which is the one that ran."""
    settings = load_settings(one.settings)
    source, own = (Warehouse.of(name, settings) for name in (one.source, one.name))
    shutil.copytree(source.places.folder, own.places.folder)
    pipelines = Path(settings.pipelines)
    shutil.copy(pipelines / f"{one.source}.yaml", pipelines / f"{one.name}.yaml")
    for place in (own.runs, own.ledger, own.upkeep, own.quality):
        if Path(place.uri).is_dir():
            table = DeltaTable(place.uri)
            rows = table.to_pyarrow_table()
            at = rows.schema.get_field_index("pipeline")
            renamed = rows.set_column(at, "pipeline", pa.array([one.name] * len(rows)))
            write_deltalake(table, renamed, mode="overwrite")
    runs = DeltaTable(own.runs.uri)
    rows = runs.to_pyarrow_table()
    before = [row for back in range(one.runs - 1, 0, -1) for row in _earlier(rows, back)]
    write_deltalake(runs, pa.Table.from_pylist(before, rows.schema), mode="append")
    runs.update_incremental()
    runs.optimize.compact()
    record_status(one.name, settings, datetime.now(UTC))


def _earlier(rows: pa.Table, back: int) -> list[dict[str, Any]]:
    """The rows of runs of before."""
    times = ("scheduled_at", "started_at", "ended_at", "written_at")
    earlier = {name: pa.scalar(back * _EVERY).as_py() for name in times}
    return [
        row
        | {name: row[name] - by for name, by in earlier.items() if row[name] is not None}
        | {"run": f"{row['run']}-{back}"}
        for row in rows.to_pylist()
    ]


def _pages(settings: Path, name: str, repetitions: int) -> Mapping[str, Sequence[float]]:
    """CPU seconds of this process for an answer of the page, once it has answered."""
    from fastapi.testclient import TestClient

    from tidemark.page.local import HOST, local_app

    token, port = "token", 8000
    app = local_app(lambda: load_settings(settings), lambda: datetime.now(UTC), token, port)
    client = TestClient(app, base_url=f"http://{HOST}:{port}")
    client.get("/", params={"token": token}).raise_for_status()
    found: dict[str, list[float]] = {_OVERVIEW: [], _PIPELINE: []}
    for kind, path in ((_OVERVIEW, "/"), (_PIPELINE, f"/p/{name}")):
        for number in range(1 + repetitions):
            # What was read a moment ago is told again.
            time.sleep(3 if kind == _OVERVIEW else 0)
            begin = time.process_time()
            client.get(path).raise_for_status()
            if number:
                found[kind].append(time.process_time() - begin)
    return found


def _stories(
    settings: Path, name: str, commits: int, repetitions: int
) -> Mapping[str, Sequence[float]]:
    """CPU seconds of a story in this process: of a value that has so many commits after it in the
    table's history, and of the last one. Each has a window of its own."""
    loaded = load_settings(settings)
    pipeline, warehouse = find_pipeline(name, loaded), Warehouse.of(name, loaded)
    changes = warehouse.changes(TABLE, 1).existing()
    (row,) = changes.to_pyarrow_dataset().head(1).to_pylist()
    query = str(query_checkpoint(warehouse, TABLE, 1).query_id())
    starts = [row["window_start"] + timedelta(days=1) + n * _EVERY for n in range(commits)]
    for batch, start in enumerate(starts, row["batch"] + 1):
        window = {"window_start": start, "window_end": start + _EVERY, "batch": batch}
        rows = pa.Table.from_pylist([row | window], schema_of(changes))
        note = as_metadata(EmittedNote(query=query, batch=batch, close_ms=0))
        properties = CommitProperties(custom_metadata=note)
        write_deltalake(changes, rows, mode="append", commit_properties=properties)
    changes.create_checkpoint()
    key, found = {"key": row["key"]}, dict[str, list[float]]()
    for kind, start in ((_OLDEST, starts[0]), (_NEWEST, starts[-1])):
        for number in range(1 + repetitions):
            begin = time.process_time()
            (value,) = story_of(pipeline, loaded, TABLE, start, key).values
            if number:
                found.setdefault(kind, []).append(time.process_time() - begin)
            assert value.version is not None
    return found


def _figure(found: Mapping[str, Sequence[float]], number: int, runs: int) -> Figure:
    of_one = (_PIPELINE, _OLDEST, _NEWEST)
    rows = [
        [kind, spread(costs), f"{1000 * median(costs) / (1 if kind in of_one else number):,.1f}"]
        for kind, costs in found.items()
    ]
    goals = [
        Goal(f"CPU seconds of `tidemark status` of {number} pipelines", median(found[_LEFT]), 3),
        Goal("CPU seconds of the page of all of them, warm", median(found[_OVERVIEW]), 1),
        Goal("CPU seconds of a pipeline's page, warm", median(found[_PIPELINE]), 0.2),
        Goal("CPU seconds of a story of a month ago", median(found[_OLDEST]), 0.6),
    ]

    def draw(axes: Axes) -> None:
        bars(axes, {kind: {"CPU": costs} for kind, costs in found.items()}, "CPU seconds", 2)

    told = [
        f"{number} pipelines with {runs} runs each: copies of one that ran. `status` tells what "
        "the last act on each has left, after a look whether that holds; `--full` opens the tables "
        "and checkpoints of each, as versions before did. Of commands the whole process. "
        "Stories are told in a process that has told one before."
    ]
    columns = ("what", "CPU, s", "of each pipeline, ms")
    return Figure(
        "page", f"Looking at {number} pipelines", columns, rows, told, dict(found), draw, goals
    )
