"""The task that takes a pipeline back to the end of a run, as its Dag run's parameters say."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context

from tidemark.airflow.assets import tell_changed
from tidemark.airflow.job import JobOperator
from tidemark.upkeep.pipeline_rewind.result import RewindResult, rewind_lines


class RewindOperator(JobOperator):
    """Submits a rewind with the parameters `to_run`, `to_offsets`, `undo` and `dry_run`.

    Of its outlets, gold tables, those get an event whose rows went back. The plan, or what was
    done, stands in the task's log; its backup and the runs that are undone go to XCom.
    """

    job = "tidemark.streaming.jobs.rewind"
    doing = "The rewind"
    result_type = RewindResult
    lease_purpose = "rewind"

    def job_run_id(self, context: Context) -> str:
        """Never that of a run of the stream: the lease takes over from an earlier try by it."""
        return f"rewind__{context['run_id']}"

    def job_arguments(self, context: Context) -> list[str]:
        asked = context["params"]
        arguments = ["--dry-run"] if asked["dry_run"] else []
        for one in asked["to_offsets"] or ():
            arguments += ["--to-offset", one]
        for name in ("to_run", "undo"):
            arguments += [f"--{name.replace('_', '-')}", asked[name]] if asked[name] else []
        return arguments

    def log_lines(self, result: RewindResult) -> list[str]:
        return list(rewind_lines(result))

    def ended(self, context: Context, result: RewindResult) -> None:
        tell_changed(self, context, result.run_id, result.changed)

    def summary(self, result: RewindResult, uri: str) -> dict[str, Any]:
        change = result.change
        return {
            "result": uri,
            "dry_run": result.dry_run,
            "rewind": None if change is None else change.id,
            "undone": [] if change is None else list(change.undone),
            "backup": result.backup,
        }
