"""Which generation of a table is in use: gold says it, in a transaction of its commits.

A generation is a table's query with its checkpoint, its contract and its `changes`. Which of them
people read changes with gold's content, in one commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemark.pipeline.places import FIRST_GENERATION

if TYPE_CHECKING:
    # Dags are parsed with what plans a publish, which only needs the name.
    from deltalake import DeltaTable

    from tidemark.storage.warehouse import Warehouse

# The app transaction of gold.
GENERATION = "generation"


def generation_of(gold: DeltaTable | None) -> int:
    """The generation that gold names; the first one where there is no gold yet."""
    found = None if gold is None else gold.transaction_version(GENERATION)
    return FIRST_GENERATION if found is None else found


def generation_in_use(warehouse: Warehouse, table: str) -> int:
    """The generation of a pipeline's table that gold names; the first one where there is no gold
    yet."""
    return generation_of(warehouse.gold(table).open())
