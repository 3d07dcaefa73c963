"""The compaction of a pipeline's state, as far as it needs no engine: what is due, and its record.

The act itself is `streaming/state/compact.py`: only the engine writes snapshots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidemark.checkpoint.doctor.judge import QueryFacts, judge_checkpoint
from tidemark.checkpoint.reading.read import read_checkpoint
from tidemark.checkpoint.state.check import check_state
from tidemark.checkpoint.state.inventory import inventory
from tidemark.checkpoint.state.plan_compaction import CompactionPlan, plan_compaction
from tidemark.errors import CompactionRefused
from tidemark.pipeline.model import Pipeline
from tidemark.runs.results.compaction_result import QueryCompaction
from tidemark.storage.delta.ops_place import OpsPlace
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.checkpoints_in_use import InUse, checkpoints_in_use
from tidemark.upkeep.record import COMPACTION, append_upkeep, row_head


@dataclass(frozen=True)
class Planned:
    """A pipeline's checkpoint and what its compaction would do; None where no query started."""

    checkpoint: InUse
    plan: CompactionPlan | None


def plan_compactions(
    pipeline: Pipeline, warehouse: Warehouse, now: datetime, every: bool = False
) -> tuple[Planned, ...]:
    """What is due in each checkpoint in use, by the pipeline's limits; nothing is changed.

    With `every`, what can be compacted at all. `now` is in UTC. Where a run works meanwhile, a
    plan may be out of date when it is there.
    """
    return tuple(
        Planned(one, _plan(one, pipeline, now, every))
        for one in checkpoints_in_use(pipeline, warehouse)
    )


def _plan(one: InUse, pipeline: Pipeline, now: datetime, every: bool) -> CompactionPlan | None:
    if not one.place.names():
        return None
    facts = read_checkpoint(one.place)
    mode = pipeline.tables[one.table].output_mode if one.table in pipeline.tables else None
    known = QueryFacts(output_mode=mode, keeps_state=one.keeps_state)
    check = check_state(inventory(facts, one.keeps_state), pipeline.advanced.state.limits)
    return plan_compaction(facts, judge_checkpoint(facts, now, known), check, every)


def check_no_compaction_refused(pipeline: str, planned: Sequence[Planned]) -> None:
    """Raise CompactionRefused where it was refused for a checkpoint."""
    refused = [(one, one.plan.refused) for one in planned if one.plan and one.plan.refused]
    if refused:
        messages = " ".join(
            f"{one.checkpoint.name} ({one.checkpoint.place.uri}): {why}" for one, why in refused
        )
        raise CompactionRefused(
            f"The state of {len(refused)} of {len(planned)} queries of `{pipeline}` was left as "
            f"it is. {messages}"
        )


def record_compactions(
    upkeep: OpsPlace,
    pipeline: str,
    run_id: str,
    time: datetime,
    compacted: Sequence[tuple[InUse, QueryCompaction]],
) -> None:
    """Append a row to `ops/upkeep` for each query that was compacted. `time` is in UTC."""
    rows = [
        row_head(pipeline, run_id, time, COMPACTION, one) | _figures(figures)
        for one, figures in compacted
    ]
    append_upkeep(upkeep, rows)


def _figures(one: QueryCompaction) -> dict[str, Any]:
    return {
        "verdict": one.verdict,
        "files_before": one.before.files,
        "bytes_before": one.before.bytes,
        "files_after": one.after.files,
        "bytes_after": one.after.bytes,
        "compaction": {
            "batch": one.batch,
            "snapshots": one.snapshots,
            "rows": one.rows,
            "chain_before": one.before.longest,
            "chain_after": one.after.longest,
            "changes_before": one.before.changes,
            "changes_after": one.after.changes,
            "change_bytes_before": one.before.change_bytes,
            "change_bytes_after": one.after.change_bytes,
            "seconds": one.seconds,
        },
    }
