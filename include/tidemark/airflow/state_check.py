"""The task that looks at the state of a pipeline's queries, without a JVM."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from tidemark.airflow.metrics import gauge_state
from tidemark.airflow.outcome import as_task_failure
from tidemark.airflow.pipeline_operator import PipelineOperator

if TYPE_CHECKING:
    from tidemark.upkeep.state_check import Checked


class StateCheckOperator(PipelineOperator):
    """Checks what the next start of each query has to replay; it only reads, and takes no lease.

    Verdict, reason and figures go to XCom, by table, and to `ops/upkeep`, by store. A state that is
    due for compaction is no failure. The task fails for good, once all of it is recorded, where
    the state of a query cannot be rebuilt.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Check and record; a repeat looks again."""
        # delta-rs and Arrow, which parsing a Dag must not load.
        from tidemark.runs.status.recorded_status import record_status
        from tidemark.storage.warehouse import Warehouse
        from tidemark.upkeep.state_check import check_none_lost, check_pipeline, record_checks

        with as_task_failure("The state check"):
            settings, pipeline = self.own_settings(), self.own_pipeline()
            run_id, upkeep = str(context["run_id"]), Warehouse.of(pipeline.name, settings).upkeep
            checked, now = check_pipeline(pipeline, settings), datetime.now(UTC)
            record_checks(upkeep, pipeline.name, run_id, now, checked)
            record_status(pipeline.name, settings, now)
            for one in checked:
                summary = (
                    f"{one.state.verdict}: {one.state.reason}" if one.state else "no query yet"
                )
                self.log.info("%s: %s", one.checkpoint.name, summary)
                if one.state:
                    gauge_state(pipeline.name, one.checkpoint.table, one.state.held.size)
            check_none_lost(pipeline.name, checked)
        return {one.checkpoint.table: _summary(one) for one in checked}


def _summary(one: Checked) -> dict[str, Any] | None:
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
