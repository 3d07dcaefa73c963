"""What was read from a checkpoint: plain frozen facts, which `doctor` judges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from tidemark.checkpoint.reading.layout import Section
from tidemark.checkpoint.reading.log_formats import (
    CommitEntry,
    ListedFile,
    OffsetEntry,
    partitions_of,
    repartitions,
)
from tidemark.checkpoint.reading.source_offsets import SourceOffset
from tidemark.checkpoint.reading.state_files import Store
from tidemark.checkpoint.reading.state_metadata import OperatorMetadata, StateSchema
from tidemark.storage.files import FileFacts

E = TypeVar("E")


class FileProblem(StrEnum):
    """Why a file could not be taken for what its name says."""

    EMPTY = "is empty"
    NOT_THE_FORMAT = "is cut off, or not what the engine writes"
    UNKNOWN_FORMAT = "has a format that is not known here"
    UNREADABLE = "could not be read"


@dataclass(frozen=True)
class Unreadable:
    """A file that is there and cannot be used; `held` says what it holds, or why."""

    name: str
    problem: FileProblem
    held: str = ""

    @property
    def undecided(self) -> bool:
        """Could nothing be told, good or bad: a newer format, or a store that did not answer?"""
        return self.problem in (FileProblem.UNKNOWN_FORMAT, FileProblem.UNREADABLE)

    @property
    def summary(self) -> str:
        return f"{self.name} {self.problem}" + (f" ({self.held})" if self.held else "")


@dataclass(frozen=True)
class Log(Generic[E]):
    """`offsets` or `commits`: the batches that have a file, and the newest of them as read.

    `empty`: of the batches that were not read, those whose file has 0 bytes.
    """

    name: str
    batches: tuple[int, ...]
    read: Mapping[int, E | Unreadable]
    empty: tuple[int, ...] = ()

    @property
    def newest(self) -> int | None:
        return self.batches[-1] if self.batches else None

    def entry(self, batch: int | None) -> E | None:
        """A batch's entry; None where it was not read, or could not be."""
        found = self.read.get(batch) if batch is not None else None
        return None if isinstance(found, Unreadable) else found


AnyLog = Log[OffsetEntry] | Log[CommitEntry]


@dataclass(frozen=True)
class SourceList:
    """The folder `sources/M` of a file source: the lists of its files.

    `lists`: the numbers that have a list of their own, `compacted` those whose list repeats all
    before it (`N.compact`). `newest_files`: what the newest lists name, at most as many as were
    asked for, with what their stores say of them now (None: gone). `not_checked` says why nothing
    was asked of the stores. `unreadable`: lists that could not be used.
    """

    lists: tuple[int, ...]
    compacted: tuple[int, ...]
    size: int
    newest_files: Mapping[ListedFile, FileFacts | None] = field(default_factory=dict)
    not_checked: str | None = None
    unreadable: tuple[Unreadable, ...] = ()

    @property
    def first_needed(self) -> int:
        """The oldest list that a start reads: the newest compacted one repeats all before it."""
        return max(self.compacted, default=0)


@dataclass(frozen=True)
class CheckpointSource:
    """A source of the query: its id in the offset log, and its newest offset.

    `offset` is None where the log has none yet. `initial` is what `sources/M/0` holds for a source
    that is no file source (Kafka's first offsets, a rate source's start).
    """

    id: str
    kind: str
    offset: SourceOffset | None
    file_list: SourceList | None = None
    initial: str | None = None


@dataclass(frozen=True)
class StatefulOperator:
    """A stateful operator: its stores, and what its own files say of it where they can be read.

    `shared`: by store folder, how many files the RocksDB snapshot that the next start loads shares
    with others, and their bytes. `missing_shared`: those of them that are gone or of another size.
    `cut`: files that do not end as a compressed stream ends. `opened`: were all files opened that
    build the version which is needed next?
    """

    id: int
    stores: tuple[Store, ...]
    metadata: OperatorMetadata | None = None
    schemas: Mapping[str, StateSchema] = field(default_factory=dict)
    unreadable: tuple[Unreadable, ...] = ()
    missing_shared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    shared: Mapping[str, Section] = field(default_factory=dict)
    opened: bool = True
    cut: tuple[str, ...] = ()

    @property
    def partitions(self) -> tuple[int, ...]:
        return tuple(sorted({store.id.partition for store in self.stores}))

    @property
    def store_names(self) -> tuple[str, ...]:
        return tuple(sorted({store.id.store for store in self.stores}))


@dataclass(frozen=True)
class CheckpointFacts:
    """A whole checkpoint, as far as it was read.

    `query_id` is None where there is no `metadata` file. `wrong_checksums`: files of those that
    were read which do not match the checksum beside them.
    """

    uri: str
    query_id: str | Unreadable | None
    offsets: Log[OffsetEntry]
    commits: Log[CommitEntry]
    sources: tuple[CheckpointSource, ...]
    operators: tuple[StatefulOperator, ...]
    sections: Mapping[str, Section]
    leftovers: Mapping[str, FileFacts]
    unknown: Mapping[str, FileFacts]
    wrong_checksums: tuple[str, ...] = ()

    @property
    def next_batch(self) -> int:
        """The batch that the next start runs (MicroBatchExecution.populateStartOffsets): the last
        planned one where it is not committed, else the one after it."""
        planned = self.offsets.newest
        if planned is None:
            return 0
        return planned + 1 if self.commits.newest == planned else planned

    @property
    def version_needed(self) -> int:
        """The version of the state that the next start loads: the number of the next batch; where
        the newest commit has no offsets, the version that its batch left."""
        committed = self.commits.newest
        return max(self.next_batch, -1 if committed is None else committed + 1)

    @property
    def conf(self) -> Mapping[str, str]:
        """The configuration that the newest readable offsets record; where these are of a
        repartition that was not finished, the one by which the state is there yet."""
        if self.repartitioning is not None and (former := self.offsets.entry(self.next_batch - 1)):
            return former.conf
        entries = [self.offsets.entry(batch) for batch in reversed(self.offsets.batches)]
        return next((entry.conf for entry in entries if entry), {})

    @property
    def partitions(self) -> int | None:
        """How many partitions each operator has, as is recorded: an offline repartition changes it
        there. What is left of more of them is only of versions before it."""
        return partitions_of(self.conf)

    @property
    def repartitioning(self) -> int | None:
        """To how many partitions a repartition was to bring the state that was planned as the
        newest batch, and not committed; no query starts then. None where there is none."""
        batch = self.offsets.newest
        planned, before = self.offsets.entry(batch), self.offsets.entry((batch or 0) - 1)
        if batch == self.commits.newest or planned is None or before is None:
            return None
        return planned.partitions if repartitions(before, planned) else None
