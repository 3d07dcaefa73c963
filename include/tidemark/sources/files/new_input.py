"""How much a source has that its pipeline has not read: an estimate, without a JVM."""

from __future__ import annotations

from collections.abc import Mapping

from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import TidemarkError
from tidemark.pipeline.instants import epoch_ms
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.source_files import has_pattern, split_files
from tidemark.storage.files import list_files


def new_input_bytes(pipeline: Pipeline, root: str, options: Mapping[str, str]) -> int:
    """Bytes of the files that came after the ingest's last batch was planned.

    By the files' times, whatever their names: nothing but speed may follow from it. 0 where the
    source or the checkpoint cannot be read, which is for the run to say.
    """
    places = Places(root, pipeline.name)
    try:
        since_ms = _last_planned_ms(Checkpoint(places.ingest_checkpoint, options))
        folder = _fixed_folder(places.source(split_files(pipeline.source.files).folder))
        found = list_files(folder, options).values()
    except TidemarkError:
        return 0
    return sum(file.size for file in found if epoch_ms(file.modified) > since_ms)


def _last_planned_ms(checkpoint: Checkpoint) -> int:
    last = checkpoint.last_batch("offsets")
    return 0 if last is None else checkpoint.offsets(last).batch_time_ms


def _fixed_folder(folder: str) -> str:
    """The folder above the first one that is a pattern."""
    parts = folder.split("/")
    fixed = next((n for n, part in enumerate(parts) if has_pattern(part)), len(parts))
    return "/".join(parts[:fixed])
