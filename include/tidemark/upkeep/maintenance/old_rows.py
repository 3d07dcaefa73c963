"""Which rows of the tables of `ops/` a pipeline does without.

A row ages from when it was written, by its writer's clock, and never by the time that its run
stood for: a run of now may stand for any. `ops/batches` keeps all of its rows: a ledger that is
built anew needs them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from tidemark.pipeline.instants import epoch_ms, instant_text
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.recorded_runs import last_published
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.ops import TIME, WRITTEN_AT
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.maintenance.plan import Part, Work


@dataclass(frozen=True)
class Ageing:
    """A table of `ops/`, and which of its rows stay; None: all do."""

    place: TablePlace
    table: DeltaTable
    stays: ds.Expression | None
    reason: str = ""


def ageing_tables(pipeline: Pipeline, settings: Settings, now: datetime) -> Iterator[Ageing]:
    """The pipeline's own tables of `ops/` that are there. `now` is in UTC."""
    tables = Warehouse.of(pipeline.name, settings)
    before = now - settings.maintenance.ops_retention
    rules = (
        (tables.batches, lambda _: None, ""),
        (tables.upkeep, lambda _: _since("time", before), ""),
        (tables.quality, lambda _: _since("time", before), ""),
        (tables.runs, partial(_of_runs, before, last_published(pipeline, tables)), ""),
        (tables.ledger, partial(_of_ledger, before), "; lines that do not balance stay"),
    )
    for place, stays, more in rules:
        if (table := place.own.open()) is not None:
            why = f"written before {instant_text(epoch_ms(before))}{more}"
            yield Ageing(place, table, stays(table), why)


def _of_runs(before: datetime, published: datetime | None, table: DeltaTable) -> ds.Expression:
    """Of a version that did not note when a row was written, its run's start stands for that."""
    stays = _since("started_at", before)
    if _notes_when_written(table):
        stays = _since(WRITTEN_AT, before) & (stays | ds.field(WRITTEN_AT).is_valid())
    return stays if published is None else stays | _since("started_at", published)


def _of_ledger(before: datetime, table: DeltaTable) -> ds.Expression | None:
    """Lines of a version that did not note when they were written stay, and those that do not
    balance: they keep runs from being published, until somebody has mended them."""
    if not _notes_when_written(table):
        return None
    return _since(WRITTEN_AT, before) | (ds.field("difference") != 0)


def _notes_when_written(table: DeltaTable) -> bool:
    return any(field.name == WRITTEN_AT for field in table.schema().fields)


def old_rows(ageing: Ageing, pipeline: str) -> Part | None:
    """The rows that go, counted; None where none do. Only files that may hold such are opened."""
    if ageing.stays is None:
        return None
    known = dataset_of(ageing.table, f"pipeline = '{pipeline}'")
    own = ds.field("pipeline") == pipeline
    number = known.count_rows(filter=own)
    going = number - known.count_rows(filter=own & ageing.stays)
    return Part(Work.OLD_ROWS, number, None, going, None, ageing.reason) if going else None


def _since(column: str, instant: datetime) -> ds.Expression:
    field = ds.field(column)
    return (field >= pa.scalar(instant, TIME)) | field.is_null()
