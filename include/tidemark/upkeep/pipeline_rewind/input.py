"""Is what a rewind reads again still there? Asked of the source as it would find its checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidemark.checkpoint.log import Checkpoint
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.sources.kinds import placed_source
from tidemark.sources.notes import SourceNotes, source_notes
from tidemark.storage.files import FileMissing, read_bytes

_LOGS = ("offsets", "commits")


@dataclass(frozen=True)
class AfterBatch(Checkpoint):
    """An ingest's checkpoint as it would be at the end of a batch."""

    last: int = -1

    def batches(self, log: str, ending: str = "") -> tuple[int, ...]:
        found = super().batches(log, ending)
        return tuple(one for one in found if one <= self.last) if log in _LOGS else found


def lost_again(
    pipeline: Pipeline, settings: Settings, ingest: Checkpoint, batch: int
) -> Iterator[str]:
    """What the batches after one would read and cannot any more. Raises what says that the source
    cannot be asked. Files are looked for by their lists (`upkeep/rewind/read.py`)."""
    after = AfterBatch(ingest.uri, ingest.options, last=batch)
    for lost in placed_source(pipeline, settings).lost(after):
        yield f"What has to be read again of {pipeline.source.told} is gone: {lost.detail}."


def notes_text(ingest: Checkpoint, place: str) -> str | None:
    """The source's notes as they are; None where there are none."""
    try:
        return read_bytes(place, ingest.options).decode()
    except FileMissing:
        return None


def notes_up_to(ingest: Checkpoint, batch: int) -> str | None:
    """The same without what was accepted as lost for later batches: these numbers come again, and
    read other parts. NoteUnreadable as `source_notes`."""
    notes = source_notes(ingest)
    if notes == SourceNotes():
        return None
    kept = tuple(one for one in notes.lost if one.batch is None or one.batch <= batch)
    return notes.model_copy(update={"lost": kept}).model_dump_json(indent=1)
