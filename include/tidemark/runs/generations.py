"""The generations of a table that were ever begun, and the number of the next one."""

from __future__ import annotations

from deltalake import DeltaTable

from tidemark.storage.delta.notes import PublishedNote, note_of
from tidemark.storage.generation import generation_in_use
from tidemark.storage.warehouse import Warehouse

# What a commit of gold that goes back says that it was started by.
ROLLBACK = "rollback"
_CONTRACT = ".contract.json"


def generations(warehouse: Warehouse, table: str) -> tuple[int, ...]:
    """Those that have a contract or a checkpoint, and the one in use; in their order."""
    used = generation_in_use(warehouse, table)
    folder = warehouse.places.query_checkpoint(table, used).rpartition("/")[0]
    names = warehouse.file_at(folder).names()
    numbers = (name.removesuffix(_CONTRACT) for name in names)
    return tuple(sorted({used, *(int(number) for number in numbers if number.isdecimal())}))


def next_generation(warehouse: Warehouse, table: str) -> int:
    """A number that was never used: whatever a killed migration left is nobody's."""
    return generations(warehouse, table)[-1] + 1


def rolled_back(gold: DeltaTable) -> bool:
    """Does gold's log say that somebody went back to a former generation?"""
    notes = (note_of(commit) for commit in gold.history())
    return any(isinstance(note, PublishedNote) and note.trigger == ROLLBACK for note in notes)
