"""`spark-submit`'s entry for a backfill: arguments in, one backfill, result written, exit code out.

Exit codes as in `entry.py`. The result file says what differed, what was published, and the error.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa

from tidemark.gold.pins import TableResult
from tidemark.gold.plan import plan_publish
from tidemark.gold.published import publish_note
from tidemark.gold.recomputed import rows_of_changes
from tidemark.operators.repaired import BACKFILL
from tidemark.quality.planned_rows import TablePublish
from tidemark.quality.validate import Judged, check_none_failed
from tidemark.runs.backfill.backfill_result import BackfillResult, backfill_lines
from tidemark.runs.contract.check import admit
from tidemark.runs.losses import check_losses
from tidemark.runs.pipeline_lease import OnLapse, pipeline_lease
from tidemark.runs.recorded_runs import record_interrupted_run
from tidemark.runs.requests import BackfillRequest
from tidemark.runs.run import Run
from tidemark.storage.delta.history import VERSION, schema_of
from tidemark.storage.lease.halt import halt
from tidemark.storage.result_file import RunError
from tidemark.streaming.backfill.backfill import (
    Backfill,
    apply_backfill,
    balanced,
    pins,
    plan_backfill,
)
from tidemark.streaming.gate import judge_publish, record_judged
from tidemark.streaming.jobs.entry import (
    Job,
    JobOutcome,
    job_exit_code,
    job_main,
    reported,
    takeover_text,
)
from tidemark.streaming.jobs.recomputation import check_lines, record_recomputation
from tidemark.streaming.progress import Progress
from tidemark.streaming.session import StartSession, start_session

_ADVICE = (
    "Gold is as it was, and nothing was appended. Mend the data or the check and repeat the "
    'backfill, or publish it as it is: the same command with --accept --reason "…" (in Airflow, '
    "the parameter `accept`)."
)


@dataclass
class BackfillSoFar:
    """What a backfill has done so far: filled as it goes, so that a failed one tells it too."""

    plan: Backfill | None = None
    judged: Judged | None = None
    data_docs: str | None = None
    published: TableResult | None = None
    took_over: str | None = None


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
    return job_main(request, _backfill, failed)


def _backfill(job: Job[BackfillRequest]) -> JobOutcome:
    request = job.request
    result = backfill_once(job.run(BACKFILL), request, job.progress, job.started)
    target = request.result if request.dry_run else job.target
    told = [] if result.error else list(backfill_lines(result))
    return JobOutcome(result, target, job_exit_code(result.error), told)


def backfill_once(
    run: Run,
    request: BackfillRequest,
    progress: Progress,
    started: datetime,
    session: StartSession = start_session,
    on_lapse: OnLapse = halt,
) -> BackfillResult:
    """Backfill under the pipeline's lease, or only look; what happened, errors included.

    `on_lapse` is called when the lease is lost in the middle: a job ends itself.
    """
    done, error = BackfillSoFar(), None
    try:
        check_losses(run.pipeline, run.warehouse, by_hand=False)
        # Closed windows would be computed by measures that the others were not.
        admit(run.pipeline, run.settings)
        if request.dry_run:
            _look(run, request, progress, done, session)
        else:
            _work(run, request, progress, started, done, session, on_lapse)
    except Exception as failure:  # noqa: BLE001  whatever it is, the result file says it
        error = reported(failure, progress)
    result = _result(run, request, started, done, error)
    if not request.dry_run:
        record_recomputation(run, result, done.published, progress)
    return result


def _look(
    run: Run,
    request: BackfillRequest,
    progress: Progress,
    done: BackfillSoFar,
    session: StartSession,
) -> None:
    with progress.stage("session"):
        spark = session(run.pipeline, run.settings)
    with progress.stage("compare"), progress.tasks_of(spark):
        done.plan = plan_backfill(spark, run, request.table, request.start, request.end)
    with progress.stage("validate"), progress.tasks_of(spark):
        done.judged = judge_backfill(done.plan)


def _work(
    run: Run,
    request: BackfillRequest,
    progress: Progress,
    started: datetime,
    done: BackfillSoFar,
    session: StartSession,
    on_lapse: OnLapse,
) -> None:
    with pipeline_lease(run.pipeline, run.settings, run.run_id, "backfill", on_lapse) as lease:
        done.took_over = takeover_text(lease.took_over)
        run = replace(run, fence=lease.check)
        record_interrupted_run(run.pipeline, run.warehouse)
        _look(run, request, progress, done, session)
        assert done.plan is not None
        assert done.judged is not None
        recomputed = balanced(done.plan)
        result = _result(run, request, started, done, None)
        accepted = request.accepted
        done.data_docs = record_judged(run, result, done.judged, accepted, result.ended_at)
        if accepted is None:
            check_none_failed(run.pipeline.name, run.run_id, done.judged.verdicts, _ADVICE)
        with progress.stage("publish"):
            note = publish_note(run.run_id, started, BACKFILL)
            done.published = apply_backfill(done.plan, recomputed, note)


def _result(
    run: Run,
    request: BackfillRequest,
    started: datetime,
    done: BackfillSoFar,
    error: RunError | None,
) -> BackfillResult:
    facts: dict[str, Any] = {}
    if done.plan is not None:
        facts = {"bronze": done.plan.bronze.version, "found": done.plan.found}
    if done.published is not None:
        facts |= {
            "appended": done.published.windows_changed,
            "changes": done.published.changes,
            "gold": done.published.gold,
            "published_windows": done.published.published_windows,
            "published": done.published.published,
        }
    return BackfillResult(
        pipeline=run.pipeline.name,
        table=request.table,
        run_id=run.run_id,
        dry_run=request.dry_run,
        outcome="failed" if error else "succeeded",
        window_from=request.start,
        window_to=request.end,
        started_at=started,
        ended_at=datetime.now(UTC),
        took_over=done.took_over,
        checks=tuple(check_lines(done.judged, done.published)),
        data_docs=done.data_docs,
        error=error,
        **facts,
    )


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
