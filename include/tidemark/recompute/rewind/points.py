"""Which run a point of the source stands for: the newest at whose end it had not been read yet."""

from __future__ import annotations

from collections.abc import Mapping

from tidemark.checkpoint.doctor.findings import shown
from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import RewindRefused
from tidemark.gold.checkpoints import ingest_checkpoint
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.recompute.rewind.past_runs import PastRun, PastRuns, last_batch
from tidemark.sources.kinds import source_handle
from tidemark.sources.source import SourceHandle
from tidemark.storage.warehouse import Warehouse


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
