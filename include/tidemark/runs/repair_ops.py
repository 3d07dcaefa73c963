"""The tables of `ops/` as a run finds them: those of before are taken over, and what is broken or
gone is made anew from what is known."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pyarrow.dataset as ds

from tidemark.gold.checkpoints import ingest_checkpoint
from tidemark.gold.state import is_published
from tidemark.ledger.ledger import last_batch_written, replace_ledger
from tidemark.ledger.rebuild import Ledgered, rebuilt_lines
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import OPS_TABLES
from tidemark.runs.contract.recorded import seeds_of
from tidemark.runs.recorded_runs import one_row_of_each
from tidemark.storage.delta.broken_ops import is_broken, set_broken_aside
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.ops_place import OpsPlace, as_they_are, move_ops_table
from tidemark.storage.file_place import one_look
from tidemark.storage.warehouse import Warehouse


def repair_ops_tables(
    pipeline: Pipeline, warehouse: Warehouse, say: Callable[[str], object]
) -> None:
    """Set broken tables aside, take over what is in the shared ones, and build the ledger anew
    where it was broken, or was removed; never raises.

    Its runs come back as far as gold's commits tell: the last one that published. What upkeep and
    checks said before is in the table that was set aside.
    """
    places = {name: warehouse.ops_table(name) for name in OPS_TABLES}
    try:
        with one_look():
            is_due = any(map(_is_due, places.values()))
        if is_due:
            now = datetime.now(UTC)
            set_broken_aside({name: place.own for name, place in places.items()}, say, now)
            waiting = {n: place.former for n, place in places.items() if place.own.open() is None}
            set_broken_aside(waiting, say, now)
            move_ops_tables(warehouse)
        if _forgot(pipeline, warehouse):
            lines = rebuilt_lines(Ledgered(pipeline, warehouse, seeds_of(pipeline, warehouse)))
            replace_ledger(warehouse.ledger, pipeline.name, lines, datetime.now(UTC))
            say(f"{len(lines)} lines of the ledger of {pipeline.name} were built anew")
    except Exception as error:  # noqa: BLE001  a run is as good without its accounts of before
        say(f"ops could not be mended ({type(error).__name__}: {error})")


def _is_due(place: OpsPlace) -> bool:
    """Is a table broken, or has the shared one rows of the pipeline still?"""
    if is_broken(place.own):
        return True
    own = place.own.open()
    if own is not None and own.version() > 0:
        return False
    return (own is None and is_broken(place.former)) or place.not_moved() is not None


def move_ops_tables(warehouse: Warehouse) -> None:
    """Take over what the tables that pipelines shared have of the pipeline. Once it is done, nobody
    opens those any more."""
    for name in OPS_TABLES:
        moving = one_row_of_each if name == "runs" else as_they_are
        move_ops_table(warehouse.ops_table(name), moving)


def _forgot(pipeline: Pipeline, warehouse: Warehouse) -> bool:
    """Has the ledger nothing of the pipeline, though something was published? A run publishes after
    it wrote the ledger; one that found no rows wrote lines of the tables alone."""
    query = ingest_checkpoint(warehouse).query_id()
    ledger = warehouse.ledger.open()
    if query is None or last_batch_written(ledger, pipeline.name, query) >= 0:
        return False
    if ledger is not None:
        own = dataset_of(ledger, f"pipeline = '{pipeline.name}'")
        if own.head(1, ["pipeline"], filter=ds.field("pipeline") == pipeline.name).num_rows:
            return False
    golds = (warehouse.gold(name).open() for name in pipeline.tables)
    return any(gold is not None and is_published(gold) for gold in golds)
