"""Is what a rewind reads again still there? Asked of the source as it would find its checkpoint."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc
import pyarrow.dataset as ds

from tidemark.checkpoint.doctor.findings import shown
from tidemark.checkpoint.log import Checkpoint
from tidemark.checkpoint.reading.source_offsets import FileOffset, source_offset
from tidemark.checkpoint.rewind.read import ReadAgain
from tidemark.errors import RewindRefused
from tidemark.pipeline.model import FilesSource, Pipeline
from tidemark.pipeline.reasons import LEFT_OUT
from tidemark.pipeline.settings.settings import Settings
from tidemark.recompute.rewind.change import CHECKPOINT, LeftOut
from tidemark.runs.unfinished_act import rewind_folder
from tidemark.sources.files.unread import log_lists, same_place
from tidemark.sources.kinds import source_handle
from tidemark.sources.notes import (
    AcceptedLoss,
    SourceNotes,
    accepted_loss,
    notes_place,
    source_notes,
)
from tidemark.sources.source import LossAcceptance, LostInput
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.files import FileMissing, read_bytes, stat_files
from tidemark.storage.warehouse import Warehouse

_LOGS = ("offsets", "commits")
_PASSED_OVER = "The pipeline was taken back to before it was read, and goes on without it"


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


def read_since(ingest: Checkpoint, before: Collection[str]) -> ReadAgain:
    """Files that were read, and are none of `before`: they have to be read again."""
    taken = sorted(files_read(ingest).difference(before))
    found = stat_files(taken, ingest.options)
    return ReadAgain(tuple(taken), tuple(uri for uri in taken if found[uri] is None))


def gone_since(again: ReadAgain) -> Iterator[str]:
    """Of other sources than files `lost_again` tells."""
    if again.gone:
        yield (
            f"{len(again.gone):,} of the {again.files:,} files that were read since have to be "
            f"read again, and are gone: {shown(again.gone)}. Bring them back to the same paths."
        )


def left_out_files(
    pipeline: Pipeline,
    settings: Settings,
    ingest: Checkpoint,
    again: ReadAgain,
    names: Sequence[str],
    batch: int = -1,
) -> tuple[LeftOut, ...]:
    """The files that a rewind is to go on without, by their names or the ends of them; their rows
    behind a `batch` go. RewindRefused where one names none, or several, of those that are read
    again."""
    if names and not isinstance(pipeline.source, FilesSource):
        raise RewindRefused(
            f"--without {names[0]}: {pipeline.name} reads {pipeline.source.label}, and only of a "
            "source of files a part can be left out. Go back as it is, and take its rows out then: "
            "`tidemark retract`. Nothing was changed."
        )
    warehouse, left = Warehouse.of(pipeline.name, settings), {}
    for name in names:
        found = [uri for uri in again.uris if uri.endswith(name)]
        uri = name if name in found else found[0] if len(found) == 1 else None
        if uri is None:
            why = f"{len(found)} of them end so" if found else "none of them ends so"
            raise RewindRefused(
                f"--without {name}: of the {again.files:,} files that would be read again {why}: "
                f"{shown(sorted(found or again.uris))}. What was read before stays: `tidemark "
                f"retract {pipeline.name} --file …` takes rows out. Nothing was changed."
            )
        its = is_of_file(uri, settings.root, ingest) & (ds.field("_batch") > batch)
        accepted, rejected = (
            dataset_of(place.existing(), f"_batch > {batch}").count_rows(its)
            for place in (warehouse.bronze, warehouse.rejects)
        )
        is_there = uri not in again.gone
        left[uri] = LeftOut(file=uri, accepted=accepted, rejected=rejected, is_there=is_there)
    return tuple(left.values())


def is_of_file(uri: str, root: str, ingest: Checkpoint) -> ds.Expression:
    """Which rows are of a file. Where the root was moved since, they name it below the former
    one."""
    name, here = ds.field("_file"), same_place(root).rstrip("/")
    below = same_place(uri).removeprefix(here)
    moves = [
        one for one in source_notes(ingest).lost if one.batch is None and one.reason != LEFT_OUT
    ]
    if not moves or below == same_place(uri):
        return name == uri
    tail = "/".join(uri.split("/")[-below.count("/") :])
    return pc.ends_with(name, pattern=f"/{tail}")


def passed_over(left: Iterable[LeftOut], accepted: LossAcceptance) -> Iterator[AcceptedLoss]:
    """Notes of the files that lie there, which the next runs pass over. One that is gone needs
    none: what comes under its name is another file."""
    for one in left:
        if one.is_there:
            yield accepted_loss(LostInput(one.file, LEFT_OUT, _PASSED_OVER), accepted)


def with_left_out(notes: str | None, left: Iterable[AcceptedLoss]) -> str | None:
    """The source's notes with these, where they lack them."""
    found = SourceNotes.model_validate_json(notes) if notes else SourceNotes()
    known = {one.part for one in found.lost if one.reason == LEFT_OUT}
    new = tuple(one for one in left if one.part not in known)
    if not new:
        return notes
    return found.model_copy(update={"lost": (*found.lost, *new)}).model_dump_json(indent=1)


def files_read(checkpoint: Checkpoint) -> frozenset[str]:
    """The files that the batches of a checkpoint read, by the source's own lists: the numbers of
    batches come again behind a rewind. None of another source."""
    last = checkpoint.last_batch("offsets")
    texts = [] if last is None else checkpoint.offsets(last).sources
    found = (source_offset(text) for text in texts if text)
    if last is None or not any(isinstance(one, FileOffset) for one in found):
        return frozenset()
    end = checkpoint.log_offset(last)
    lists = (checkpoint.listed_files(name) for name in log_lists(checkpoint))
    return frozenset(one.uri for files in lists for one in files if one.batch <= end)


def notes_text(ingest: Checkpoint) -> str | None:
    """The source's notes as they are; None where there are none."""
    try:
        return read_bytes(notes_place(ingest), ingest.options).decode()
    except FileMissing:
        return None


def notes_up_to(ingest: Checkpoint, batch: int) -> str | None:
    """The source's notes without what was accepted, as lost or of the clock, for later batches, and
    what the last act followed, where its batch is a later one: these numbers come again, and read
    other parts. NoteUnreadable as `source_notes`."""
    notes = source_notes(ingest)
    if notes == SourceNotes():
        return None
    kept = tuple(one for one in notes.lost if one.batch is None or one.batch <= batch)
    clock = tuple(one for one in notes.clock if one.batch is None or one.batch <= batch)
    # An act whose batch stays was followed, and its rows may have been rejects.
    act = notes.followed
    stays = act is not None and act.after is not None and act.after < batch
    update = {"lost": kept, "clock": clock, "followed": act if stays else None}
    return notes.model_copy(update=update).model_dump_json(indent=1)
