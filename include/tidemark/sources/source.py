"""What a source is without Spark: what every kind of it has to say of itself.

The engine plans a batch as two offsets in the ingest's checkpoint. A source knows which parts lie
between them, and which of these can be read; it does not guess: where a part vanished or changed
between planning and reading, the batch goes on without it and a verdict says so.
"""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import InputNeeded, StorageUnavailable
from tidemark.pipeline.difference import Difference
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa


# What the machine lacks, and what a mount that is away says, is no fault of the part that is read:
# numbers of an OSError.
_NOT_THE_PART = {
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS),
    *(errno.EIO, errno.ESTALE, errno.ENOLINK, errno.ENOTCONN, errno.ESHUTDOWN, errno.ETIMEDOUT),
    *(errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH, errno.ENETRESET),
    *(errno.ECONNRESET, errno.ECONNABORTED, errno.ECONNREFUSED),
}
# Further columns that a piece of lines may have (`Slice.lines`).
REASON, DETAIL, AS_READ = "_reason", "_detail", "_as_read"


@dataclass(frozen=True)
class OriginColumn:
    """A column of bronze and rejects that says where a row comes from.

    `name` begins with `_`; `type` is one of Delta's primitive types. Rows of equal event time are
    told apart by those that `orders`; another one is null in rows that an earlier version read.
    """

    name: str
    type: str
    comment: str
    orders: bool = True


def ordering(origin: Sequence[OriginColumn]) -> tuple[OriginColumn, ...]:
    """The columns of an origin that order rows."""
    return tuple(one for one in origin if one.orders)


# Of files.
PLACE = OriginColumn(
    "_place",
    "long",
    "Where the record is in the file, from 0: of JSON lines the byte, else the record's number",
    orders=False,
)
# Of a pipeline that explodes an array; null in the reject of a whole record.
ELEMENT = OriginColumn("_element", "integer", "The row's place in its record's array, from 0")


@dataclass(frozen=True)
class PartVerdict:
    """A part of a source that was rejected as a whole.

    A part is what a kind reads as one, as text that only the kind takes apart: a file's URI
    (percent-encoded, as everywhere), a range of offsets.
    """

    part: str
    reason: str
    detail: str


@dataclass(frozen=True)
class Reading:
    """The parts of a batch that are read, and verdicts on the others.

    `seen` holds what a kind saw that was another than planned, such as a file's time; it is
    committed with bronze, so that a replay knows what bronze holds.
    """

    read: tuple[str, ...]
    verdicts: tuple[PartVerdict, ...]
    seen: Mapping[str, int]


@dataclass(frozen=True)
class LostInput:
    """Input that is gone and was not read: the text of a part of it, why, and for people what is
    lost (how much, since when). `is_another`: what stands in its place is not the source that was
    read so far, and is read from its beginning once this is accepted. `is_kept`: nothing is gone,
    it lies elsewhere, and no reject tells of it."""

    part: str
    reason: str
    detail: str
    is_another: bool = False
    is_kept: bool = False


@dataclass(frozen=True)
class LossAcceptance:
    """Who accepts a loss, why, and when (UTC)."""

    reason: str
    by: str
    at: datetime


