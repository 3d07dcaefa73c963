"""What maintenance would do to a table or a folder, and why: a frozen plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow.dataset as ds

from tidemark.storage.files import FileFacts


class Work(StrEnum):
    """The kinds of work. Compaction replaces files, the others remove files or rows."""

    COMPACTION = "compaction"
    UNUSED_FILES = "unused files"
    LOG = "log"
    OLD_ROWS = "old rows"
    RESULT_FILES = "result files"
    FORMER_CHECKPOINTS = "former checkpoints"


@dataclass(frozen=True)
class Part:
    """The files (or rows) that one kind of work is about; `going` of them are replaced or go.

    Sizes are in bytes; None for rows. `reason` says why those go, or why the others stay.
    """

    work: Work
    number: int
    size: int | None
    going: int
    going_size: int | None
    reason: str

    @classmethod
    def of_files(
        cls, work: Work, files: Mapping[str, FileFacts], going: Collection[str], reason: str
    ) -> Part:
        """Of files by their places, some of which go."""
        size, going_size = (sum(files[one].size for one in places) for places in (files, going))
        return cls(work, len(files), size, len(going), going_size, reason)


@dataclass(frozen=True)
class MaintenancePlan:
    """What is to be done at `uri`, in this order; carrying out any part of it leaves all readers
    with what they had.

    `compact`: the values of the partition column whose files are packed, under its name; under ""
    for a table without partitions. `keep_rows`: the rows of the pipeline that stay, where others
    go. `drop_rejects`: the last batch whose rejects go. `checkpoint`: a checkpoint of the log is
    due. `remove`: the places of files that go. `refused` says why nothing is planned, though there
    may be something to do; `advice` what to do then, None where that is for nobody to mend.
    """

    name: str
    uri: str
    parts: tuple[Part, ...] = ()
    compact: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    keep_rows: ds.Expression | None = None
    drop_rejects: int | None = None
    checkpoint: bool = False
    remove: tuple[str, ...] = ()
    refused: str | None = None
    advice: str | None = None
