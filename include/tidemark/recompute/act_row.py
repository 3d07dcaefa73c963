"""The rows in `ops/runs` and `ops/upkeep` of an act that changes a pipeline's tables together."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tidemark.gold.pins import TableResult
from tidemark.recompute.erase.change import Erasure
from tidemark.recompute.plans import ActPlan
from tidemark.recompute.retract.change import Retraction
from tidemark.recompute.rewind.change import PipelineChange
from tidemark.runs.results.result import RunResult
from tidemark.runs.run import Run
from tidemark.storage.delta.ops_place import OpsPlace
from tidemark.storage.result_file import RunError
from tidemark.upkeep.record import append_upkeep, has_upkeep


def act_row(
    run: Run,
    trigger: str,
    change: Retraction | PipelineChange | Erasure,
    ended: datetime,
    seconds: Mapping[str, float],
    tables: Mapping[str, TableResult],
    took_over: str | None = None,
    error: RunError | None = None,
) -> RunResult:
    """By its plan, whichever try it was that carried it out."""
    return RunResult(
        pipeline=change.pipeline,
        run_id=change.run_id,
        outcome="failed" if error else "succeeded",
        held=False,
        trigger=trigger,
        scheduled_at=change.planned_at,
        # As gold's commits note it.
        started_at=change.planned_at,
        ended_at=ended,
        seconds=dict(seconds),
        tables=dict(tables),
        took_over=took_over,
        error=error,
        # Who gave the reason, not who finished it; a rewind's plan of before does not say it.
        by=change.by or run.by,
        dag=run.dag,
        reason=change.reason,
    )


def record_upkeep_of(act: ActPlan, kind: str, upkeep: OpsPlace, said: Mapping[str, Any]) -> None:
    """Its row in `ops/upkeep`, once: what all kinds have, and what is `said` of this one."""
    if not has_upkeep(upkeep, act.pipeline, act.run_id):
        head = {"pipeline": act.pipeline, "run": act.run_id, "time": act.planned_at, "kind": kind}
        append_upkeep(upkeep, [{**head, **said}])
