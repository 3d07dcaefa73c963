"""What a retraction leaves for others: the ledger's line, its row in `ops/upkeep`, and the proof
that all is as it was planned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import pyarrow.dataset as ds

from tidemark.commit_point import commit_point
from tidemark.errors import RetractionUnproven
from tidemark.ledger.ledger import write_ledger
from tidemark.ledger.lines import retraction_line
from tidemark.pipeline.instants import epoch_ms
from tidemark.pipeline.model import Pipeline
from tidemark.recompute.act_row import record_upkeep_of
from tidemark.recompute.plans import write_plan
from tidemark.recompute.retract.change import RetractedTable, Retraction
from tidemark.runs.losses import find_losses
from tidemark.runs.unfinished_act import ActKind, PipelineAct
from tidemark.sources.delta.following import NEW_ROWS
from tidemark.storage.delta.commits import commit_noting
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.notes import RETRACTION
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.files import write_bytes
from tidemark.storage.generation import generation_in_use
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.record import RETRACT


def act_of(change: Retraction) -> PipelineAct:
    """By which its pipeline is stopped."""
    kind = ActKind.RETRACTION if change.follows is None else ActKind.FOLLOWING
    return PipelineAct(kind, change.id)


@commit_point(
    "retraction planned",
    after_a_kill="before and after: the pipeline is as it was; a repetition makes another plan",
)
def keep_change(change: Retraction, warehouse: Warehouse, new_rows: bytes | None = None) -> None:
    """Write the plan into the folder of its act, and which rows of the source are new."""
    folder = act_of(change).folder(warehouse)
    folder.fence()
    if new_rows is not None:
        write_bytes(folder.below(NEW_ROWS), new_rows, folder.options)
    write_plan(folder, change)


def moved_at(bronze: TablePlace, change: Retraction) -> int | None:
    """The version by which bronze lost the rows of an act, or got them back; None where it has
    not."""
    found = commit_noting(bronze.existing(), change.note, change.bronze)
    return None if found is None else int(found["version"])


def left_to_begin(tables: Sequence[RetractedTable], warehouse: Warehouse) -> tuple[str, ...]:
    """Those of these tables that have not begun their new generation yet."""
    return tuple(
        one.table
        for one in tables
        if generation_in_use(warehouse, one.table) <= one.newest_generation
    )


def account_for(change: Retraction, warehouse: Warehouse, now: datetime) -> None:
    """The ledger's line of the act, once. `now` is in UTC."""
    moved = change.rows if change.undoes else _in_retracted(change.id, warehouse)
    line = retraction_line(change.id, change.undoes, moved, change.rows)
    scheduled = epoch_ms(change.planned_at)
    write_ledger(warehouse.ledger, change.pipeline, change.run_id, scheduled, [line], now)


def record_retraction(change: Retraction, warehouse: Warehouse) -> None:
    """Its row in `ops/upkeep`, once."""
    said = {
        "place": "bronze",
        "verdict": f"{change.rows} rows {change.what}",
        "retraction": {
            "id": change.id,
            "undoes": change.undoes,
            "rows": change.rows,
            "condition": change.condition if change.follows is None else change.what,
            "reason": change.reason,
            "by": change.by,
        },
    }
    record_upkeep_of(change, RETRACT, warehouse.upkeep, said)


def prove(change: Retraction, pipeline: Pipeline, warehouse: Warehouse) -> None:
    """RetractionUnproven where tables are not what was planned, or do not fit each other: the
    pipeline stays stopped."""
    if wrong := tuple(_wrong(change, pipeline, warehouse)):
        raise RetractionUnproven(
            f"What the retraction {change.id} left of {pipeline.name} is not what was planned: "
            f"{' '.join(wrong)} No run starts. Nothing is lost: each of its rows is in "
            f"{warehouse.bronze.uri} or in {warehouse.retracted.uri}. Mend what is said, then "
            f"`tidemark retract {pipeline.name} --apply` looks again."
        )


def _wrong(change: Retraction, pipeline: Pipeline, warehouse: Warehouse) -> Iterator[str]:
    if change.rows and moved_at(warehouse.bronze, change) is None:
        yield f"No commit of {warehouse.bronze.uri} says that it moved them."
    found = _in_retracted(change.note.rows_of, warehouse) if change.rows else 0
    expected = change.rows if change.undoes is None else 0
    if found != expected:
        yield f"{warehouse.retracted.uri} holds {found:,} of its rows, not {expected:,}."
    for table in left_to_begin(change.tables, warehouse):
        yield f"{table} has begun no new generation."
    yield from map(str, find_losses(pipeline, warehouse))


def _in_retracted(act: str, warehouse: Warehouse) -> int:
    rows = dataset_of(warehouse.retracted.existing(), f"{RETRACTION} = '{act}'")
    return rows.count_rows(ds.field(RETRACTION) == act)
