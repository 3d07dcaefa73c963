"""A rewind as it was asked for, and its plan."""

from __future__ import annotations

from datetime import datetime

from tidemark.errors import RewindRefused
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.recompute.rewind.change import PipelineChange
from tidemark.recompute.rewind.past_runs import past_runs
from tidemark.recompute.rewind.plan import PipelineRewindPlan, plan_to_run, plan_undo
from tidemark.recompute.rewind.points import run_before_offsets
from tidemark.runs.requests import RewindRequest
from tidemark.runs.unfinished_act import ActKind, check_no_unfinished_act
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
