"""The task that maintains a pipeline's tables and files, without a JVM."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from tidemark.airflow.outcome import as_task_failure
from tidemark.airflow.pipeline_operator import PipelineOperator

if TYPE_CHECKING:
    from tidemark.upkeep.maintenance.plan import MaintenancePlan


class MaintenanceOperator(PipelineOperator):
    """Maintains a pipeline, under its lease; safe to repeat. With the parameter `dry_run` it only
    shows the plan.

    Counts go to XCom, by table; what they mean stands in the task's log and in `ops/upkeep`. It
    fails where the lease is held (a retry can help), and, once all others are done, where a table
    had to be left as it is (no retry can).
    """

    timeout = timedelta(hours=6)

    def execute(self, context: Context) -> dict[str, Any]:
        """Do what is due; a repeat does what is left."""
        # delta-rs, Arrow and DuckDB, which parsing a Dag must not load.
        from tidemark.upkeep.maintenance.maintain import (
            check_no_maintenance_refused,
            maintain_pipeline,
            plan_maintenance,
        )

        with as_task_failure("Maintenance"):
            settings, pipeline = self.own_settings(), self.own_pipeline()
            now = datetime.now(UTC)
            if context["params"]["dry_run"]:
                plans = plan_maintenance(pipeline, settings, now)
            else:
                # Never that of a run of the stream, which Airflow may give the same id.
                run_id = f"maintenance__{context['run_id']}"
                plans = maintain_pipeline(pipeline, settings, run_id, now)
            for plan in plans:
                self._tell(plan)
            check_no_maintenance_refused(pipeline.name, plans)
        return {plan.name: _summary(plan) for plan in plans}

    def _tell(self, plan: MaintenancePlan) -> None:
        if plan.refused:
            self.log.warning("%s is left as it is: %s", plan.name, plan.refused)
        for part in plan.parts:
            self.log.info(
                "%s: %s: %s of %s, %s of %s bytes; %s",
                plan.name,
                part.work,
                part.going,
                part.number,
                part.going_size,
                part.size,
                part.reason,
            )


def _summary(plan: MaintenancePlan) -> dict[str, Any]:
    return {
        "refused": plan.refused,
        **{str(part.work): part.going for part in plan.parts},
    }
