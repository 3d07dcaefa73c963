"""Sources whose batches we plan: an offset tells by itself what its batch reads, and what is gone
stops a run until somebody accepts that."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from tidemark.checkpoint.log import Checkpoint
from tidemark.sources.notes import (
    Followed,
    OfBatch,
    SourceNotes,
    accepted_loss,
    source_notes,
    write_source_notes,
)
from tidemark.sources.source import LossAcceptance, LostInput, PartVerdict, Reading, SourceHandle

SINCE_BRONZE = "Bronze keeps what it took; which of them were rejected is unknown"
Planned = TypeVar("Planned")
# What an offset says, of its text and its file; CheckpointUnreadable where it is none of ours.
OffsetOf = Callable[[str, str], Planned]


@dataclass(frozen=True)
class Position(Generic[Planned]):
    """The last batch that was planned, and its offset; `is_pending`: it is not committed, and runs
    again. No batch yet: `batch` is -1, and `offset` None or where the first one begins."""

    batch: int = -1
    offset: Planned | None = None
    is_pending: bool = False


@dataclass(frozen=True)
class Begin:
    """Where a first batch begins, by part of the source, and the ids by the name of the topic or
    table that has them: as `SourceNotes`."""

    begins: Mapping[str, int]
    ids: Mapping[str, str]


@dataclass(frozen=True)
class PlannedSourceHandle(SourceHandle, Generic[Planned]):
    """`Planned` is what the kind plans as an offset."""

    @staticmethod
    @abstractmethod
    def offset_of(text: str, place: str) -> Planned:
        """What an offset in the checkpoint says. `place`: its file. Raises CheckpointUnreadable."""

    @property
    @abstractmethod
    def is_from_now_on(self) -> bool:
        """Does the first run begin with what is yet to come?"""

    @abstractmethod
    def end(self) -> Begin:
        """Behind all that is there now."""

    @abstractmethod
    def noted_offset(self, notes: SourceNotes) -> Planned:
        """Of a first batch that begins where it was noted, and has read nothing."""

    @abstractmethod
    def losses(self, ingest: Checkpoint) -> Sequence[tuple[LostInput, OfBatch]]:
        """What is lost and was not accepted yet, in words and as the batch's that tells it."""

    @abstractmethod
    def left(
        self, ingest: Checkpoint, batch: int, since: str
    ) -> tuple[tuple[str, ...], tuple[PartVerdict, ...]]:
        """The parts of a batch that are read, and the verdicts on the rest, which end with
        `since`. Raises as `confirm`."""

    @abstractmethod
    def steps(self, ingest: Checkpoint) -> list[Planned]:
        """The offsets of the next batches; none where there is nothing to read. InputLost where
        some of it is gone."""

    def position(self, ingest: Checkpoint) -> Position[Planned]:
        """Where the ingest stands; before its first batch where that one begins, if it is noted."""
        position, notes = position_of(ingest, self.offset_of), source_notes(ingest)
        if position.offset is not None or not notes.begins or not self.is_from_now_on:
            return position
        return replace(position, offset=self.noted_offset(notes))

    def batch_offset(self, ingest: Checkpoint, batch: int) -> Planned:
        """The offset of a batch, as it was planned."""
        return batch_offset(ingest, batch, self.offset_of)

    def lost(self, ingest: Checkpoint) -> tuple[LostInput, ...]:
        return tuple(loss for loss, _ in self.losses(ingest))

    def accept_lost(
        self, ingest: Checkpoint, lost: Sequence[LostInput], accepted: LossAcceptance
    ) -> None:
        """What was lost or grew meanwhile is not accepted: runs stop at that."""
        parts, notes = {one.part for one in lost}, source_notes(ingest)
        found = [(loss, of) for loss, of in self.losses(ingest) if loss.part in parts]
        if found:
            entries = [accepted_loss(loss, accepted, of) for loss, of in found]
            lost_now = (*notes.lost, *entries)
            write_source_notes(ingest, notes.model_copy(update={"lost": lost_now}))

    def prepare(self, ingest: Checkpoint) -> None:
        """Where a first run begins behind what is there, that is noted: if it is killed before it
        plans a batch, the next one begins there, and not at a later end. Called under the lease,
        after `check` and before `steps`; to repeat it changes nothing."""
        if not self.is_from_now_on or self.position(ingest).offset is not None:
            return
        end, notes = self.end(), source_notes(ingest)
        update = {"begins": dict(end.begins), "ids": dict(end.ids)}
        write_source_notes(ingest, notes.model_copy(update=update))

    def reading(self, ingest: Checkpoint, batch: int, committed: Reading | None) -> Reading:
        if committed is None:
            return Reading(*self.left(ingest, batch, ""), {})
        read, verdicts = self.left(ingest, batch, SINCE_BRONZE)
        known = {one.part for one in committed.verdicts}
        new = tuple(one for one in verdicts if one.part not in known)
        return Reading(read, (*committed.verdicts, *new), committed.seen)


@dataclass(frozen=True)
class FollowedChange:
    """What a source changed of rows that were read: rows that went and rows that came, and what the
    ingest's next batch reads of it (`streaming/recompute/following.py`).

    `label` says what changed them, for people, and `way_on` what to do where that cannot be
    followed. `gone`: the keys, as text, of rows that are gone or others now; each of a row that was
    read, where `were_read`. `came`: those of rows that bronze has none of but what goes. `parts`:
    the partitions that rows of keys come from, where the kind has some. `new_rows`: what is to
    stand in the act's folder, for the batch.
    """

    follows: Followed
    label: str
    way_on: str
    gone: tuple[str, ...]
    came: tuple[str, ...] = ()
    were_read: bool = True
    parts: Mapping[str, int] | None = None
    new_rows: bytes | None = None


@dataclass(frozen=True)
class FollowedSourceHandle(PlannedSourceHandle[Planned]):
    """One whose rows may change after they were read, so that an act within the run follows."""

    @abstractmethod
    def to_follow(self, ingest: Checkpoint) -> Callable[[str], FollowedChange] | None:
        """What tells the change that the act of an id is to follow, or raises SourceRefused where
        it cannot be told; None where there is none, or a batch has something to read first. Raises
        as `check`."""

    @abstractmethod
    def has_followed(self, ingest: Checkpoint, followed: Followed) -> bool:
        """Is what an act follows read and committed?"""


def position_of(ingest: Checkpoint, offset_of: OffsetOf[Planned]) -> Position[Planned]:
    """Read from the checkpoint; raises CheckpointUnreadable."""
    last = ingest.last_batch("offsets")
    if last is None:
        return Position()
    committed = ingest.last_batch("commits")
    offset = batch_offset(ingest, last, offset_of)
    return Position(last, offset, committed is None or committed < last)


def batch_offset(ingest: Checkpoint, batch: int, offset_of: OffsetOf[Planned]) -> Planned:
    """The offset of a batch, as it was planned."""
    (text,) = ingest.offsets(batch).sources
    return offset_of(text or "", f"{ingest.uri}/offsets/{batch}")
