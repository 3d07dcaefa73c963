"""Is what a rewind reads again still there? Asked of the source as it would find its checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidemark.checkpoint.doctor.findings import shown
from tidemark.checkpoint.log import Checkpoint
from tidemark.checkpoint.reading.source_offsets import FileOffset, source_offset
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.recompute.rewind.change import CHECKPOINT
from tidemark.runs.unfinished_act import rewind_folder
from tidemark.sources.kinds import source_handle
from tidemark.sources.notes import SourceNotes, notes_place, source_notes
from tidemark.storage.files import FileMissing, read_bytes, stat_files
from tidemark.storage.warehouse import Warehouse

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
    cannot be asked. Files are looked for by their lists (`checkpoint/rewind/read.py`)."""
    after = AfterBatch(ingest.uri, ingest.options, last=batch)
    for lost in source_handle(pipeline, settings).lost(after):
        yield f"What has to be read again of {pipeline.source.label} is gone: {lost.detail}."


def accepted_since(ingest: Checkpoint, batch: int) -> Iterator[str]:
    """What was accepted as lost for a later batch is gone for these batches too."""
    for lost in source_notes(ingest).lost:
        if lost.batch is not None and lost.batch > batch:
            yield (
                f"What has to be read again is gone: {lost.part} ({lost.reason}), which {lost.by} "
                f"accepted as lost: {lost.accepted}."
            )


def copied_checkpoint(warehouse: Warehouse, rewind: str) -> Checkpoint:
    """The ingest's checkpoint in the backup of a rewind, the source's notes beside it."""
    uri = rewind_folder(warehouse, rewind).below(CHECKPOINT)
    return Checkpoint(uri, warehouse.options, warehouse.fence)


def gone_since(ingest: Checkpoint, before: Checkpoint, batch: int) -> Iterator[str]:
    """Files that only batches after one have read, and that `before` did not: they have to be read
    again, and are gone. Of other sources `lost_again` tells."""
    taken = _files_after(ingest, batch) - _files_after(before, batch)
    gone = [uri for uri, facts in stat_files(taken, ingest.options).items() if facts is None]
    if gone:
        yield (
            f"{len(gone):,} of the {len(taken):,} files that were read since have to be read "
            f"again, and are gone: {shown(sorted(gone))}. Bring them back to the same paths."
        )


def _files_after(checkpoint: Checkpoint, batch: int) -> set[str]:
    later = [one for one in checkpoint.batches("offsets") if one > batch]
    return {
        file.uri
        for one in later
        if any(isinstance(_offset(text), FileOffset) for text in checkpoint.offsets(one).sources)
        for file in checkpoint.source_files(one)
    }


def _offset(text: str | None) -> object:
    return None if text is None else source_offset(text)


def notes_text(ingest: Checkpoint) -> str | None:
    """The source's notes as they are; None where there are none."""
    try:
        return read_bytes(notes_place(ingest), ingest.options).decode()
    except FileMissing:
        return None


def notes_up_to(ingest: Checkpoint, batch: int) -> str | None:
    """The source's notes without what was accepted, as lost or of the clock, for later batches:
    these numbers come again, and read other parts. NoteUnreadable as `source_notes`."""
    notes = source_notes(ingest)
    if notes == SourceNotes():
        return None
    kept = tuple(one for one in notes.lost if one.batch is None or one.batch <= batch)
    clock = tuple(one for one in notes.clock if one.batch is None or one.batch <= batch)
    return notes.model_copy(update={"lost": kept, "clock": clock}).model_dump_json(indent=1)
