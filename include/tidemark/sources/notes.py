"""What has to be known of a source that no offset tells: a file beside the ingest's checkpoint.

The losses that somebody accepted: what is gone is a verdict of the batch that would have read it.
And where reading began, of which topic or table by its id, until the first batch is planned. And
the clocks that somebody accepted, by which batches are planned.
"""

from __future__ import annotations

from typing import Literal, Protocol

from pydantic import AwareDatetime, Field, ValidationError

from tidemark.checkpoint.log import Checkpoint
from tidemark.commit_point import commit_point
from tidemark.errors import NoteUnreadable
from tidemark.pipeline.reasons import LEFT_OUT
from tidemark.sources.source import LossAcceptance, LostInput, PartVerdict
from tidemark.storage.files import FileMissing, read_bytes, write_bytes
from tidemark.storage.result_file import Facts


class AcceptedLoss(Facts):
    """Input that is gone and was accepted as lost: the part of it, why and how much, who accepted
    it and why.

    `id` is that of the topic or table, `batch` the one that has the verdict, where the kind says
    so; `was_planned`: the part is in what that batch was planned to read.
    """

    part: str
    id: str = ""
    batch: int | None = None
    was_planned: bool = False
    reason: str
    detail: str
    accepted: str
    by: str
    at: AwareDatetime

    @property
    def label(self) -> str:
        """For the reject that stands for it. The same whenever it is asked for."""
        return f"{self.detail}. Accepted by {self.by}: {self.accepted}"

    def verdict(self, since: str) -> PartVerdict:
        """On the part; `since` is what has to be known besides, or empty."""
        return PartVerdict(self.part, self.reason, f"{self.label} {since}".strip())


class AcceptedClock(Facts):
    """A clock that somebody accepted: beside the last planned batch and its time (None: there was
    none), and so many seconds ahead of the store's."""

    batch: int | None
    batch_time: AwareDatetime | None
    ahead_of_store: float
    accepted: str
    by: str
    at: AwareDatetime


class FollowedVersions(Facts):
    """Versions of the table of this id, `begin` to the one before `next`, that are read together as
    what they changed, by the act of this id. `mark`: the digest of the last one's commit; `after`:
    the number of the batch before theirs, None where a former version noted it."""

    id: str
    begin: int
    next: int
    mark: str | None
    act: str
    after: int | None = None


class FollowedOffsets(Facts):
    """Messages that are read together as what they changed, by the act of this id: `offset` is that
    of their batch, as the checkpoint has it, and `after` the number of the batch before it."""

    offset: str
    after: int
    act: str


Followed = FollowedVersions | FollowedOffsets


class OfBatch(Protocol):
    """What a kind knows of a loss that is a verdict of one batch."""

    @property
    def id(self) -> str: ...
    @property
    def batch(self) -> int | None: ...
    @property
    def was_planned(self) -> bool: ...


class SourceNotes(Facts):
    """`begins`: by part of the source, where the first batch begins, and `ids` by the name of the
    topic or table it was noted of. `lost` and `clock`: accepted, in the order of acceptance.
    `followed`: the last act by which changes of the source were followed."""

    version: Literal[1] = 1
    ids: dict[str, str] = Field(default_factory=dict)
    begins: dict[str, int] = Field(default_factory=dict)
    lost: tuple[AcceptedLoss, ...] = ()
    clock: tuple[AcceptedClock, ...] = ()
    followed: Followed | None = None


def accepted_loss(
    lost: LostInput, accepted: LossAcceptance, of: OfBatch | None = None
) -> AcceptedLoss:
    """A loss with who accepts it, and which batch has the verdict on it."""
    return AcceptedLoss(
        part=lost.part,
        id=of.id if of else "",
        batch=of.batch if of else None,
        was_planned=of.was_planned if of else False,
        reason=lost.reason,
        detail=lost.detail,
        accepted=accepted.reason,
        by=accepted.by,
        at=accepted.at,
    )


def source_notes(ingest: Checkpoint) -> SourceNotes:
    """Those of an ingest; empty where it has none yet. NoteUnreadable where they are none."""
    place = notes_place(ingest)
    try:
        return SourceNotes.model_validate_json(read_bytes(place, ingest.options))
    except FileMissing:
        return SourceNotes()
    except ValidationError as error:
        raise NoteUnreadable(
            f"{place} does not tell what of the source was read: it is damaged, or of a newer "
            "version of Tidemark. Nothing was read. Restore it from a backup, with the checkpoint "
            "beside it."
        ) from error


def left_out(ingest: Checkpoint) -> tuple[AcceptedLoss, ...]:
    """The parts that rewinds were to go on without. NoteUnreadable as `source_notes`."""
    return tuple(one for one in source_notes(ingest).lost if one.reason == LEFT_OUT)


@commit_point(
    "source noted",
    after_a_kill="before: the next run, or the acceptance when it is repeated, notes it again; "
    "after: it is known",
)
def write_source_notes(ingest: Checkpoint, notes: SourceNotes) -> None:
    """Replace them, behind the checkpoint's fence."""
    ingest.fence()
    write_bytes(notes_place(ingest), notes.model_dump_json(indent=1).encode(), ingest.options)


def notes_place(ingest: Checkpoint) -> str:
    """Where those of a checkpoint lie, a copy of one too: as `Places.source_notes`."""
    return f"{ingest.uri}.source.json"
