"""What a table's next generation comes after, also where gold, which says it, is gone."""

from __future__ import annotations

from datetime import UTC, datetime

from tidemark.gold.checkpoints import query_checkpoint
from tidemark.gold.state import is_published
from tidemark.runs.generations import generations
from tidemark.storage.generation import generation_of
from tidemark.storage.warehouse import Warehouse

_NEVER = datetime.min.replace(tzinfo=UTC)


def former_generation(warehouse: Warehouse, table: str) -> int:
    """The one that gold names. Where gold is gone, of those whose history is there the one whose
    query ran last: a rollback goes on with a lower number, and a killed migration leaves one that
    never ran. Else the newest."""
    gold = warehouse.gold(table).open()
    if gold is not None and is_published(gold):
        return generation_of(gold)
    numbers = generations(warehouse, table)
    there = [one for one in numbers if warehouse.changes(table, one).open() is not None]
    return max(there or numbers, key=lambda number: (_last_run(warehouse, table, number), number))


def _last_run(warehouse: Warehouse, table: str, number: int) -> datetime:
    checkpoint = query_checkpoint(warehouse, table, number)
    files = warehouse.file_at(f"{checkpoint.uri}/commits").files()
    return max((facts.modified for facts in files.values()), default=_NEVER)
