"""Which queries a pipeline's ledger has batches of: what its checkpoints must belong to."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow.dataset as ds

from tidemark.ledger.ledger import INGEST, STREAM
from tidemark.operators.repaired import MIGRATION
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.ops import WRITTEN_AT
from tidemark.storage.delta.place import TablePlace


def recorded_queries(place: TablePlace, pipeline: str) -> dict[str | None, tuple[str, ...]]:
    """The ids of the queries with a line, newest last, by table; None is the ingest.

    Newest by when its last line was written, of lines of a version that did not note that by the
    time that its run stood for; empty without a ledger.
    """
    ledger = place.open()
    if ledger is None:
        return {}
    known = dataset_of(ledger, f"pipeline = '{pipeline}'")
    own = (ds.field("pipeline") == pipeline) & ds.field("kind").isin([INGEST, STREAM, MIGRATION])
    times = [name for name in (WRITTEN_AT, "scheduled_at") if name in known.schema.names]
    lines = known.to_table(columns=["table", "query", *times], filter=own)
    newest = lines.group_by(["table", "query"]).aggregate([(name, "max") for name in times])
    first = datetime.min.replace(tzinfo=UTC)
    last = sorted(
        newest.to_pylist(), key=lambda line: [line[f"{name}_max"] or first for name in times]
    )
    found: dict[str | None, tuple[str, ...]] = {}
    for line in last:
        # A generation begins with a line of its own, before its query has a batch.
        query = line["query"].removesuffix(f"/{MIGRATION}")
        found[line["table"]] = (*found.get(line["table"], ()), query)
    return found
