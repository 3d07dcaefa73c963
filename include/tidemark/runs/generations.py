"""The generations of a table that were ever begun, and the number of the next one."""

from __future__ import annotations

from datetime import datetime

from deltalake import DeltaTable

from tidemark.operators.repaired import MIGRATION
from tidemark.pipeline.instants import instant_of
from tidemark.storage.delta.notes import PublishedNote, note_of
from tidemark.storage.generation import generation_in_use
from tidemark.storage.warehouse import Warehouse

# What a commit of gold that goes back says that it was started by.
ROLLBACK, REWIND = "rollback", "rewind"
# What started a retraction, and an erasure.
RETRACT, ERASE = "retract", "erase"
# The app transaction of gold that notes the generation which it went back from.
ABANDONED = "abandoned"
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


def abandoned(gold: DeltaTable) -> int:
    """The newest generation that somebody went back from, by gold's transactions; 0 for none."""
    return gold.transaction_version(ABANDONED) or 0


def begun_at(gold: DeltaTable) -> datetime | None:
    """When the generation in use took its place, or took it again, by its writer's clock, in UTC.
    None where gold's log does not know of it: then it is older than the log, or the first."""
    for commit in gold.history():
        note = note_of(commit)
        if isinstance(note, PublishedNote) and note.trigger in (MIGRATION, ROLLBACK):
            return instant_of(commit["timestamp"])
    return None
