"""The rows of maintenance in `ops/upkeep`: one for each table, and one for the result files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tidemark.storage.delta.place import TablePlace
from tidemark.upkeep.maintenance.plan import MaintenancePlan, Part, Work
from tidemark.upkeep.record import MAINTENANCE, append_upkeep


def record_maintenance(
    upkeep: TablePlace, pipeline: str, run_id: str, time: datetime, plans: Sequence[MaintenancePlan]
) -> None:
    """Append a row for each plan, once it is carried out. `time` is when it began, in UTC.

    A repetition after a crash is another act, with rows of its own.
    """
    append_upkeep(upkeep, [_row(pipeline, run_id, time, plan) for plan in plans])


def _row(pipeline: str, run_id: str, time: datetime, plan: MaintenancePlan) -> dict[str, Any]:
    removing = [part for part in plan.parts if part.work is not Work.COMPACTION]
    return {
        "pipeline": pipeline,
        "run": run_id,
        "time": time,
        "kind": MAINTENANCE,
        "place": plan.name,
        "refused": plan.refused,
        "files_deleted": len(plan.remove),
        "bytes_deleted": sum(part.going_size or 0 for part in removing),
        "shares": [_share(part) for part in plan.parts],
    }


def _share(part: Part) -> dict[str, Any]:
    """Of a compaction, what is deleted is what it replaces."""
    return {
        "kind": str(part.work),
        "files": part.number,
        "bytes": part.size,
        "files_deleted": part.going,
        "bytes_deleted": part.going_size,
        "reasons": [part.reason],
    }
