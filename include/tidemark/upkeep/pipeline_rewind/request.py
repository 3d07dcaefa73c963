"""A rewind as it was asked for, and its plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tidemark.errors import RewindRefused
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.unfinished_rewind import check_no_unfinished_rewind
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.pipeline_rewind.change import PipelineChange
from tidemark.upkeep.pipeline_rewind.past_runs import past_runs
from tidemark.upkeep.pipeline_rewind.plan import PipelineRewindPlan, plan_to_run, plan_undo
from tidemark.upkeep.pipeline_rewind.points import run_before_offsets


@dataclass(frozen=True)
class RewindRequest:
    """To the end of a run, or of the newest one that had not read these offsets (by part of the
    source); or the rewind of this id is taken back. None of these: what was begun is finished."""

    to_run: str | None = None
    undo: str | None = None
    to_offsets: Mapping[str, int] = field(default_factory=dict)

    def is_of(self, change: PipelineChange) -> bool:
        """Is it the change that was begun?"""
        if self.undo is not None:
            return change.ingest.restored_from == self.undo
        if self.to_offsets:
            return False
        return self.to_run is None or change.to_run == self.to_run


def planned(
    pipeline: Pipeline, settings: Settings, asked: RewindRequest, now: datetime
) -> PipelineRewindPlan:
    """Nothing is written. RewindRefused where it is nothing that can be planned, RewindUnfinished
    where another one is in the middle that it does not take back."""
    warehouse = Warehouse.of(pipeline.name, settings)
    if asked.undo is not None:
        runs = past_runs(pipeline, warehouse)
        return plan_undo(pipeline, settings, runs, asked.undo, now)
    check_no_unfinished_rewind(warehouse)
    runs = past_runs(pipeline, warehouse)
    if asked.to_offsets:
        to = run_before_offsets(pipeline, settings, runs, asked.to_offsets)
    elif asked.to_run is not None:
        to = runs.named(asked.to_run)
    else:
        raise RewindRefused(
            f"No rewind of {pipeline.name} was begun that would have to be finished. Say to the "
            "end of which run it goes back: --to-run RUN. Nothing was changed."
        )
    return plan_to_run(pipeline, settings, runs, to, now)
