"""How much a source has that its pipeline has not read: an estimate, without a JVM."""

from __future__ import annotations

from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import TidemarkError
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.sources.kinds import placed_source
from tidemark.storage.files import Options


def new_input_bytes(pipeline: Pipeline, root: str, options: Options) -> int:
    """Bytes that came after the ingest's last batch was planned; nothing but speed may follow.

    0 where the source or the checkpoint cannot be read, which is for the run to say.
    """
    places = Places(root, pipeline.name)
    try:
        ingest = Checkpoint(places.ingest_checkpoint, options)
        return placed_source(pipeline, places, options).unread_bytes(ingest)
    except TidemarkError:
        return 0
