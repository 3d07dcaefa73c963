"""The tasks after a publish: checkpoints are kept small, their state is looked at, and compacted
where that is due."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from tidemark.airflow.job import JobOperator
from tidemark.airflow.metrics import gauge_state
from tidemark.airflow.outcome import as_task_failure
from tidemark.airflow.pipeline_operator import PipelineOperator
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.requests import CompactionRequest
from tidemark.runs.results.compaction_result import CompactionResult, compaction_lines

if TYPE_CHECKING:
    from tidemark.upkeep.record import Kept
    from tidemark.upkeep.state_check import Checked


class CheckpointHousekeepingOperator(PipelineOperator):
    """Keeps a pipeline's checkpoints small, under its lease; safe to repeat.

    Files and bytes go to XCom, by checkpoint; the reasons stand in the task's log and in
    `ops/upkeep`. It fails where the lease is held (a retry can help), and, once all others are
    done, where a checkpoint must not be touched (no retry can).
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Remove what may go; a repeat removes what is left."""
        from tidemark.upkeep.pipeline_housekeeping import (
            check_no_housekeeping_refused,
            housekeep_pipeline,
        )

        with as_task_failure("Housekeeping"):
            settings, pipeline = self.own_settings(), self.own_pipeline()
            run_id = self.own_run_id(context)
            kept = housekeep_pipeline(pipeline, settings, run_id, datetime.now(UTC))
            for one in kept:
                self._tell(one)
            check_no_housekeeping_refused(pipeline.name, kept)
        return {one.checkpoint.table: _of_kept(one) for one in kept}

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


def _of_kept(kept: Kept) -> dict[str, Any] | None:
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


class StateCheckOperator(PipelineOperator):
    """Checks what the next start of each query has to replay; it only reads, and takes no lease.

    Verdict, reason and figures go to XCom, by table, and to `ops/upkeep`, by store. A state that is
    due for compaction is no failure. The task fails for good, once all of it is recorded, where
    the state of a query cannot be rebuilt.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Check and record; a repeat looks again."""
        from tidemark.runs.status.recorded_status import record_status
        from tidemark.storage.warehouse import Warehouse
        from tidemark.upkeep.state_check import check_none_lost, check_pipeline, record_checks

        with as_task_failure("The state check"):
            settings, pipeline = self.own_settings(), self.own_pipeline()
            upkeep = Warehouse.of(pipeline.name, settings).upkeep
            checked, now = check_pipeline(pipeline, settings), datetime.now(UTC)
            record_checks(upkeep, pipeline.name, self.own_run_id(context), now, checked)
            record_status(pipeline.name, settings, now)
            for one in checked:
                summary = (
                    f"{one.state.verdict}: {one.state.reason}" if one.state else "no query yet"
                )
                self.log.info("%s: %s", one.checkpoint.name, summary)
                if one.state:
                    gauge_state(pipeline.name, one.checkpoint.table, one.state.held.size)
            check_none_lost(pipeline.name, checked)
        return {one.checkpoint.table: _of_check(one) for one in checked}


def _of_check(one: Checked) -> dict[str, Any] | None:
    state = one.state
    if state is None:
        return None
    return {
        "verdict": str(state.verdict),
        "reason": state.reason,
        "longest_chain": state.longest,
        "changes": state.replayed.files,
        "change_bytes": state.replayed.size,
        "files": state.held.files,
        "bytes": state.held.size,
    }


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
