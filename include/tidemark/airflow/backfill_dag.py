"""The Dag that backfills a pipeline's tables: started by hand, with parameters."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Param

from tidemark.airflow.assets import asset_of
from tidemark.airflow.backfill import BackfillOperator
from tidemark.airflow.task_docs import TASK_DOCS
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.names import BACKFILL_SUFFIX
from tidemark.pipeline.places import Places

# Started by a person, or by another Dag; an Airflow backfill of it would repeat one range.
RUN_TYPES = ("manual", "operator_triggered")


def backfill_dag(
    pipeline: Pipeline, places: Places, dag_arguments: dict[str, Any], task: dict[str, Any]
) -> DAG:
    """The Dag. `dag_arguments` are those of the stream's Dag too, `task` those of its tasks."""
    with DAG(
        dag_id=f"{pipeline.name}{BACKFILL_SUFFIX}",
        description=f"Closed windows of {pipeline.name}, computed again from accepted rows",
        doc_md=_documentation(pipeline),
        schedule=None,
        allowed_run_types=RUN_TYPES,  # type: ignore[arg-type]  # converted to its enumeration
        params=_params(pipeline),
        **dag_arguments,
    ) as dag:
        BackfillOperator(
            task_id="backfill",
            outlets=[asset_of(table, places) for table in pipeline.tables],
            doc_md=TASK_DOCS["backfill"],
            **task,
        )
    return dag


def _params(pipeline: Pipeline) -> dict[str, Param]:
    tables = list(pipeline.tables)
    return {
        "table": Param(tables[0], type="string", enum=tables, description="The table to mend"),
        "from": Param(
            type="string",
            format="date-time",
            description="Windows that start here or later, with a zone: 2026-07-01T00:00:00Z",
        ),
        "to": Param(
            type="string", format="date-time", description="… and before this, with a zone"
        ),
        "dry_run": Param(
            True, type="boolean", description="Only show what would change; write nothing"
        ),
        "accept": Param(
            None,
            type=["null", "string"],
            description="Publish even where checks fail: the reason, which is recorded",
        ),
    }


def _documentation(pipeline: Pipeline) -> str:
    return f"""\
Computes closed windows of a table of `{pipeline.name}` again from its accepted rows (`bronze`), and
publishes those that differ, in one commit: their `status` becomes `corrected`, their `revision`
counts up; windows that were missing come as `final`, and windows without any row go.

- **When**: rows of `bronze` were corrected, deleted or ingested again for days gone by, or an audit
  found differences.
- **`dry_run`** is on unless you switch it off: the task's log shows how many windows would change,
  with examples, before → after. Nothing is written.
- **Checks** of the table hold here too, for what would be published: where one with `fail` does not
  pass, nothing is written. `accept` overrides that, with a reason that is recorded.
- **Refused**: ranges with windows that are still open (the message names the largest range), and,
  with `keep`, frozen ones; and while windows of a run wait for their publish (the task is tried
  again).
- **The stream** goes on undisturbed: its checkpoint, watermark and close frontier stay as they are.
  A backfill and a run never work at once; the later one is told who works, and tries again.
"""
