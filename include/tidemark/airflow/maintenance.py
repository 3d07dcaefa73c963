"""The Dag that maintains a pipeline's tables and files, and its task, which needs no JVM."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Context, Param
from airflow.sdk.exceptions import AirflowFailException

from tidemark.airflow.outcome import as_task_failure
from tidemark.airflow.pipeline_operator import PipelineOperator
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.names import MAINTENANCE_SUFFIX
from tidemark.pipeline.settings.maintenance import Maintenance

if TYPE_CHECKING:
    from tidemark.upkeep.maintenance.plan import MaintenancePlan

# One for a date gone by would do what today's does.
RUN_TYPES = ("scheduled", "manual", "operator_triggered")


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
        from tidemark.upkeep.maintenance.maintain import (
            check_no_maintenance_refused,
            maintain_pipeline,
            plan_maintenance,
        )

        # Without this, one who has mistyped it would carry out what was meant as a look.
        if unknown := sorted((context["dag_run"].conf or {}).keys() - {"dry_run"}):
            raise AirflowFailException(
                f"Maintenance was not started: it has no parameter {', '.join(unknown)}, and "
                "nothing was changed. It has dry_run alone: trigger the Dag again without others."
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
        return {
            plan.name: {"refused": plan.refused} | {str(one.work): one.going for one in plan.parts}
            for plan in plans
        }

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


def maintenance_dag(
    pipeline: Pipeline, keep: Maintenance, dag_arguments: dict[str, Any], task: dict[str, Any]
) -> DAG:
    """The Dag. `dag_arguments` are those of the stream's Dag too; `task` names the files that the
    task reads."""
    with DAG(
        dag_id=f"{pipeline.name}{MAINTENANCE_SUFFIX}",
        description=f"Small files, old files, logs and rows of {pipeline.name}",
        doc_md=_documentation(pipeline),
        schedule=keep.schedule,
        allowed_run_types=RUN_TYPES,  # type: ignore[arg-type]  # converted to its enumeration
        params={
            "dry_run": Param(
                False, type="boolean", description="Only show what is due; change nothing"
            )
        },
        **dag_arguments,
    ) as dag:
        MaintenanceOperator(task_id="maintain", **task)
    return dag


def _documentation(pipeline: Pipeline) -> str:
    return f"""\
Packs the small files of the tables of `{pipeline.name}`, and removes what is older than the
settings keep it (`maintenance`) and no reader needs: data files, log entries, rows of `ops/`,
result files.

- **`dry_run`**: the task's log shows what is due, with counts and bytes; nothing is changed.
- **Fails for good** where a query, or a publish, is behind by more than half of the retention: that
  table is left as it is, the others are done. The message says what to do.
- A run and maintenance never work at once; the later one is told who works, and tries again.
"""
