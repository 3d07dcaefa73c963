"""A rewind in the tables of `ops/`: a row of its own, and the ledger's lines that count no more."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from tidemark.ledger.ledger import settle_ledger
from tidemark.ledger.rebuild import Ledgered, rebuilt_lines
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import INGEST
from tidemark.runs.contract.recorded import seeds_of
from tidemark.runs.unfinished_rewind import rewind_folder
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.pipeline_rewind.change import PipelineChange
from tidemark.upkeep.record import REWIND, append_upkeep


def settle_lines(change: PipelineChange, pipeline: Pipeline, warehouse: Warehouse) -> None:
    """The ledger's lines that count are what the tables tell now; the others are marked."""
    source = Ledgered(pipeline, warehouse, seeds_of(pipeline, warehouse))
    lines, now = rebuilt_lines(source), datetime.now(UTC)
    settle_ledger(warehouse.ledger, pipeline.name, lines, change.id, change.ingest.query, now)


def record_rewind(change: PipelineChange, warehouse: Warehouse) -> None:
    """Its row in `ops/upkeep`, once."""
    table = warehouse.upkeep.open()
    if table is not None and any(True for _ in _rows(change, warehouse)):
        return
    row: dict[str, Any] = {
        "pipeline": change.pipeline,
        "run": change.run_id,
        "time": change.planned_at,
        "kind": REWIND,
        "checkpoint": INGEST,
        "verdict": f"back to {change.to}",
        "rewind": {
            "id": change.id,
            "to_run": change.to_run,
            "undoes": change.ingest.restored_from,
            "batch": change.ingest.batch,
            "backup": rewind_folder(warehouse, change.id).uri,
            "runs": list(change.undone),
        },
    }
    append_upkeep(warehouse.upkeep, [row])


def _rows(change: PipelineChange, warehouse: Warehouse) -> Iterator[dict[str, Any]]:
    table = warehouse.upkeep.existing()
    own = f"pipeline = '{change.pipeline}' AND run = '{change.run_id}'"
    found = dataset_of(table, own).to_table(columns=["pipeline", "run"]).to_pylist()
    return (row for row in found if row == {"pipeline": change.pipeline, "run": change.run_id})
