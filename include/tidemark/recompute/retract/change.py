"""What a retraction changes: frozen, and kept in its folder as JSON, with who did it and why.

A repetition after a kill carries out what stands there, and plans nothing anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING

from tidemark.errors import RetractionRefused
from tidemark.recompute.plans import CHANGE, ActPlan, read_plan
from tidemark.sources.notes import Followed
from tidemark.storage.delta.notes import RetractedNote
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import FileMissing
from tidemark.storage.result_file import Facts

if TYPE_CHECKING:
    from tidemark.storage.warehouse import Warehouse


class RetractedTable(Facts):
    """A table of the pipeline that begins a generation. `gold`: the version seen, None for none;
    `newest_generation`: the newest that was ever begun."""

    table: str
    gold: int | None
    newest_generation: int


class ChangedRows(Facts):
    """How many rows of gold have other values, are gone or are new, and the first of them."""

    windows: int
    examples: tuple[str, ...] = ()


class Retraction(ActPlan):
    """One act: rows go from bronze to `retracted`, or, where it `undoes` another act, back.

    `rows` of bronze at version `bronze` fulfil the `condition` (Spark SQL); they lie on `dates`, in
    `files` with other rows, `staying` ones; `twins` rejects repeat them. Of an
    undo the rows are those of the act in `retracted`, and nothing of bronze is written again. Where
    it `follows` what the source changed, a batch reads the rows that came with that, `key` has the
    columns that told rows apart (None: a former version did not note them), and `missing` are the
    keys of rows that went of a table, and that bronze did not have.
    """

    by: str
    reason: str
    what: str
    condition: str
    undoes: str | None = None
    bronze: int
    rows: int
    dates: tuple[date, ...]
    files: tuple[str, ...] = ()
    staying: int = 0
    twins: int = 0
    tables: tuple[RetractedTable, ...]
    follows: Followed | None = None
    key: tuple[str, ...] | None = None
    missing: tuple[str, ...] = ()

    @property
    def transaction(self) -> str:
        """The app transaction of the rows' append."""
        return f"retraction/{self.id}"

    @property
    def note(self) -> RetractedNote:
        """What its commits say."""
        return RetractedNote(id=self.id, rows=self.rows, undoes=self.undoes)


def read_retraction(folder: FilePlace) -> Retraction:
    """The plan of an act. RetractionRefused where there is none."""
    try:
        return read_plan(folder, Retraction, "a retraction", RetractionRefused)
    except FileMissing as error:
        raise RetractionRefused(
            f"There is no {folder.below(CHANGE)}: nothing was retracted by such an act, or rows "
            "were erased since, behind which nothing goes back. Nothing was changed."
        ) from error


def acts_since(warehouse: Warehouse, act: str) -> Iterator[Retraction]:
    """The plans of acts behind this one, each read as far as somebody asks."""
    plans = warehouse.file_at(warehouse.places.retractions)
    since = [plans.folder(one) for one in plans.names() if one > act]
    # One that was killed before it had a plan has none.
    yield from (read_retraction(one) for one in since if CHANGE in one.names())
