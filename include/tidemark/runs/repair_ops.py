"""The tables of `ops/` as a run finds them: what is broken or gone is made anew from what is
known."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pyarrow.dataset as ds

from tidemark.gold.checkpoints import ingest_checkpoint
from tidemark.gold.state import is_published
from tidemark.ledger.ledger import last_batch_written, replace_ledger
from tidemark.ledger.rebuild import Ledgered, rebuilt_lines
from tidemark.pipeline.model import Pipeline
from tidemark.runs.contract.recorded import seeds_of
from tidemark.storage.delta.broken_ops import set_broken_aside
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.warehouse import Warehouse


def repair_ops_tables(
    pipeline: Pipeline, warehouse: Warehouse, say: Callable[[str], object]
) -> None:
    """Set broken tables aside and build the pipeline's ledger anew where it was broken, or was
    removed; never raises.

    Its runs come back as far as gold's commits tell: the last one that published. What upkeep and
    checks said before is in the table that was set aside.
    """
    names = ("ledger", "runs", "batches", "upkeep", "quality")
    try:
        places = {name: getattr(warehouse, name) for name in names}
        set_broken_aside(places, say, datetime.now(UTC))
        if _forgot(pipeline, warehouse):
            lines = rebuilt_lines(Ledgered(pipeline, warehouse, seeds_of(pipeline, warehouse)))
            replace_ledger(warehouse.ledger, pipeline.name, lines, datetime.now(UTC))
            say(
                f"{len(lines)} lines of the ledger of {pipeline.name} were built anew; of other "
                "pipelines, their next runs or `tidemark ledger rebuild NAME` do it"
            )
    except Exception as error:  # noqa: BLE001  a run is as good without its accounts of before
        say(f"ops could not be mended ({type(error).__name__}: {error})")


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
