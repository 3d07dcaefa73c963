"""What an erasure changes: frozen, and kept in its folder as JSON until it is done.

Neither the condition nor a value stands in it, but keyed digests of these where rows are to be
rejected that come again. The rows that stay are in files below the tables by then, which no commit
has added yet, so that a repetition after a kill has to find nothing anew.
"""

from __future__ import annotations

from datetime import date

from tidemark.errors import ErasureUnproven
from tidemark.ledger.erased import Digests, Erased
from tidemark.recompute.plans import ActPlan, read_plan
from tidemark.recompute.retract.change import RetractedTable
from tidemark.runs.unfinished_act import ActKind, PipelineAct
from tidemark.storage.delta.notes import ErasedNote
from tidemark.storage.delta.written_files import WrittenFile
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import FileMissing
from tidemark.storage.result_file import Facts

BRONZE, REJECTS, RETRACTED, REPLAYED = "bronze", "rejects", "retracted", "replayed"


class ErasedRows(Facts):
    """So many `rows` of bronze, rejects, `retracted` or `replayed`, at a version; `staying` hold
    the other rows of its files `leaving`, of these `dates` where any are told."""

    table: str
    version: int
    rows: int
    leaving: tuple[str, ...] = ()
    dates: tuple[date, ...] | None = None
    staying: tuple[WrittenFile, ...] = ()


class Erasure(ActPlan):
    """One act. `tables` are those that begin a generation; `again`: what it rejects from now on."""

    by: str
    reason: str
    erased: tuple[ErasedRows, ...]
    tables: tuple[RetractedTable, ...]
    again: Digests | None = None

    @property
    def rows(self) -> dict[str, int]:
        """How many rows go, by table."""
        return {one.table: one.rows for one in self.erased}

    @property
    def act(self) -> PipelineAct:
        """By which its pipeline is stopped."""
        return PipelineAct(ActKind.ERASURE, self.id)

    @property
    def record(self) -> Erased:
        """What is kept of it."""
        return Erased(
            id=self.id,
            at=self.planned_at,
            by=self.by,
            reason=self.reason,
            rows=self.rows,
            again=self.again,
        )

    def note(self, one: ErasedRows) -> ErasedNote:
        """What the commit of a table says."""
        return ErasedNote(id=self.id, rows=one.rows)


def read_erasure(folder: FilePlace) -> Erasure | None:
    """The plan of an act; None where there is none any more: it goes last of all. ErasureUnproven
    where it cannot be read."""
    try:
        return read_plan(folder, Erasure, "an erasure", ErasureUnproven)
    except FileMissing:
        return None
