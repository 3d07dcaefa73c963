"""The task that compacts state, where the check before it said that it is due."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from tidemark.airflow.job import JobOperator
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.requests import CompactionRequest
from tidemark.runs.results.compaction_result import CompactionResult, compaction_lines


class CompactStateOperator(JobOperator):
    """Submits a compaction where `checked` (the state check's XCom) has a query that is due.

    Otherwise the task is skipped before a JVM starts; a Dag run whose other tasks went well
    succeeds. What was compacted goes to XCom, by table.
    """

    request_type = CompactionRequest
    doing = "The compaction"
    result_type = CompactionResult
    log_lines = staticmethod(compaction_lines)
    begins_with_lease = True
    template_fields = (*JobOperator.template_fields, "checked")

    def __init__(self, *, checked: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.checked = checked

    def asked(self, context: Context) -> dict[str, Any]:
        return {}

    def done_without_job(self, context: Context, settings: Settings, uri: str) -> None:
        # The readers of checkpoints, which parsing a Dag does without.
        from tidemark.checkpoint.state.check import StateVerdict

        wanted = (StateVerdict.DUE, StateVerdict.OVERDUE)
        # Nothing where the check failed: it runs whatever became of the tasks before.
        checks: Mapping[str, Mapping[str, Any] | None] = self.checked or {}
        due = [name for name, one in checks.items() if one and one["verdict"] in wanted]
        if not due:
            raise AirflowSkipException("No state is due for compaction.")
        self.log.info("Spark is started: the state of %s is due for compaction", ", ".join(due))

    def summary(self, result: CompactionResult, uri: str) -> dict[str, Any]:
        return {
            "result": uri,
            "tables": {
                name: {
                    "snapshots": one.snapshots,
                    "chain_before": one.before.longest,
                    "chain_after": one.after.longest,
                    "seconds": one.seconds,
                }
                for name, one in result.queries.items()
            },
        }
