"""What a rewind of a pipeline changes: frozen, and kept in its folder as JSON.

A repetition after a kill carries out what stands there, and plans nothing anew; and the way back is
planned from it.
"""

from __future__ import annotations

from pydantic import Field

from tidemark.errors import RewindRefused
from tidemark.recompute.plans import CHANGE, ActPlan, read_plan
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import FileMissing
from tidemark.storage.result_file import Facts

CHECKPOINT = "checkpoint"


class TableBack(Facts):
    """A table of the pipeline that goes from version `seen` back to what it was at `version`.

    `batch`: the ingest query's transaction there (-1: none). `properties` were set since, and are
    set again.
    """

    uri: str
    seen: int
    version: int
    batch: int = -1
    properties: dict[str, str] = Field(default_factory=dict)


class GoldBack(Facts):
    """Gold of a table. `stays`: it is not taken back, as it was not published by then, but computed
    anew; `back` is None where there is none.

    `transactions` are what it said of itself then; the versions of bronze and rejects among them
    are noted as they are once these have gone back. `newest_generation`: the newest that was ever
    begun.
    """

    table: str
    back: TableBack | None
    stays: bool = False
    transactions: dict[str, int] = Field(default_factory=dict)
    newest_generation: int


class IngestBack(Facts):
    """The ingest's checkpoint. `listed`: its files as they were, by their names with their sizes.
    `removed` go, in this order; or the files are those of the backup `restored_from`.

    `batch`: the newest committed one afterwards. `notes` is the text of the source's notes
    afterwards, `notes_before` that of before; None for no file.
    """

    query: str
    listed: dict[str, int]
    removed: tuple[str, ...] = ()
    restored_from: str | None = None
    batch: int
    notes: str | None = None
    notes_before: str | None = None


class LeftOut(Facts):
    """A file that is not read again: how many rows bronze and rejects had of it, and whether it
    lies there yet, so that the next run passes it over."""

    file: str
    accepted: int
    rejected: int
    is_there: bool


class Reader(Facts):
    """A table of another pipeline that joins with this one's bronze."""

    pipeline: str
    table: str


class PipelineChange(ActPlan):
    """The change of one pipeline, as it was planned. `to`: where it goes, in words for people, and
    `to_run` where that is a run's end. `over_unfinished`: another rewind was in the middle, so that
    there is nothing to come back to. `undone` are the runs that count no more. `without`: files
    whose rows do not come again. `by` and `reason`: who did it, and why, where that was said."""

    to: str
    to_run: str | None = None
    over_unfinished: bool = False
    undone: tuple[str, ...] = ()
    ingest: IngestBack
    bronze: TableBack
    rejects: TableBack
    golds: tuple[GoldBack, ...]
    readers: tuple[Reader, ...] = ()
    without: tuple[LeftOut, ...] = ()
    by: str | None = None
    reason: str | None = None


def read_change(backup: FilePlace) -> PipelineChange:
    """The change that a folder of `rewinds` was made for. RewindRefused where it is no whole
    backup."""
    try:
        return read_plan(backup, PipelineChange, "a rewind", RewindRefused)
    except FileMissing as error:
        raise RewindRefused(
            f"{backup.uri} is no backup of a rewind, or one that was not finished: it has no "
            f"{CHANGE}. Before that is there, nothing of a pipeline is changed."
        ) from error
