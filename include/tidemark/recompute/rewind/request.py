"""A rewind as it was asked for, and its plan."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from tidemark.checkpoint.doctor.findings import shown
from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import RewindRefused
from tidemark.gold.checkpoints import ingest_checkpoint
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.recompute.rewind.change import PipelineChange
from tidemark.recompute.rewind.past_runs import PastRun, PastRuns, last_batch, past_runs
from tidemark.recompute.rewind.plan import PipelineRewindPlan, plan_to_run, plan_undo
from tidemark.runs.requests import RewindRequest
from tidemark.runs.unfinished_act import ActKind, check_no_unfinished_act
from tidemark.sources.kinds import source_handle
from tidemark.sources.source import SourceHandle
from tidemark.storage.warehouse import Warehouse


def is_of(change: PipelineChange, asked: RewindRequest) -> bool:
    """Is the change that was begun what is asked for?"""
    if asked.finishes:
        return True
    files = {one.file for one in change.without}
    named = {name: {one for one in files if one.endswith(name)} for name in asked.without}
    if not all(named.values()) or files != set().union(*named.values()):
        return False
    if asked.undo is not None:
        return change.ingest.restored_from == asked.undo
    return asked.to_run is not None and change.to_run == asked.to_run


def planned(
    pipeline: Pipeline, settings: Settings, asked: RewindRequest, now: datetime
) -> PipelineRewindPlan:
    """Nothing is written. RewindRefused where it is nothing that can be planned, RewindUnfinished
    where another one is in the middle that it does not take back."""
    warehouse = Warehouse.of(pipeline.name, settings)
    if asked.undo is not None:
        check_no_unfinished_act(warehouse, unless=ActKind.REWIND)
        runs = past_runs(pipeline, warehouse)
        return plan_undo(pipeline, settings, runs, now, asked)
    check_no_unfinished_act(warehouse)
    runs = past_runs(pipeline, warehouse)
    if asked.to_offsets:
        to = run_before_offsets(pipeline, settings, runs, asked.offsets)
    elif asked.to_run is not None:
        to = runs.named(asked.to_run)
    else:
        raise RewindRefused(
            f"No rewind of {pipeline.name} was begun that would have to be finished. Say to the "
            "end of which run it goes back: --to-run RUN. Nothing was changed."
        )
    return plan_to_run(pipeline, settings, runs, to, now, asked)


def run_before_offsets(
    pipeline: Pipeline, settings: Settings, runs: PastRuns, offsets: Mapping[str, int]
) -> PastRun:
    """The newest run that had read none of these offsets, by the parts of the source that have
    them, nor later ones. RewindRefused where there is none."""
    warehouse = Warehouse.of(pipeline.name, settings)
    ingest, source = ingest_checkpoint(warehouse), source_handle(pipeline, settings)
    label = shown(f"{part} at {offset:,}" for part, offset in sorted(offsets.items()))
    for run in reversed(runs.runs):
        read = _read_to(source, ingest, last_batch(warehouse, ingest, run))
        if unknown := sorted(offsets.keys() - read.keys()):
            raise RewindRefused(
                f"At the end of {run.run} nothing was read of {shown(unknown)}: it is none of the "
                f"partitions that {pipeline.name} reads. Nothing was changed."
            )
        if all(read[part] <= offset for part, offset in offsets.items()):
            return run
    raise RewindRefused(
        f"No run is known at whose end {pipeline.name} had not read {label} yet, or the runs to go "
        "back to are all later. Nothing was changed."
    )


def _read_to(source: SourceHandle, ingest: Checkpoint, batch: int) -> Mapping[str, int]:
    found = source.read_to(ingest, batch)
    if found is None:
        raise RewindRefused(
            f"{source.pipeline.source.label} has no offsets of its own to go back to: name a run "
            "(--to-run). Nothing was changed."
        )
    return found
