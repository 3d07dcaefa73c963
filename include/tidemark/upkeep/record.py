"""`ops/upkeep`: a row for each checkpoint that upkeep looked at, written without a JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from tidemark.tables.ops import ensure_ops_table
from tidemark.upkeep.plan import Plan

HOUSEKEEPING = "housekeeping"
_SHARE = pa.struct(
    [
        ("kind", pa.string()),
        ("files", pa.int64()),
        ("bytes", pa.int64()),
        ("files_deleted", pa.int64()),
        ("bytes_deleted", pa.int64()),
        ("reasons", pa.list_(pa.string())),
    ]
)
_FIELDS: list[pa.Field[Any]] = [
    pa.field("pipeline", pa.string()),
    pa.field("run", pa.string()),
    pa.field("time", pa.timestamp("us", "UTC")),
    pa.field("kind", pa.string()),
    pa.field("checkpoint", pa.string()),
    pa.field("generation", pa.int64()),
    pa.field("verdict", pa.string()),
    pa.field("refused", pa.string()),
    pa.field("files_before", pa.int64()),
    pa.field("bytes_before", pa.int64()),
    pa.field("files_deleted", pa.int64()),
    pa.field("bytes_deleted", pa.int64()),
    pa.field("files_after", pa.int64()),
    pa.field("bytes_after", pa.int64()),
    pa.field("shares", pa.list_(_SHARE)),
]
SCHEMA = pa.schema(_FIELDS)
_DESCRIPTION = "The upkeep of the checkpoints of all pipelines"


@dataclass(frozen=True)
class Kept:
    """A pipeline's checkpoint and what was planned for it: `table` is `ingest` for the query that
    reads the source, which has no generations. The plan is None where no query has started."""

    table: str
    generation: int | None
    uri: str
    plan: Plan | None

    @property
    def name(self) -> str:
        of = "" if self.generation is None else f", generation {self.generation}"
        return f"{self.table}{of}"


def record_upkeep(
    uri: str,
    pipeline: str,
    run_id: str,
    time: datetime,
    kept: Sequence[Kept],
    options: Mapping[str, str],
) -> None:
    """Append a row for each checkpoint, once its files are gone. `time` is when it began, in UTC.

    A repetition after a crash is another act, with rows of its own: what was removed before the
    crash counts in none. No row where no query has started.
    """
    rows = [_row(pipeline, run_id, time, one, one.plan) for one in kept if one.plan is not None]
    if rows:
        table = ensure_ops_table(uri, SCHEMA, _DESCRIPTION, options)
        write_deltalake(table, pa.Table.from_pylist(rows, SCHEMA), mode="append")


def _row(pipeline: str, run_id: str, time: datetime, kept: Kept, plan: Plan) -> dict[str, Any]:
    return {
        "pipeline": pipeline,
        "run": run_id,
        "time": time,
        "kind": HOUSEKEEPING,
        "checkpoint": kept.table,
        "generation": kept.generation,
        "verdict": str(plan.verdict),
        "refused": plan.refused,
        "files_before": plan.files,
        "bytes_before": plan.size,
        "files_deleted": plan.going_files,
        "bytes_deleted": plan.going_size,
        "files_after": plan.files - plan.going_files,
        "bytes_after": plan.size - plan.going_size,
        "shares": [
            {
                "kind": str(share.kind),
                "files": share.files,
                "bytes": share.size,
                "files_deleted": len(share.going),
                "bytes_deleted": share.going_size,
                "reasons": list(share.reasons),
            }
            for share in plan.shares
        ],
    }
