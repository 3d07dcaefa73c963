"""Which queries a pipeline's ledger has batches of: what its checkpoints must belong to."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow.dataset as ds

from tidemark.ledger.ledger import INGEST, STREAM
from tidemark.operators.repaired import MIGRATION
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.place import TablePlace


def recorded_queries(place: TablePlace, pipeline: str) -> dict[str | None, tuple[str, ...]]:
    """The ids of the queries with a line, newest last, by table; None is the ingest.

    Newest by the time that its last run stood for; empty without a ledger.
    """
    ledger = place.open()
    if ledger is None:
        return {}
    known = dataset_of(ledger, f"pipeline = '{pipeline}'")
    own = (ds.field("pipeline") == pipeline) & ds.field("kind").isin([INGEST, STREAM, MIGRATION])
    columns = ["table", "query", "scheduled_at"]
    lines = known.to_table(columns=columns, filter=own).group_by(columns[:2])
    last = lines.aggregate([("scheduled_at", "max")]).to_pylist()
    # A rebuilt ledger tells no times: its lines come first.
    last.sort(key=lambda line: line["scheduled_at_max"] or datetime.min.replace(tzinfo=UTC))
    found: dict[str | None, tuple[str, ...]] = {}
    for line in last:
        # A generation begins with a line of its own, before its query has a batch.
        query = line["query"].removesuffix(f"/{MIGRATION}")
        found[line["table"]] = (*found.get(line["table"], ()), query)
    return found
