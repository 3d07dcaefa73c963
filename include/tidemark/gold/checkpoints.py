"""Where a pipeline's queries have their checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemark.checkpoint.log import Checkpoint

if TYPE_CHECKING:
    # delta-rs, which a command that is asked for a path does without.
    from tidemark.storage.warehouse import Warehouse


def ingest_checkpoint(warehouse: Warehouse) -> Checkpoint:
    """That of the query that reads the source."""
    return Checkpoint(warehouse.places.ingest_checkpoint, warehouse.options, warehouse.fence)


def query_checkpoint(warehouse: Warehouse, table: str, generation: int) -> Checkpoint:
    """That of a generation of a table's query."""
    uri = warehouse.places.query_checkpoint(table, generation)
    return Checkpoint(uri, warehouse.options, warehouse.fence)
