"""`spark-submit`'s entry for a backfill: arguments in, one backfill, result written, exit code out.

Exit codes as in `entry.py`. The result file says what differed, what was published, and the error.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import pyarrow as pa

from tidemark.gold.pins import TableResult
from tidemark.gold.plan import plan_publish
from tidemark.gold.recomputed import rows_of_changes
from tidemark.operators.repaired import BACKFILL, Recomputed
from tidemark.quality.planned_rows import TablePublish
from tidemark.quality.validate import Judged
from tidemark.recompute.backfill_result import BackfillResult, backfill_lines
from tidemark.runs.contract.check import admit
from tidemark.runs.losses import check_losses
from tidemark.runs.requests import BackfillRequest
from tidemark.storage.delta.history import VERSION, schema_of
from tidemark.storage.delta.notes import PublishedNote
from tidemark.storage.lease.lease import Lease
from tidemark.storage.result_file import RunError
from tidemark.streaming.gate import judge_publish
from tidemark.streaming.jobs.act import JobAct, act_main, result_of
from tidemark.streaming.jobs.recomputation import Recomputation
from tidemark.streaming.recompute.backfill import (
    Backfill,
    apply_backfill,
    balanced,
    pins,
    plan_backfill,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Backfill a range; the exit code. Never raises for an error that it can report."""
    request = BackfillRequest.read(argv)
    failed = partial(
        BackfillResult,
        table=request.table,
        dry_run=request.dry_run,
        window_from=request.start,
        window_to=request.end,
    )
    return act_main(request, BACKFILL, backfill_once, backfill_lines, failed)


def backfill_once(act: JobAct[BackfillRequest]) -> BackfillResult:
    """Backfill under the pipeline's lease, or only look; what happened, errors included."""
    return _Backfilling(act).carry_out()


class _Backfilling(Recomputation[BackfillRequest, BackfillResult]):
    trigger = BACKFILL
    advice = (
        "Gold is as it was, and nothing was appended. Mend the data or the check and repeat the "
        'backfill, or publish it as it is: the same command with --accept --reason "…" (in '
        "Airflow, the parameter `accept`)."
    )
    plan: Backfill | None = None

    def begin(self) -> bool:
        check_losses(self.run.pipeline, self.run.warehouse, by_hand=False)
        # Closed windows would be computed by measures that the others were not.
        admit(self.run.pipeline, self.run.settings)
        return True

    def lease(self) -> AbstractContextManager[Lease]:
        return self.act.lease("backfill")

    def compare(self) -> Recomputed | None:
        asked, progress = self.request, self.progress
        spark = self.act.spark()
        with progress.stage("compare"), progress.tasks_of(spark):
            self.plan = plan_backfill(spark, self.run, asked.table, asked.start, asked.end)
        with progress.stage("validate"), progress.tasks_of(spark):
            self.judged = judge_backfill(self.plan)
        return None if asked.dry_run else balanced(self.plan)

    def apply(self, recomputed: Recomputed, note: PublishedNote) -> TableResult:
        assert self.plan is not None
        return apply_backfill(self.plan, recomputed, note)

    def result(self, error: RunError | None) -> BackfillResult:
        facts: dict[str, Any] = {}
        if self.plan is not None:
            facts = {"bronze": self.plan.bronze.version, "found": self.plan.found}
        if self.committed is not None:
            facts |= {
                "appended": self.committed.windows_changed,
                "changes": self.committed.changes,
                "gold": self.committed.gold,
                "published_windows": self.committed.published_windows,
                "published": self.committed.published,
            }
        facts |= {"window_from": self.request.start, "window_to": self.request.end}
        return result_of(self.act, BackfillResult, self, error, **facts)


def judge_backfill(plan: Backfill) -> Judged:
    """The verdicts on what a backfill would publish; nothing is written. Asked before it is
    appended: behind that it would be too late, as the next publish takes along all of `changes`."""
    if plan.nothing_to_publish:
        return Judged(())
    return judge_publish(plan.table.run, _publish(plan))


def _publish(plan: Backfill) -> TablePublish:
    """The publish as it will be once what differs is appended."""
    table, state = plan.table, plan.table.state
    # A dry run holds no lease: a run may have published since the windows were compared.
    gold = table.gold.at_version(state.version)
    changes = table.changes.existing()
    schema, next_version = schema_of(changes), changes.version() + 1
    differing = rows_of_changes(
        schema, plan.differing, BACKFILL, state.generation, table.run_id
    ).select(schema.names)
    differing = differing.cast(schema).append_column(
        VERSION, pa.repeat(pa.scalar(next_version, pa.int64()), differing.num_rows)
    )
    return TablePublish(
        table.name,
        table.operator,
        gold,
        plan_publish(state, pins(plan, next_version)),
        pa.concat_tables([plan.pending, differing]),
        table.run_id,
    )


if __name__ == "__main__":
    sys.exit(main())