@dataclass(frozen=True)
class Lag:
    """`messages` (or rows) are there and not read; the oldest of them came at `since` (UTC), None
    where there is none or its time is not known. `lost`: so many parts of the source are gone, and
    the next run stops at that.

    Of files nobody knows the rows before they are read: `messages` is None, and `files` with
    `bytes` together are not read."""

    messages: int | None
    since: datetime | None
    lost: int = 0
    files: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class FirstRows:
    """The first rows of a source, as a source that a trial reads below another root.

    `source` are the entries of a pipeline's `source` that say where rows come from. It has `rows`
    rows of `parts` parts, which people call a `row` and a `part`; `notes` say what was passed over.
    """

    source: Mapping[str, Any]
    rows: int
    parts: int
    row: str
    part: str
    notes: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What it is of the source, for people."""
        first = f"the only {self.row}" if self.rows == 1 else f"the first {self.rows:,} {self.row}s"
        parts = f"1 {self.part}" if self.parts == 1 else f"{self.parts:,} {self.part}s"
        return f"{first} of its source, of {parts}"


class PartUnreadable(Exception):
    """A part cannot be read to its end, and the part itself is at fault. The text says why."""

    def __init__(self, part: str, cause: str) -> None:
        super().__init__(part, cause)
        self.part = part
        self.cause = cause


def check_is_of_the_part(part: str, error: Exception) -> None:
    """Raise StorageUnavailable where an error is of the machine or of a mount, not of the part."""
    if isinstance(error, OSError) and error.errno in _NOT_THE_PART:
        raise StorageUnavailable(
            f"{part} could not be read: {error}. Nothing was said of it, and its batch was not "
            "committed. Start again once it can be read."
        ) from error


@dataclass(frozen=True)
class TypedRows:
    """Rows that have types, in their order: a struct each (`rows`), and the origin's columns.

    `lines` makes lines of those at some places (None: of all), in the columns of `Slice.lines`.
    `small`: of which
    the types may be asked at all, as their lines would surely be small enough, as NumPy's booleans.
    `are_texts`: a text stands for a number or boolean where its column is of these.
    """

    rows: pa.Array[Any]
    origin: pa.Table
    small: Any
    lines: Callable[[pa.Array[Any] | None], pa.Table]
    are_texts: bool = False


class Slice(ABC):
    """Lines of one part, or of several, that are read by one process: plain data, which can be sent
    to another.

    `numbers_in_text`: may a text be a number? Not where a kind that has texts alone made numbers of
    those that are.
    """

    numbers_in_text: ClassVar[bool] = True

    @property
    @abstractmethod
    def label(self) -> str:
        """Where it lies, for a log."""

    @property
    @abstractmethod
    def estimated_bytes(self) -> int:
        """About how many bytes its lines have together."""

    def typed(self, most_bytes: int) -> Iterator[TypedRows] | None:
        """Rows with their types, all that `lines` makes lines of; None: the kind has lines alone.
        Raises as `lines`."""
        return None

    @abstractmethod
    def lines(self, most_bytes: int) -> Iterator[pa.Table]:
        """The lines in pieces, in their order: `_value` (binary, without its end) and the origin's
        columns.

        A kind that rejects lines by itself has REASON and DETAIL too (text; null: judge the line),
        and the value of such a line may be null. It does so with each line of more than
        `most_bytes` (`large_lines`), and holds as little of it as it can. One that knows more of a
        line than it says has AS_READ: the line as it is judged (binary).

        Raises PartUnreadable, SourceChanging where the part is not what was planned, and
        StorageUnavailable where that cannot be told.
        """


@dataclass(frozen=True)
class SourceHandle(ABC):
    """A pipeline's source, where it lies. `settings` say how it is reached.

    `origin`: where a row comes from. Rows of equal event time are told apart by those of these
    columns that order, one after the other, and then by the line's text; so they must not depend on
    how a batch is read.
    """

    pipeline: Pipeline
    settings: Settings

    origin: ClassVar[tuple[OriginColumn, ...]]

    @property
    def places(self) -> Places:
        return Places(self.settings.root, self.pipeline.name)

    @abstractmethod
    def check(self, ingest: Checkpoint) -> None:
        """Raise SourceNotFound where it is not there, TableLost where it is not the one that was
        read so far, InputLost where some of it is gone that was not read (`lost`).

        Asked before a run writes anything.
        """

    def lost(self, ingest: Checkpoint) -> tuple[LostInput, ...]:
        """What the next batch should read and cannot, because it is gone or is another's now, and
        that nobody accepted yet: runs stop at it (`check` raises InputLost). None where what is
        lost is a verdict by itself. Nothing is written."""
        return ()

    # What a kind may leave out.
    def accept_lost(  # noqa: B027
        self, ingest: Checkpoint, lost: Sequence[LostInput], accepted: LossAcceptance
    ) -> None:
        """Let runs go on without it: the next batches have a verdict on each part. Called under the
        pipeline's lease, whose fence is the checkpoint's; to repeat it changes nothing."""

    def confirm(self, ingest: Checkpoint, batch: int) -> None:  # noqa: B027
        """Raise InputLost where what was read of a batch may not be what was planned: called when
        it was read, before anything of it is committed."""

    def offsets_read(self, reading: Reading, lines: int) -> int | None:
        """How many offsets the parts have that were read, and had so many lines together; None
        where the kind has none. Raises LedgerUnbalanced where the kind knows another number of
        lines. Of a batch whose bronze is committed it is asked with the lines of both tables."""
        return None

    def lag(self, ingest: Checkpoint) -> Lag | None:
        """How far the ingest is behind what is there now; None where the kind cannot tell. Raises
        what it meets."""
        return None

    def read_to(self, ingest: Checkpoint, batch: int) -> Mapping[str, int] | None:
        """By part of the source, the offset that the batch after one begins with; None where the
        kind has none. Raises CheckpointUnreadable."""
        return None

    @abstractmethod
    def unread(self, ingest: Checkpoint) -> str | None:
        """What the ingest's next batch would read, or may read, as a text; None where nothing is.

        The ingest stands at a clean end. What cannot be told is raised.
        """

    @abstractmethod
    def unread_bytes(self, ingest: Checkpoint) -> int:
        """An estimate of the same: nothing but speed may follow from it. Raises what it meets."""

    @abstractmethod
    def reading(self, ingest: Checkpoint, batch: int, committed: Reading | None) -> Reading:
        """The parts of a batch that are read. Where nothing of it is committed, its slice as it is
        now; where bronze is, with the verdicts and what was seen of `committed`, these stay, and
        only the rejects of parts that are as they were then can be judged."""

    @abstractmethod
    def slices(self, ingest: Checkpoint, batch: int, reading: Reading) -> Sequence[Slice]:
        """All lines of the parts that are read, each in one slice, ordered by part.

        Raises SourceChanging where a part is no longer what `reading` was made from.
        """

    def provide(self, ingest: Checkpoint, batch: int, needed: Sequence[str]) -> None:
        """Fetch what reading a batch's slices said that they need (InputNeeded): the slices that
        are asked for next have it. It is kept beside the checkpoint, so that a repeat says the
        same without it. Raises SourceUnavailable, SourceRefused; and InputNeeded again, where the
        kind fetches nothing."""
        raise InputNeeded(tuple(needed))

    @abstractmethod
    def left_out(
        self,
        ingest: Checkpoint,
        batch: int,
        reading: Reading,
        unreadable: Mapping[str, str],
        repeated: bool,
    ) -> Reading:
        """The reading with verdicts on parts that turned out not to be readable, with the cause.

        `repeated`: bronze of the batch is committed, so that such a part is one that changed since.
        """

    @abstractmethod
    def origin_of(self, part: str) -> Mapping[str, Any]:
        """The origin columns of the reject that stands for a whole part."""

    @abstractmethod
    def first_rows(self, most: int, copies: Path) -> FirstRows:
        """At most so many rows, from the beginning, as a source by itself: what a run would do with
        them is what a run over that source does. Only where the source cannot be read in part, the
        rows are copied, below the folder `copies`, which is below the other root.

        No row is no error. SampleUnusable, and what reading the source raises, where it cannot be
        looked at.
        """

    @classmethod
    @abstractmethod
    def changes(cls, old: Pipeline, new: Pipeline) -> Iterator[Difference]:
        """What it means that the pipeline's file names another place of this kind, or other
        limits of reading it."""
