"""The task that removes what no start of a pipeline's queries needs any more, without a JVM."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from tidemark.airflow.outcome import as_task_failure
from tidemark.airflow.pipeline_operator import PipelineOperator

if TYPE_CHECKING:
    from tidemark.upkeep.record import Kept


class CheckpointHousekeepingOperator(PipelineOperator):
    """Keeps a pipeline's checkpoints small, under its lease; safe to repeat.

    Files and bytes go to XCom, by checkpoint; the reasons stand in the task's log and in
    `ops/upkeep`. It fails where the lease is held (a retry can help), and, once all others are
    done, where a checkpoint must not be touched (no retry can).
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Remove what may go; a repeat removes what is left."""
        # delta-rs, Arrow and DuckDB, which parsing a Dag must not load.
        from tidemark.upkeep.pipeline_housekeeping import (
            check_no_housekeeping_refused,
            housekeep_pipeline,
        )

        with as_task_failure("Housekeeping"):
            settings, pipeline = self.own_settings(), self.own_pipeline()
            run_id = str(context["run_id"])
            kept = housekeep_pipeline(pipeline, settings, run_id, datetime.now(UTC))
            for one in kept:
                self._tell(one)
            check_no_housekeeping_refused(pipeline.name, kept)
        return {one.checkpoint.table: _summary(one) for one in kept}

    def _tell(self, kept: Kept) -> None:
        plan, name = kept.plan, kept.checkpoint.name
        if plan is None:
            self.log.info("%s: no query has started yet", name)
            return
        self.log.info("%s: %s", name, plan.refused or plan.verdict)
        for share in plan.shares:
            self.log.info(
                "%s: %s: %s of %s files removed, %s of %s bytes; %s",
                name,
                share.kind,
                len(share.going),
                share.files,
                share.going_size,
                share.size,
                "; ".join(share.reasons) or "all stay",
            )


def _summary(kept: Kept) -> dict[str, Any] | None:
    plan = kept.plan
    if plan is None:
        return None
    return {
        "verdict": str(plan.verdict),
        "files": plan.files - plan.going_files,
        "bytes": plan.size - plan.going_size,
        "files_removed": plan.going_files,
        "bytes_removed": plan.going_size,
    }
