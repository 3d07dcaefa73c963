"""Fence tables after a takeover: what the owner before has in flight can no longer commit.

Delta lets no commit through whose transaction began before a change of the table's metadata.
An unrelated commit would not do: appends pass it.
"""

from __future__ import annotations

from collections.abc import Iterable

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from tidemark.commit_point import commit_point
from tidemark.pipeline.model import Pipeline
from tidemark.storage.delta.damage import not_committed
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.generation import generation_in_use
from tidemark.storage.warehouse import Warehouse

PROPERTY = "tidemark.lease"
# Delta's word for a commit that sets a property.
FENCING = "SET TBLPROPERTIES"
# Each lost attempt means that another commit came first, which then is one of before the fence.
_ATTEMPTS = 20


def fence_tables(places: Iterable[TablePlace], number: int) -> None:
    """Set the property `tidemark.lease` of each table that exists to the lease's number.

    Transactions that began before fail when they commit; those that begin later are the
    business of the lease's `check`. Each call commits, also where the property has this number
    already: repeating it after a crash is safe, and never less than a fence.
    """
    for place in places:
        table = place.open()
        if table is not None:
            _fence(table, number)


def pipeline_tables(pipeline: Pipeline, warehouse: Warehouse) -> tuple[TablePlace, ...]:
    """The tables that only the lease's owner writes: all of the pipeline's own."""
    of_tables = (
        place
        for table in pipeline.tables
        for place in (
            warehouse.changes(table, generation_in_use(warehouse, table)),
            warehouse.gold(table),
        )
    )
    copies = map(warehouse.lookup, pipeline.lookup)
    moved = (warehouse.retracted, warehouse.replayed)
    return (warehouse.bronze, warehouse.rejects, *moved, *copies, *of_tables)


@commit_point(
    "table fenced",
    after_a_kill="before and after: the lease says that a fence is due, and the next run fences "
    "all tables",
)
def _fence(table: DeltaTable, number: int) -> None:
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            table.alter.set_table_properties({PROPERTY: str(number)}, raise_if_not_exists=False)
        except CommitFailedError as error:
            failed = not_committed(
                table.table_uri,
                error,
                f"{table.table_uri} could not be fenced for lease {number}: another commit came "
                f"first {attempt} times ({error}). Nothing else was written. Does something write "
                "to it that takes no lease? Try again.",
            )
            if attempt == _ATTEMPTS or not failed.retry_can_help:
                raise failed from error
            table.update_incremental()
        else:
            return
