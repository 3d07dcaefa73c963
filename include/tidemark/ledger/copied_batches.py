"""`ops/batches`: what the offset logs said of each batch of the tables' queries, kept for ever.

A ledger that is built anew needs, of each batch, which versions of bronze it read and the
watermark it ran by. Both stand only in `offsets/N`, which the engine removes after a while, and
housekeeping too. So they are copied here first; written without a JVM.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from tidemark.checkpoint.log import Checkpoint
from tidemark.commit_point import commit_point
from tidemark.errors import CheckpointUnreadable
from tidemark.operators.batches_read import OtherInput, ReadTo, read_to
from tidemark.pipeline.instants import instant_of
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.ops import COUNT, TEXT, TIME, Row, append_once, ops_columns
from tidemark.storage.delta.ops_place import OpsPlace
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.duckdb_in_utc import answers

SCHEMA = pa.schema(
    [
        *ops_columns(TEXT, "pipeline", "table"),
        *ops_columns(COUNT, "generation"),
        *ops_columns(TEXT, "query"),
        *ops_columns(COUNT, "batch"),
        *ops_columns(TIME, "batch_time"),
        *ops_columns(COUNT, "watermark_ms", "bronze_end"),
        # Of a query with several inputs: the same of each, as JSON by Delta's id.
        *ops_columns(TEXT, "ends"),
    ]
)
_DESCRIPTION = "What the offset logs said of each batch of the tables' queries"


@dataclass(frozen=True)
class CopiedQuery:
    """The query of a table: whose it is, its id, its checkpoint, and the committed batches whose
    offsets are still there, in order."""

    pipeline: str
    table: str
    generation: int
    id: str
    checkpoint: Checkpoint
    batches: Sequence[int]


@commit_point(
    "batches copied",
    after_a_kill="before: housekeeping has removed nothing; after: a repeat finds the batches "
    "copied",
)
def copy_batches(place: OpsPlace, queries: Iterable[CopiedQuery]) -> None:
    """Copy what the offset logs say of batches that are not there yet, in one commit.

    Repeating it after a crash writes nothing twice. Offsets that cannot be used are left out.
    """
    table = place.open()
    rows: list[Row] = []
    for query in queries:
        written = table.transaction_version(query.id) if table is not None else None
        rows += _rows(query, -1 if written is None else written)
    if rows:
        append_once(place, SCHEMA, _DESCRIPTION, rows)


def copied_batches(
    place: TablePlace, pipeline: str, query: str, others: Sequence[OtherInput] = ()
) -> dict[int, ReadTo]:
    """What was copied of a query's batches, by batch; empty where nothing was. `others` are its
    inputs beside bronze."""
    table = place.open()
    if table is None:
        return {}
    known = dataset_of(table, f"pipeline = '{pipeline}'")
    # A table of before there were joins has no such column.
    ends = "ends" if "ends" in known.schema.names else "NULL"
    sql = f"""
        SELECT batch, bronze_end, watermark_ms, {ends} FROM known WHERE pipeline = ? AND query = ?
    """
    return {
        batch: ReadTo(end, watermark, _of_others(others_text, others))
        for batch, end, watermark, others_text in answers(sql, [pipeline, query], known=known)
    }


def _of_others(others_text: str | None, others: Sequence[OtherInput]) -> dict[str, int]:
    ends: dict[str, int] = json.loads(others_text or "{}")
    return {one.name: ends.get(one.id, 0) for one in others}


def _rows(query: CopiedQuery, after_batch: int) -> Iterator[Row]:
    for batch in query.batches:
        if batch > after_batch:
            with suppress(CheckpointUnreadable):
                yield _row(query, batch)


def _row(query: CopiedQuery, batch: int) -> Row:
    known = read_to(query.checkpoint, batch)
    time_ms = query.checkpoint.offsets(batch).batch_time_ms
    columns = {
        "pipeline": query.pipeline,
        "table": query.table,
        "generation": query.generation,
        "query": query.id,
        "batch": batch,
        "batch_time": instant_of(time_ms),
        "watermark_ms": known.watermark_ms,
        "bronze_end": known.bronze_end,
        "ends": json.dumps(query.checkpoint.delta_versions(batch)),
    }
    return query.id, batch, columns
