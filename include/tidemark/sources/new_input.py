"""How much a source has that its pipeline has not read: an estimate, without a JVM."""

from __future__ import annotations

from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import TidemarkError
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.sources.kinds import source_handle


def new_input_bytes(pipeline: Pipeline, settings: Settings) -> int:
    """Bytes that came after the ingest's last batch was planned; nothing but speed may follow.

    0 where the source or the checkpoint cannot be read, which is for the run to say.
    """
    try:
        source = source_handle(pipeline, settings)
        ingest = Checkpoint(source.places.ingest_checkpoint, source.settings.storage_options)
        return source.unread_bytes(ingest)
    except TidemarkError:
        return 0
