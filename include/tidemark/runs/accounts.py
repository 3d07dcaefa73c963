"""The accounts of a run: its lines in the ledger, written and checked before publish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from tidemark.ledger.emitted import emitted_by_batch
from tidemark.ledger.ledger import (
    UNPUBLISHED,
    LedgerLine,
    check_balance,
    check_ledger,
    last_batch_written,
    write_ledger,
)
from tidemark.ledger.lines import ingest_lines, recomputed_lines, stream_lines
from tidemark.operators.repaired import Repaired
from tidemark.runs.run import Run, TableRun


def account(run: Run, tables: Mapping[str, TableRun], repaired: Mapping[str, Repaired]) -> None:
    """Write the run's lines; LedgerUnbalanced, once they are written, where one does not add up.

    So does a line of an earlier run: nothing is published until that is mended. What was computed
    from bronze is checked itself: a repeat of a computation has no line of its own.
    """
    ledger, name = run.warehouse.ledger, run.pipeline.name
    query = str(run.ingest_checkpoint().query_id())
    written = last_batch_written(ledger.open(), name, query)
    bronze, rejects = run.warehouse.bronze.existing(), run.warehouse.rejects.existing()
    lines = ingest_lines(bronze, rejects, query, written)
    for table, of_table in tables.items():
        lines += _lines_of_table(of_table, repaired[table])
    write_lines(run, lines)
    check_ledger(ledger, name)
    check_balance(name, [line for line in lines if line.batch is None], UNPUBLISHED)


def write_lines(run: Run, lines: Sequence[LedgerLine]) -> None:
    """Append those that the ledger lacks, as of now."""
    ledger, name, now = run.warehouse.ledger, run.pipeline.name, datetime.now(UTC)
    write_ledger(ledger, name, run.run_id, run.scheduled_ms, lines, now)


def _lines_of_table(table: TableRun, repaired: Repaired) -> list[LedgerLine]:
    name, operator, query = table.name, table.operator, table.query
    gold, changes = table.gold.existing(), table.changes.existing()
    emitted = emitted_by_batch(gold, changes, table.state, operator, query)
    return [
        *stream_lines(name, operator, query, repaired.batches, emitted),
        *recomputed_lines(name, query, repaired.positions, repaired.recomputed),
    ]
