"""`ops/upkeep`: what upkeep did and saw, written without a JVM: a row for each checkpoint that was
housekept, one for each state store that was checked, one for each query that was compacted, one for
each table that was maintained, and one for each rewind of a pipeline, each retraction, each
erasure, each replay of rejects and each rename, and one for each query whose state was brought to
other partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable, write_deltalake

from tidemark.checkpoint.housekeeping.plan import HousekeepingPlan
from tidemark.commit_point import commit_point
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.ops import (
    COUNT,
    NUMBER,
    TEXT,
    TIME,
    ensure_ops_table,
    ops_columns,
    ops_rows,
)
from tidemark.storage.delta.ops_place import OpsPlace
from tidemark.upkeep.checkpoints_in_use import InUse

HOUSEKEEPING, STATE_CHECK = "housekeeping", "state check"
MAINTENANCE, COMPACTION = "maintenance", "compaction"
REWIND, RETRACT, REPLAY, ERASE = "rewind", "retract", "replay", "erase"
RENAME, REPARTITION = "rename", "repartition"
_SHARE = pa.struct(
    [
        *ops_columns(TEXT, "kind"),
        *ops_columns(COUNT, "files", "bytes", "files_deleted", "bytes_deleted"),
        *ops_columns(pa.list_(TEXT), "reasons"),
    ]
)
# Of a state check: one store of one operator, in all of its partitions. `changes` are its deltas or
# changelogs that the next start replays, `longest_chain` those of the partition with most, and
# `query_verdict` is that of the whole state.
_STATE = pa.struct(
    [
        *ops_columns(COUNT, "operator"),
        *ops_columns(TEXT, "operator_name", "store", "provider"),
        *ops_columns(COUNT, "version", "partitions", "files", "bytes"),
        *ops_columns(COUNT, "snapshot_files", "snapshot_bytes", "changes", "change_bytes"),
        *ops_columns(COUNT, "longest_chain"),
        *ops_columns(NUMBER, "skew"),
        *ops_columns(TEXT, "reason", "query_verdict"),
    ]
)
# Of a compaction: `chain_before` and `changes_before` are what a start would have replayed without
# it, `rows` those of the state, which was read before and after.
_COMPACTION = pa.struct(
    [
        *ops_columns(COUNT, "batch", "snapshots", "rows", "chain_before", "chain_after"),
        *ops_columns(COUNT, "changes_before", "changes_after"),
        *ops_columns(COUNT, "change_bytes_before", "change_bytes_after"),
        *ops_columns(NUMBER, "seconds"),
    ]
)
# Of a rewind of the pipeline: the run to whose end it went, or which rewind it undoes, the newest
# batch of ingest afterwards, where its backup is, and the runs that count no more.
_REWIND = pa.struct(
    [
        *ops_columns(TEXT, "id", "to_run", "undoes", "backup"),
        *ops_columns(COUNT, "batch"),
        *ops_columns(pa.list_(TEXT), "runs"),
    ]
)
# Of a retraction, or of the undo of one: its rows, who did it, and why.
_RETRACTION = pa.struct(
    [*ops_columns(TEXT, "id", "undoes"), *ops_columns(COUNT, "rows"),
     *ops_columns(TEXT, "condition", "reason", "by")]
)  # fmt: skip
# Of a replay of rejects: its rows, who did it, and why.
_REPLAYED = pa.struct([*ops_columns(TEXT, "id", "reason", "by"), *ops_columns(COUNT, "rows")])
# `place`, of maintenance: `bronze`, `rejects`, `TABLE/changes`, `TABLE/gold`, `ops/…` or `results`.
_FIELDS = [
    *ops_columns(TEXT, "pipeline", "run"),
    *ops_columns(TIME, "time"),
    *ops_columns(TEXT, "kind", "checkpoint"),
    *ops_columns(COUNT, "generation"),
    *ops_columns(TEXT, "verdict", "refused"),
    *ops_columns(COUNT, "files_before", "bytes_before", "files_deleted", "bytes_deleted"),
    *ops_columns(COUNT, "files_after", "bytes_after"),
    *ops_columns(pa.list_(_SHARE), "shares"),
    *ops_columns(_STATE, "state"),
    *ops_columns(TEXT, "place"),
    *ops_columns(_COMPACTION, "compaction"),
    *ops_columns(_REWIND, "rewind"),
    *ops_columns(_RETRACTION, "retraction"),
    # Of a rewind, columns of their own: a table of before takes no other `rewind`. `without`: the
    # files that it goes on without, with the rows that bronze and rejects had of them.
    *ops_columns(TEXT, "by", "reason"),
    *ops_columns(
        pa.list_(
            pa.struct([*ops_columns(TEXT, "file"), *ops_columns(COUNT, "accepted", "rejected")])
        ),
        "without",
    ),
    *ops_columns(_REPLAYED, "replay"),
]
SCHEMA = pa.schema(_FIELDS)
_DESCRIPTION = "The upkeep of the checkpoints and tables of the pipeline"


@dataclass(frozen=True)
class Kept:
    """A pipeline's checkpoint and what was planned for it; the plan is None where no query has
    started."""

    checkpoint: InUse
    plan: HousekeepingPlan | None


def record_upkeep(
    upkeep: OpsPlace, pipeline: str, run_id: str, time: datetime, kept: Sequence[Kept]
) -> None:
    """Append a row for each checkpoint, once its files are gone. `time` is when it began, in UTC.

    A repetition after a crash is another act, with rows of its own: what was removed before the
    crash counts in none. No row where no query has started.
    """
    rows = [_row(pipeline, run_id, time, one, one.plan) for one in kept if one.plan is not None]
    append_upkeep(upkeep, rows)


@commit_point(
    "upkeep recorded",
    after_a_kill="before: what was removed is told nowhere; after: a repeat finds nothing to "
    "remove",
)
def append_upkeep(upkeep: OpsPlace, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append rows of any kind of upkeep, in one commit; columns that a row lacks are null."""
    if rows:
        table = ensure_upkeep(upkeep)
        write_deltalake(table, ops_rows(table, SCHEMA, rows), mode="append")


def ensure_upkeep(upkeep: OpsPlace) -> DeltaTable:
    """The table; made where it is missing."""
    return ensure_ops_table(upkeep, SCHEMA, _DESCRIPTION)


def has_upkeep(upkeep: OpsPlace, pipeline: str, run_id: str) -> bool:
    """Has a rewind, a retraction, an erasure or a replay its row?"""
    if upkeep.open() is None:
        return False
    known = dataset_of(upkeep.existing(), f"pipeline = '{pipeline}' AND run = '{run_id}'")
    its = (ds.field("pipeline") == pipeline) & (ds.field("run") == run_id)
    return known.count_rows(its) > 0


def row_head(
    pipeline: str, run_id: str, time: datetime, kind: str, checkpoint: InUse
) -> dict[str, Any]:
    """The columns that every kind of upkeep fills."""
    return {
        "pipeline": pipeline,
        "run": run_id,
        "time": time,
        "kind": kind,
        "checkpoint": checkpoint.table,
        "generation": checkpoint.generation,
    }


def _row(
    pipeline: str, run_id: str, time: datetime, kept: Kept, plan: HousekeepingPlan
) -> dict[str, Any]:
    return row_head(pipeline, run_id, time, HOUSEKEEPING, kept.checkpoint) | {
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
