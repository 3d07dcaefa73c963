"""Which rows of the tables of `ops/` a pipeline does without.

`ops/batches` keeps all of its rows: a ledger that is built anew needs them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from tidemark.pipeline.instants import epoch_ms, instant_text
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.recorded_runs import last_published
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.ops import TIME
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.maintenance.plan import Part, Work


@dataclass(frozen=True)
class Ageing:
    """A table of `ops/`, and which of its rows stay, whatever their pipeline; None: all do."""

    place: TablePlace
    stays: ds.Expression | None
    reason: str = ""


def ageing_tables(pipeline: Pipeline, settings: Settings, now: datetime) -> Iterator[Ageing]:
    """The tables of `ops/`. A row without a time stays."""
    tables = Warehouse.of(pipeline.name, settings)
    before = now - settings.maintenance.ops_retention
    yield Ageing(tables.batches, None)
    yield Ageing(tables.upkeep, *_since("time", before))
    yield Ageing(tables.quality, *_since("time", before))
    published = last_published(pipeline, tables)
    yield Ageing(tables.runs, *_since("started_at", min(before, published or before)))
    recent, reason = _since("scheduled_at", before)
    # They keep runs from being published, until somebody has mended them.
    unbalanced = ds.field("difference") != 0
    yield Ageing(tables.ledger, recent | unbalanced, f"{reason}; lines that do not balance stay")


def old_rows(table: DeltaTable, pipeline: str, ageing: Ageing) -> Part | None:
    """The rows that go, counted; None where none do. Only files that may hold such are opened."""
    if ageing.stays is None:
        return None
    known = dataset_of(table, f"pipeline = '{pipeline}'")
    own = ds.field("pipeline") == pipeline
    number = known.count_rows(filter=own)
    going = number - known.count_rows(filter=own & ageing.stays)
    return Part(Work.OLD_ROWS, number, None, going, None, ageing.reason) if going else None


def _since(column: str, instant: datetime) -> tuple[ds.Expression, str]:
    field = ds.field(column)
    stays = (field >= pa.scalar(instant, TIME)) | field.is_null()
    return stays, f"{column} before {instant_text(epoch_ms(instant))}"
