"""Are the ledger and a pipeline's folder of one moment?

The ledger is in the folder, and may come back from a backup alone, or be left where the rest does.
Asked by `losses.py`, of tables and checkpoints that fit each other:
- the ledger has lines of batches that a query has not planned: batches that come again would be
  taken for those that have their lines;
- a run published rows of batches that the ledger has no line of: a run accounts before it
  publishes, so the lines were there, and what was counted beside them comes no more.
A ledger without any line of the source's batches is built anew by the run (`repair_ops.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from deltalake import DeltaTable

from tidemark.errors import DataDamaged
from tidemark.gold.plan import noted_name
from tidemark.gold.state import gold_state
from tidemark.ledger.ledger import last_batch_written
from tidemark.runs.found import TableInventory
from tidemark.storage.delta.commits import ingest_commits
from tidemark.storage.delta.place import TablePlace


def misfits(tables: tuple[TableInventory, ...], place: TablePlace) -> Iterator[str]:
    """In a sentence each; nothing is written. A broken ledger is none: a run sets it aside."""
    try:
        ledger = place.open()
    except DataDamaged:
        return
    for table in tables:
        yield from _older_folder(table, ledger)
        last = last_batch_written(ledger, table.pipeline, str(table.ingest.id))
        lacking = published_after(table, last) if last >= 0 else None
        if lacking is not None:
            yield (
                f"Gold of {table.name} was published from batch {lacking} of {table.ingest.uri}, "
                f"and {place.uri} has its lines up to batch {last}: the ledger is older than the "
                "rest of the folder."
            )


def _older_folder(table: TableInventory, ledger: DeltaTable | None) -> Iterator[str]:
    """Held against what is planned: a batch's lines may be there before its commit is."""
    for query in (table.ingest, table.query):
        last = last_batch_written(ledger, table.pipeline, str(query.id))
        if last > query.planned:
            yield (
                f"The last planned batch of {query.uri} is {query.planned}, and the ledger has "
                f"its lines up to batch {last}: the rest of the folder is older than the ledger."
            )


def published_after(table: TableInventory, batch: int) -> int | None:
    """The last batch in bronze after this one that a run of the table's query has published; -1 is
    before the first. A migration, which knows the query by no batch, publishes what no run has
    accounted for yet."""
    gold, bronze, query = table.gold.table, table.bronze.table, table.query
    ingest = str(table.ingest.id)
    if gold is None or bronze is None:
        return None
    appended = bronze.transaction_version(ingest)
    if appended is None or appended <= batch:
        return None
    by_a_run = gold.transaction_version(noted_name(query.name, str(query.id)))
    if by_a_run is None or by_a_run < 0:
        return None
    published = gold_state(gold).bronze
    found = ingest_commits(bronze, ingest, batch).values()
    return max((one.batch for one in found if one.version <= published), default=None)
