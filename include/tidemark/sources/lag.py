"""How far a pipeline is behind its source, without a JVM."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import TidemarkError
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.sources.kinds import source_handle
from tidemark.sources.source import Lag


@dataclass(frozen=True)
class NotAsked:
    """The source could not be asked; why."""

    because: str


def source_lag(pipeline: Pipeline, settings: Settings) -> Lag | NotAsked | None:
    """What is there and not read, now; None where the kind of source cannot tell. Nothing is
    raised: a source that is away is told by the run that needs it."""
    try:
        source = source_handle(pipeline, settings)
        return source.lag(
            Checkpoint(source.places.ingest_checkpoint, source.settings.storage_options)
        )
    except TidemarkError as error:
        return NotAsked(f"{type(error).__name__}: {error}")
