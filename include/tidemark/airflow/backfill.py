"""The task that computes closed windows of a range again, as its Dag run's parameters say."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException

from tidemark.airflow.accepted import accept_arguments
from tidemark.airflow.assets import tell_changed
from tidemark.airflow.job import JobOperator
from tidemark.pipeline.instants import utc_instant
from tidemark.runs.backfill.backfill_result import BackfillResult, backfill_lines


class BackfillOperator(JobOperator):
    """Submits a backfill with the parameters `table`, `from`, `to`, `dry_run` and `accept`.

    It publishes by itself, in one commit, unless a check keeps it back. Of its outlets, gold
    tables, the one gets an event that it changed. Counts and gold's version go to XCom; what
    changes, before → after, stands in the task's log and in the result file.
    """

    job = "tidemark.streaming.jobs.backfill"
    doing = "The backfill"
    result_type = BackfillResult
    lease_purpose = "backfill"

    def job_run_id(self, context: Context) -> str:
        """Never that of a run of the stream: the lease takes over from an earlier try by it."""
        return f"backfill__{context['run_id']}"

    def job_arguments(self, context: Context) -> list[str]:
        asked = context["params"]
        bounds = [f"--from={_instant(asked, 'from')}", f"--to={_instant(asked, 'to')}"]
        dry_run = ["--dry-run"] if asked["dry_run"] else []
        return ["--table", asked["table"], *bounds, *dry_run, *accept_arguments(context)]

    def log_lines(self, result: BackfillResult) -> list[str]:
        return [] if result.error else list(backfill_lines(result))

    def ended(self, context: Context, result: BackfillResult) -> None:
        tell_changed(self, context, result.run_id, {result.table: result.published})

    def summary(self, result: BackfillResult, uri: str) -> dict[str, Any]:
        return {
            "result": uri,
            "table": result.table,
            "dry_run": result.dry_run,
            "windows_differing": result.found.windows,
            "windows_published": result.published_windows,
            "gold": result.gold,
            "data_docs": result.data_docs,
        }


def _instant(asked: Any, name: str) -> str:
    """A bound with its zone; without one it would be guessed."""
    try:
        return utc_instant(str(asked[name])).isoformat()
    except ValueError as error:
        raise AirflowFailException(
            f"The parameter `{name}` is no time that can be used: {error}. Nothing was started."
        ) from error
