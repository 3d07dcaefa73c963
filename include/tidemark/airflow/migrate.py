"""The task that begins a table's next generation, as its Dag run's parameters say."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context

from tidemark.airflow.accepted import accept_arguments
from tidemark.airflow.assets import tell_changed
from tidemark.airflow.job import JobOperator
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
