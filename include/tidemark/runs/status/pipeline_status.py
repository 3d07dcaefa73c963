"""How the pipelines of the settings stand: one of them, or all.

Told by logs, statistics and the newest rows of `ops/runs`, so that it costs the same for a pipeline
of a thousand runs as for one of ten. Nothing is written, and no Spark is started.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from tidemark.errors import LeaseHeld
from tidemark.gold.checkpoints import ingest_checkpoint
from tidemark.gold.retention import frozen_before_ms
from tidemark.operators.kinds import operator_of
from tidemark.pipeline.load import load_pipeline
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.problems import PipelineFileInvalid
from tidemark.pipeline.schedules import last_but_one_time
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.losses import LOOKS, find_losses
from tidemark.runs.recorded_runs import last_published
from tidemark.runs.status.drift import SourceDrift, source_drift
from tidemark.runs.status.judge import HeldLease, judge_pipeline
from tidemark.runs.status.recent_runs import RecentRun, recent_runs
from tidemark.runs.status.state import PipelineState
from tidemark.runs.status.table_status import TableStatus, table_status
from tidemark.runs.unfinished_act import unfinished_act
from tidemark.runs.wall_clock import clock_faults
from tidemark.sources.lag import NotAsked, source_lag
from tidemark.sources.source import Lag
from tidemark.storage.delta.newest_event import newest_event
from tidemark.storage.delta.ops import newest_rows
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.lease.held import Clocks
from tidemark.storage.lease.lease import read_lease, this_process
from tidemark.storage.lease.taking import decide
from tidemark.storage.root import check_root
from tidemark.storage.warehouse import Warehouse

# How many runs count as recent.
RECENT = 10
# What `ops/upkeep` calls the files of state, among a checkpoint's shares.
STATE = "state"
# The rows of `ops/upkeep` that tell of it; maintenance and compactions tell less.
_TELLING = ("housekeeping", "state check")
# An act of upkeep writes the rows of all checkpoints in one file, so the newest row's file nearly
# always tells; so many times more rows are read where it does not.
_GROWTH = 16


@dataclass(frozen=True)
class PipelineStatus:
    """How a pipeline stands, and what is to be done. Times are in UTC; None: none yet.

    `source`: what it has that was not read, where its kind can tell; `drift`: what of it the
    pipeline's file does not name, where that was asked for. `state_bytes` is what the last
    upkeep left. `runs` are the recent ones by the time now, newest first. `problem` says all that
    is wrong where the file is invalid or the status cannot be told; no further facts are then.
    """

    name: str
    state: PipelineState
    next_step: str
    newest_event: datetime | None = None
    state_bytes: int | None = None
    tables: tuple[TableStatus, ...] = ()
    runs: tuple[RecentRun, ...] = ()
    source: Lag | NotAsked | None = None
    drift: SourceDrift | None = None
    problem: str | None = None

    @property
    def watermark(self) -> datetime | None:
        """That of the table which is furthest behind."""
        return min((table.watermark for table in self.tables if table.watermark), default=None)


def file_status(file: Path, settings: Settings, now: datetime) -> PipelineStatus:
    """The status of the pipeline of one file, also where that is invalid."""
    try:
        pipeline = load_pipeline(file)
    except PipelineFileInvalid as error:
        return invalid_file(error)
    return pipeline_status(pipeline, settings, now)


def invalid_file(error: PipelineFileInvalid) -> PipelineStatus:
    """The status of a pipeline whose file cannot be used."""
    step = f"Mend {error.file}: {error.problems[0].text}"
    return PipelineStatus(Path(error.file).stem, PipelineState.INVALID, step, problem=str(error))


def pipeline_status(
    pipeline: Pipeline, settings: Settings, now: datetime, with_drift: bool = False
) -> PipelineStatus:
    """The status of one pipeline, also where its places cannot be read. `now` is in UTC.

    `with_drift`: also what its source has come to, for which rows are read.
    """
    try:
        found = _status(pipeline, settings, now)
        # Where something is lost, its tables may be such as cannot be read.
        if with_drift and found.tables:
            drift = source_drift(Warehouse.of(pipeline.name, settings))
            return replace(found, drift=drift)
        return found
    except Exception as error:  # noqa: BLE001  whatever it is, the other pipelines are still told
        return unknown_status(pipeline.name, error)


def unknown_status(name: str, error: Exception) -> PipelineStatus:
    """The status of a pipeline that an error keeps from being read."""
    message = f"{type(error).__name__}: {error}"
    step = f"Mend what keeps its status from being read: {message.splitlines()[0]}"
    return PipelineStatus(name, PipelineState.UNKNOWN, step, problem=message)


def _status(
    pipeline: Pipeline, settings: Settings, now: datetime, looks: int = LOOKS
) -> PipelineStatus:
    name, warehouse = pipeline.name, Warehouse.of(pipeline.name, settings)
    check_root(settings)
    # Before the tables: a run that ends in between is not told as one that was killed.
    record, lease = read_lease(warehouse.places.lease, warehouse.options), None
    if record is not None and not record.released:
        lease = HeldLease(record, decide(record, this_process("status", "status"), now))
    recorded = warehouse.runs.open()
    runs = recent_runs(recorded, name, RECENT, now=now)
    judged = runs
    if _found_the_lease_taken(runs):
        # However many they are: the one before them tells how the pipeline stands.
        judged += recent_runs(recorded, name, 1, (LeaseHeld.__name__,), now)
    at_work = lease is not None and lease.at_work
    # Tables that were changed by hand may be such as cannot be read as ours are.
    losses = () if at_work else find_losses(pipeline, warehouse)
    if losses and looks > 1 and read_lease(warehouse.places.lease, warehouse.options) != record:
        return _status(pipeline, settings, now, looks - 1)
    unfinished = unfinished_act(warehouse)
    frozen = frozen_before_ms(pipeline, ingest_checkpoint(warehouse)) if runs else None
    tables = tuple(
        table_status(table, operator_of(pipeline, table), warehouse, runs, frozen)
        for table in (pipeline.tables if not losses else ())
    )
    due = last_but_one_time(pipeline.schedule, now) if pipeline.schedule else None
    unpublished = sum(table.unpublished for table in tables)
    source = source_lag(pipeline, settings) if not losses else None
    acted = losses or not _found_the_lease_taken(judged)
    published = None if acted else last_published(pipeline, warehouse)
    # The store's clock is known under the lease only.
    clock = clock_faults(ingest_checkpoint(warehouse), Clocks(now, now))
    found = judge_pipeline(
        name, lease, judged, unpublished, due, losses, tables, source, unfinished, clock, published
    )
    if losses:
        return PipelineStatus(name, found.state, found.next_step, runs=runs)
    return PipelineStatus(
        name,
        found.state,
        found.next_step,
        newest_event=newest_event(warehouse.bronze, pipeline.source.event_time.column),
        state_bytes=state_bytes(warehouse.upkeep, name),
        tables=tables,
        runs=runs,
        source=source,
    )


def _found_the_lease_taken(runs: Sequence[RecentRun]) -> bool:
    """Did all of them, and so nothing?"""
    return all(run.error_class == LeaseHeld.__name__ for run in runs)


def state_bytes(upkeep: TablePlace, pipeline: str) -> int | None:
    """The bytes of state in all checkpoints of a pipeline: as their last state check found them,
    or as their last housekeeping left them, whichever was later: no file is listed.

    `upkeep` is the table `ops/upkeep`. None where it has no row of the pipeline.
    """
    table = upkeep.open()
    if table is None:
        return None
    number = 1
    while True:
        newest = newest_rows(table, pipeline, "time", number, _TELLING)
        rows = [row for row in newest if row.get("state") or row["shares"]]
        last = [row for row in rows if row["time"] == rows[0]["time"]]
        if last:
            return sum(_bytes(row) for row in last)
        if len(newest) < number:
            return None
        number *= _GROWTH


def _bytes(row: Mapping[str, Any]) -> int:
    """A state check's row is of one store; one of housekeeping has a share for all state."""
    if row.get("state") is not None:
        return int(row["state"]["bytes"])
    shares = [share for share in row["shares"] or () if share["kind"] == STATE]
    return sum(int(share["bytes"] - share["bytes_deleted"]) for share in shares)
