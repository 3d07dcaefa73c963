"""The status of a pipeline as the last act on it left it, so that many are told at once.

To tell how one pipeline stands, its logs and checkpoints are opened, which takes a tenth of a
second. An act that ends writes down what it comes to then, and by which files that can be seen to
hold still: the newest entry of each log, which is there, and the next one, which is not.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from tidemark.commit_point import commit_point
from tidemark.errors import TidemarkError
from tidemark.gold.checkpoints import ingest_checkpoint, query_checkpoint
from tidemark.pipeline.load import ENDINGS, find_pipeline_file, load_pipeline, pipeline_files
from tidemark.pipeline.model import FoldTable, Pipeline
from tidemark.pipeline.schedules import last_but_one_time
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.status.judge import Standing, judge_pipeline
from tidemark.runs.status.pipeline_status import (
    PipelineStatus,
    file_status,
    pipeline_status,
    unknown_status,
)
from tidemark.runs.status.state import PipelineState
from tidemark.runs.unfinished_act import unfinished_mark
from tidemark.runs.wall_clock import TOLERATED
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.file_place import one_look
from tidemark.storage.files import (
    at_once,
    is_there,
    read_bytes,
    remove_files,
    why_not_reached,
    write_bytes,
)
from tidemark.storage.generation import generation_of
from tidemark.storage.lease.lease import read_lease
from tidemark.storage.result_file import Facts
from tidemark.storage.warehouse import Warehouse
from tidemark.version import told_version

_LOG = logging.getLogger(__name__)
# What nothing but a look at everything can tell anew.
_NOT_RECORDED = (PipelineState.WORKING, PipelineState.NEW, PipelineState.INVALID)


class RecordedStatus(Facts):
    """A status, and what it rests on.

    `files`: those of the pipelines' folder that it was told by, and the SHA-256 of each. `there`
    and `missing` are places of files below the root, of which the former existed and the latter did
    not. `written_by` is the Tidemark that told it. Of `status` the state and what is to be done are
    told anew by whoever reads it: they depend on the time.
    """

    format: Literal[1] = 1
    written_by: str
    files: dict[str, str]
    there: tuple[str, ...]
    missing: tuple[str, ...]
    schedule: str | None
    status: PipelineStatus


@commit_point(
    "status recorded",
    after_a_kill="before: the former one is there, and is seen not to hold any more; after: "
    "nothing is due",
)
def record_status(pipeline: str, settings: Settings, now: datetime) -> None:
    """Write down how a pipeline stands once an act on it has ended; `now` is in UTC. Never raises:
    without it, or with one that holds no more, everything is looked at.

    What no log tells of is not recorded: what is lost, a rewind in the middle, a wrong clock.
    """
    try:
        warehouse = Warehouse.of(pipeline, settings)
        with one_look():
            recorded = _recorded(find_pipeline_file(pipeline, settings), settings, now)
        place = warehouse.places.status
        if recorded is None:
            remove_files([place], settings.storage_options)
        else:
            write_bytes(place, recorded.model_dump_json().encode(), settings.storage_options)
    except Exception as error:  # noqa: BLE001  see above
        _LOG.info("The status of %s was not recorded: %s", pipeline, error)


def all_statuses(
    settings: Settings, now: datetime, full: bool = False
) -> tuple[PipelineStatus, ...]:
    """The status of each pipeline file in the settings' folder, by name. `now` is in UTC.

    Those that the last act on them left are told by that, as long as their logs and files are where
    they were then. `full`: everything is looked at, also what their sources have. Where the root's
    store is not reached, that is told of each of them, once it has been waited for once.
    """
    files = pipeline_files(settings.pipelines_folder)
    if (away := why_not_reached(settings.root, settings.storage_options)) is not None:
        return tuple(unknown_status(file.stem, away) for file in files)
    told = partial(recorded_status, settings=settings, now=now)
    if full:
        left: dict[Path, PipelineStatus | None] = {}
    else:
        left = at_once(told, files, settings.root)
    return tuple(left.get(file) or file_status(file, settings, now) for file in files)


def recorded_status(file: Path, settings: Settings, now: datetime) -> PipelineStatus | None:
    """How the pipeline of a file stands, by what the last act on it left and by the time now, in
    UTC. None where nobody left it, or it holds no more."""
    warehouse = Warehouse.of(file.stem, settings)
    try:
        left = read_bytes(warehouse.places.status, warehouse.options)
        recorded = RecordedStatus.model_validate_json(left)
        lease = read_lease(warehouse.places.lease, warehouse.options)
        is_at_work = lease is not None and not lease.released
        if is_at_work or not _holds(recorded, file, warehouse):
            return None
    except (TidemarkError, ValidationError):
        # Whatever keeps it from being read is told by who looks at everything.
        return None
    status = recorded.status
    if now < status.runs[0].started_at - TOLERATED:
        return None
    due = last_but_one_time(recorded.schedule, now) if recorded.schedule else None
    found = _judged(status, due)
    return replace(status, state=found.state, next_step=found.next_step)


def _judged(status: PipelineStatus, due: datetime | None) -> Standing:
    unpublished = sum(table.unpublished for table in status.tables)
    return judge_pipeline(status.name, None, status.runs, unpublished, due, tables=status.tables)


def _holds(recorded: RecordedStatus, file: Path, warehouse: Warehouse) -> bool:
    if recorded.written_by != told_version():
        return False
    if recorded.files != _digests(file.parent, recorded.files):
        return False
    root, options = f"{warehouse.places.root}/", warehouse.options
    return all(is_there(root + name, options) for name in recorded.there) and not any(
        is_there(root + name, options) for name in recorded.missing
    )


def _recorded(file: Path, settings: Settings, now: datetime) -> RecordedStatus | None:
    pipeline = load_pipeline(file)
    warehouse = Warehouse.of(pipeline.name, settings)
    # Before the status: what changes in between makes it one that holds no more.
    marks = tuple(chain(_of_tables(pipeline, warehouse), _of_checkpoints(pipeline, warehouse)))
    files = _digests(file.parent, _files_of(pipeline))
    status = pipeline_status(pipeline, settings, now)
    due = last_but_one_time(pipeline.schedule, now) if pipeline.schedule else None
    if status.state in _NOT_RECORDED or not status.tables or not status.runs:
        return None
    found = _judged(status, due)
    if (found.state, found.next_step) != (status.state, status.next_step):
        return None
    root = f"{warehouse.places.root}/"
    missing = [unfinished_mark(warehouse), *(after for _, after in marks)]
    return RecordedStatus(
        written_by=told_version(),
        files=files,
        there=tuple(newest.removeprefix(root) for newest, _ in marks if newest is not None),
        missing=tuple(uri.removeprefix(root) for uri in missing),
        schedule=pipeline.schedule,
        status=replace(status, source=None),
    )


def _of_tables(pipeline: Pipeline, warehouse: Warehouse) -> Iterator[tuple[str | None, str]]:
    """The newest entry of each log, None where there is no table, and the one that comes next."""
    ops = (warehouse.runs, warehouse.ledger, warehouse.upkeep)
    for place in (*ops, warehouse.bronze, warehouse.rejects):
        yield _entries(place)
    for name in pipeline.tables:
        gold = warehouse.gold(name)
        yield _entries(gold)
        yield _entries(warehouse.changes(name, generation_of(gold.open())))


def _entries(place: TablePlace) -> tuple[str | None, str]:
    table = place.open()
    version = -1 if table is None else table.version()
    return _after(f"{place.uri}/_delta_log", version, "{:020}.json")


def _of_checkpoints(pipeline: Pipeline, warehouse: Warehouse) -> Iterator[tuple[str | None, str]]:
    """The newest batch of each query, planned and committed, and the one that comes next."""
    generations = {name: generation_of(warehouse.gold(name).open()) for name in pipeline.tables}
    queries = [query_checkpoint(warehouse, name, number) for name, number in generations.items()]
    for checkpoint in (ingest_checkpoint(warehouse), *queries):
        for log in ("offsets", "commits"):
            last = checkpoint.last_batch(log)
            yield _after(f"{checkpoint.uri}/{log}", -1 if last is None else last, "{}")


def _after(folder: str, number: int, name: str) -> tuple[str | None, str]:
    newest = None if number < 0 else f"{folder}/{name.format(number)}"
    return newest, f"{folder}/{name.format(number + 1)}"


def _files_of(pipeline: Pipeline) -> Iterator[str]:
    """Those that its loading reads, and such as would be in their way."""
    for name in (pipeline.name, *pipeline.partners):
        yield from (f"{name}{ending}" for ending in ENDINGS)
    for table in pipeline.tables.values():
        if isinstance(table, FoldTable):
            yield from table.code


def _digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The SHA-256 of each file, empty of one that is not there."""
    paths = ((name, folder / name) for name in names)
    return {
        name: sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for name, path in paths
    }
