"""Which rows were rejected in the time of a row of gold, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from tidemark.judge.json_text import NotAnObject, object_decoder, parse_object
from tidemark.operators.operator import Operator, listed
from tidemark.pipeline.model import Column, Pipeline, Source
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.history import schema_of
from tidemark.storage.duckdb_in_utc import duckdb_in_utc
from tidemark.story.asked import Asked
from tidemark.story.in_bronze import LONGEST_TEXT, SAMPLE, Input, Span, cut, ingested
from tidemark.story.story import Rejected, RejectedRow, RowPlace

# So many are looked at for the keys, and of each so much text.
_LOOKED_AT = 1_000
_LONGEST_RAW = 64 * 1024


def rejected_in(
    of: Input, rejects: DeltaTable, pipeline: Pipeline, operator: Operator, asked: Asked,
    stretch: Span, batches: Sequence[int],
) -> Rejected:  # fmt: skip
    """Those whose event time lies in the stretch. `batches` of ingest brought the row's rows."""
    first, last = stretch.first.isoformat(), stretch.last.isoformat()
    held = schema_of(rejects).names
    names = [one.name for one in of.origin if one.name in held]
    asked_for = ["reason", "detail", "raw", "event_time", *names, "_batch", "_batch_time"]
    within = f"event_time BETWEEN TIMESTAMPTZ '{first}' AND TIMESTAMPTZ '{last}'"
    with duckdb_in_utc() as connection:
        timed = dataset_of(rejects, f"event_time >= '{first}' AND event_time <= '{last}'")
        connection.register("timed", timed)
        reasons = dict(
            connection.execute(
                f"SELECT reason, count(*) FROM timed WHERE {within} GROUP BY 1 ORDER BY 1"
            ).fetchall()
        )
        order = listed(["event_time", *names])
        rows = connection.sql(
            f"""
            SELECT {listed(asked_for)} FROM (
                SELECT * REPLACE (CASE WHEN strlen(raw) <= {_LONGEST_RAW} THEN raw
                    ELSE left(raw, {LONGEST_TEXT}) || '…' END AS raw)
                FROM timed WHERE {within}
            ) ORDER BY {order} LIMIT {_LOOKED_AT}
            """
        ).to_arrow_table()
        without_time = 0
        if batches:
            connection.register("all_rejects", dataset_of(rejects))
            listed_batches = ", ".join(map(str, batches))
            ((without_time,),) = connection.execute(
                "SELECT count(*) FROM all_rejects "
                f"WHERE event_time IS NULL AND _batch IN ({listed_batches})"
            ).fetchall()
    return Rejected(reasons, without_time, _sampled(of, rejects, rows, names, pipeline, operator,
                                                    asked))  # fmt: skip


def _sampled(
    of: Input, rejects: DeltaTable, rows: pa.Table, names: Sequence[str], pipeline: Pipeline,
    operator: Operator, asked: Asked,
) -> tuple[RejectedRow, ...]:  # fmt: skip
    found = [(_of_key(row["raw"], pipeline, operator, asked), row) for row in rows.to_pylist()]
    # Those of the keys first, then those of which nobody can tell, each in their order.
    found.sort(key=lambda one: {True: 0, None: 1, False: 2}[one[0]])
    found = found[:SAMPLE]
    numbers = {row["_batch"] for _, row in found if row["_batch"] is not None}
    by_batch = ingested(of, rejects, numbers)
    return tuple(
        RejectedRow(
            reason=row["reason"],
            detail=cut(row["detail"] or ""),
            raw=cut(row["raw"]),
            event_time=row["event_time"],
            place=RowPlace({name: row[name] for name in names}),
            batch=row["_batch"],
            read_at=row["_batch_time"],
            run=by_batch[row["_batch"]].run if row["_batch"] in by_batch else None,
            of_key=of_key,
        )
        for of_key, row in found
    )


def _of_key(raw: str | None, pipeline: Pipeline, operator: Operator, asked: Asked) -> bool | None:
    """Does the text of a rejected line have the keys? None where a key is none of the source's
    columns, or the text is no object."""
    declared = pipeline.source.columns
    keys = {name: asked.key[name] for name in operator.table.group_by}
    if raw is None or any(name not in declared for name in keys):
        return None
    try:
        _, fields = parse_object(raw.encode(), object_decoder(dict))
    except (NotAnObject, ValueError, RecursionError):
        return None
    found = [
        _same(_at(fields, declared[name].path(name)), value)
        or _differ_surely(pipeline.source, declared[name], value)
        for name, value in keys.items()
    ]
    return False if False in found else None if None in found else True


def _differ_surely(source: Source, column: Column, value: Any) -> bool | None:
    """False where texts that differ are other keys; None where they may be the same one."""
    plain = isinstance(value, str | int) and not isinstance(value, bool)
    other = column.trim or column.from_text or column.nulls or source.nulls
    return False if plain and not other else None


def _at(fields: Mapping[str, Any], path: Sequence[str]) -> Any:
    value: Any = fields
    for name in path:
        if not isinstance(value, Mapping) or name not in value:
            return None
        value = value[name]
    return value


def _same(said: Any, value: Any) -> bool:
    """Of numbers their text: as a line has it, and as a key is told."""
    if said is None or value is None:
        return said is None and value is None
    text = said.decode() if isinstance(said, bytes) else str(said)
    told = value.isoformat() if isinstance(value, datetime) else str(value)
    return text == told
