"""Is a pipeline what its rewind planned? Looked at before it goes on."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from tidemark.checkpoint.doctor.judge import judge_checkpoint
from tidemark.checkpoint.rewind.plan import damage_of
from tidemark.checkpoint.rewind.read import list_checkpoint
from tidemark.errors import RewindUnproven
from tidemark.gold.checkpoints import ingest_checkpoint
from tidemark.pipeline.model import Pipeline
from tidemark.runs.losses import find_losses
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.pipeline_rewind.apply import left_to_begin
from tidemark.upkeep.pipeline_rewind.change import PipelineChange


def prove(change: PipelineChange, pipeline: Pipeline, warehouse: Warehouse, now: datetime) -> None:
    """RewindUnproven where tables and checkpoint are not what was planned, or do not fit each
    other: the pipeline stays stopped. `now` is in UTC."""
    wrong = tuple(_wrong(change, pipeline, warehouse, now))
    if wrong:
        raise RewindUnproven(
            f"{pipeline.name} was to be {change.to}, but what is there now is not what was planned:"
            f" {' '.join(wrong)} No run starts. Bring back what was: `tidemark rewind "
            f"{pipeline.name} --undo {change.id} --apply`."
        )


def _wrong(
    change: PipelineChange, pipeline: Pipeline, warehouse: Warehouse, now: datetime
) -> Iterator[str]:
    ingest = ingest_checkpoint(warehouse)
    yield from damage_of(judge_checkpoint(list_checkpoint(ingest).facts, now))
    newest = ingest.last_batch("commits")
    if (-1 if newest is None else newest) != change.ingest.batch:
        yield f"The newest commit of {ingest.uri} is {newest}, not {change.ingest.batch}."
    for place, back in ((warehouse.bronze, change.bronze), (warehouse.rejects, change.rejects)):
        batch = place.existing().transaction_version(change.ingest.query)
        if (-1 if batch is None else batch) != back.batch:
            yield f"{place.uri} holds batches up to {batch}, not up to {back.batch}."
    for table in left_to_begin(change, warehouse):
        yield f"{table} has begun no new generation."
    yield from map(str, find_losses(pipeline, warehouse))
