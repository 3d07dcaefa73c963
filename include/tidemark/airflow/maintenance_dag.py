"""The Dag that maintains a pipeline's tables and files, by default once a day."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Param

from tidemark.airflow.maintenance import MaintenanceOperator
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.names import MAINTENANCE_SUFFIX
from tidemark.pipeline.settings.maintenance import Maintenance

# One for a date gone by would do what today's does.
RUN_TYPES = ("scheduled", "manual", "operator_triggered")


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
