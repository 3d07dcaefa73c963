"""What a table's next generation comes after, also where gold, which says it, is gone."""

from __future__ import annotations

from tidemark.checkpoint.log import Checkpoint
from tidemark.runs.generations import generations
from tidemark.storage.generation import generation_of
from tidemark.storage.warehouse import Warehouse


def former_generation(warehouse: Warehouse, table: str) -> int:
    """The one that gold names. Where gold is gone, the newest whose query has run and whose history
    is there, else the newest with a history, else the newest: a killed migration leaves one that
    was never in use."""
    gold = warehouse.gold(table).open()
    if gold is not None:
        return generation_of(gold)
    newest_first = generations(warehouse, table)[::-1]
    told = [one for one in newest_first if warehouse.changes(table, one).open() is not None]
    ran = [
        one
        for one in told
        if Checkpoint.of_query(warehouse, table, one).last_batch("commits") is not None
    ]
    return next(iter([*ran, *told, *newest_first]))
