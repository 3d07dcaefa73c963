"""The Dag that begins the next generation of a pipeline's table, and its task: started by hand."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Context, Param

from tidemark.airflow.accepted import accept_arguments
from tidemark.airflow.assets import asset_of, tell_changed
from tidemark.airflow.backfill import RUN_TYPES
from tidemark.airflow.job import JobOperator
from tidemark.airflow.task_docs import TASK_DOCS
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.names import MIGRATE_SUFFIX
from tidemark.pipeline.places import Places
from tidemark.runs.migration.result import MigrationResult, migration_lines


class MigrateOperator(JobOperator):
    """Submits a migration with the parameters `table`, `rebuild`, `dry_run` and `accept`.

    Gold changes in one commit, unless a check keeps it back. Of its outlets, gold tables, the one
    gets an event that it changed. Numbers and gold's version go to XCom.
    """

    job = "tidemark.streaming.jobs.migrate"
    doing = "The migration"
    result_type = MigrationResult

    def job_run_id(self, context: Context) -> str:
        """Never that of a run of the stream: the lease takes over from an earlier try by it."""
        return f"migrate__{context['run_id']}"

    def job_arguments(self, context: Context) -> list[str]:
        asked = context["params"]
        flags = [f"--{name.replace('_', '-')}" for name in ("dry_run", "rebuild") if asked[name]]
        return ["--table", asked["table"], *flags, *accept_arguments(context)]

    def log_lines(self, result: MigrationResult) -> list[str]:
        return [] if result.error else list(migration_lines(result))

    def ended(self, context: Context, result: MigrationResult) -> None:
        tell_changed(self, context, result.run_id, {result.table: result.published})

    def summary(self, result: MigrationResult, uri: str) -> dict[str, Any]:
        return {
            "result": uri,
            "table": result.table,
            "dry_run": result.dry_run,
            "generation": result.generation,
            "gold": result.gold,
            "data_docs": result.data_docs,
        }


def migrate_dag(
    pipeline: Pipeline, places: Places, dag_arguments: dict[str, Any], task: dict[str, Any]
) -> DAG:
    """The Dag. `dag_arguments` are those of the stream's Dag too, `task` those of its tasks."""
    tables = list(pipeline.tables)
    params = {
        "table": Param(tables[0], type="string", enum=tables, description="The table to migrate"),
        "dry_run": Param(
            True, type="boolean", description="Only show what would change; write nothing"
        ),
        "rebuild": Param(
            False, type="boolean", description="Also where the pipeline's file has not changed"
        ),
        "accept": Param(
            None,
            type=["null", "string"],
            description="Publish even where checks fail: the reason, which is recorded",
        ),
    }
    with DAG(
        dag_id=f"{pipeline.name}{MIGRATE_SUFFIX}",
        description=f"The next generation of a table of {pipeline.name}, computed from bronze",
        doc_md=_documentation(pipeline),
        schedule=None,
        allowed_run_types=RUN_TYPES,  # type: ignore[arg-type]  # converted to its enumeration
        params=params,
        **dag_arguments,
    ) as dag:
        MigrateOperator(
            task_id="migrate",
            outlets=[asset_of(table, places) for table in tables],
            doc_md=TASK_DOCS["migrate"],
            **task,
        )
    return dag


def _documentation(pipeline: Pipeline) -> str:
    return f"""\
Begins the next generation of a table of `{pipeline.name}`: all its windows are computed from
accepted rows (`bronze`) by the pipeline's file as it is now, and take the place of gold's in one
commit, with their columns. Runs go on from there.

- **When**: a run of the stream ended with `PipelineChanged`, *needs a new generation*; or, with
  `rebuild`, the table's history or checkpoint was lost.
- **`dry_run`** is on unless you switch it off: the task's log shows what changes, and how many
  windows stay as they are, are corrected, or are new. Nothing is written.
- **Checks** of the table hold here too. `accept` overrides them, with a reason that is recorded.
- **Runs** of the pipeline go on while windows are computed, and wait for what comes after that.
  Killed before its commit, gold is as it was: start it again.
- **The way back** is a command: `tidemark migrate {pipeline.name} --rollback TABLE`.
"""
