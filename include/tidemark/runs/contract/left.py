"""What a batch that a run left behind has written to tables, by their transactions."""

from __future__ import annotations

from tidemark.pipeline.places import INGEST
from tidemark.runs.contract.recorded import RecordedQuery
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.warehouse import Warehouse


def left_begun(query: RecordedQuery, warehouse: Warehouse) -> bool:
    """Did a run leave a batch of which a table holds something? Then it ends as it was begun.

    True also where the checkpoint does not say which query it is of.
    """
    planned = _left(query)
    if planned is None:
        return False
    query_id = query.checkpoint.query_id()
    if query_id is None:
        return True
    versions = [
        None if (table := place.open()) is None else table.transaction_version(query_id)
        for place in _tables(query, warehouse)
    ]
    return any(version is not None and version >= planned for version in versions)


def never_committed(query: RecordedQuery, warehouse: Warehouse) -> bool:
    """Has a table's query planned its first batch, and does the table hold nothing yet?"""
    if query.name == INGEST or query.migrated or _left(query) != 0:
        return False
    return query.checkpoint.last_batch("commits") is None and not left_begun(query, warehouse)


def _left(query: RecordedQuery) -> int | None:
    """The batch that was planned and not committed."""
    planned = query.checkpoint.last_batch("offsets")
    is_left = query.checkpoint.restart_case().startswith("repeats")
    return planned if is_left else None


def _tables(query: RecordedQuery, warehouse: Warehouse) -> tuple[TablePlace, ...]:
    if query.name == INGEST:
        return warehouse.bronze, warehouse.rejects
    return (warehouse.changes(query.name, query.generation),)
