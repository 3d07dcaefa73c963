"""`spark-submit`'s entry for a rewind of a pipeline: arguments in, result written, exit code out.

Exit codes as in `entry.py`. With `--dry-run` it only plans. Without `--to-run` and `--undo` it
finishes the rewind that was begun. Spark computes the tables' new generations; all before that is
`recompute/rewind`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial

from pyspark.sql import SparkSession

from tidemark.errors import RewindRefused, TidemarkError
from tidemark.gold.compared import Compared
from tidemark.gold.pins import Published, TableResult
from tidemark.gold.published import publish_note
from tidemark.gold.views import write_views
from tidemark.operators.repaired import MIGRATION
from tidemark.recompute.rewind.apply import keep_backup, left_to_begin, prove, take_back
from tidemark.recompute.rewind.change import PipelineChange, read_change
from tidemark.recompute.rewind.plan import PipelineRewindPlan
from tidemark.recompute.rewind.record import (
    changed_by_rewind,
    record_rewind,
    settle_lines,
)
from tidemark.recompute.rewind.request import is_of, planned
from tidemark.recompute.rewind.result import LeftReader, RewindResult, rewind_lines
from tidemark.recompute.table_change import change_of
from tidemark.runs.generations import REWIND
from tidemark.runs.lookups import copy_lookups
from tidemark.runs.pipeline_lease import OnLapse, pipeline_lease
from tidemark.runs.reads_others import forget_former, note_as_reader
from tidemark.runs.recorded_runs import record_interrupted_run, try_to_record_run
from tidemark.runs.requests import NO_REASON_WITHOUT, RewindRequest
from tidemark.runs.results.result import RunResult
from tidemark.runs.run import Run
from tidemark.runs.unfinished_act import (
    ActKind,
    PipelineAct,
    release_after,
    rewind_folder,
    stop_for,
    unfinished_act,
)
from tidemark.storage.lease.halt import halt
from tidemark.storage.result_file import RunError
from tidemark.streaming.jobs.entry import (
    Job,
    JobOutcome,
    job_exit_code,
    job_main,
    reported,
    takeover_text,
)
from tidemark.streaming.jobs.rewound_readers import begin_readers
from tidemark.streaming.progress import Progress
from tidemark.streaming.recompute.migration import (
    apply_migration,
    balanced,
    compute_table,
    plan_migration,
)
from tidemark.streaming.session import StartSession, start_session


@dataclass
class RewindSoFar:
    """What a rewind has done so far: filled as it goes, so that a failed one tells it too."""

    change: PipelineChange | None = None
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    backup: str | None = None
    found: dict[str, Compared] = field(default_factory=dict)
    tables: dict[str, TableResult] = field(default_factory=dict)
    changed: dict[str, Published] = field(default_factory=dict)
    left: tuple[LeftReader, ...] = ()
    took_over: str | None = None


def main(argv: Sequence[str] | None = None) -> int:
    """Rewind a pipeline; the exit code. Never raises for an error that it can report."""
    request = RewindRequest.read(argv)
    return job_main(request, _rewind, partial(RewindResult, dry_run=request.dry_run))


def _rewind(job: Job[RewindRequest]) -> JobOutcome:
    request = job.request
    result = rewind_once(job.run(REWIND), request, job.progress, job.started)
    target = request.result if request.dry_run else job.target
    return JobOutcome(result, target, job_exit_code(result.error), list(rewind_lines(result)))


def rewind_once(
    run: Run,
    asked: RewindRequest,
    progress: Progress,
    started: datetime,
    session: StartSession = start_session,
    on_lapse: OnLapse = halt,
) -> RewindResult:
    """Rewind under the pipeline's lease, or only plan; what happened, errors included.

    `on_lapse` is called when the lease is lost in the middle: a job ends itself.
    """
    done, error = RewindSoFar(), None
    try:
        if asked.dry_run:
            _keep_plan(done, planned(run.pipeline, run.settings, asked, started))
        else:
            _work(run, asked, progress, started, done, session, on_lapse)
    except Exception as failure:  # noqa: BLE001  whatever it is, the result file says it
        error = reported(failure, progress)
    result = _result(run, asked.dry_run, progress, started, done, error)
    if done.backup is not None:
        _record_run(run, result, progress)
    return result


def _work(
    run: Run,
    asked: RewindRequest,
    progress: Progress,
    started: datetime,
    done: RewindSoFar,
    session: StartSession,
    on_lapse: OnLapse,
) -> None:
    lease = pipeline_lease(
        run.pipeline, run.settings, run.run_id, REWIND, on_lapse, finishes=ActKind.REWIND
    )
    with lease as held:
        done.took_over = takeover_text(held.took_over)
        run = replace(run, fence=held.check)
        record_interrupted_run(run.pipeline, run.warehouse)
        # The generations are computed with them: one that is broken is told before anything goes.
        for copied in copy_lookups(run):
            progress.say(copied)
        change = _begun(run, asked, started, done)
        done.backup = rewind_folder(run.warehouse, change.id).uri
        with progress.stage("take back"):
            take_back(change, run.warehouse, held.number)
        with progress.stage("session"):
            spark = session(run.pipeline, run.settings)
        rewinding = replace(run, run_id=change.run_id)
        for table in left_to_begin(change, run.warehouse):
            with progress.stage(f"generation of {table}"), progress.tasks_of(spark):
                _begin_generation(spark, rewinding, table, change.planned_at, done)
        done.changed = dict(changed_by_rewind(change, run.pipeline, run.warehouse))
        settle_lines(change, run.pipeline, run.warehouse)
        record_rewind(change, run.warehouse)
        prove(change, run.pipeline, run.warehouse, datetime.now(UTC))
        done.left = begin_readers(run, change, progress, session, on_lapse)
        release_after(run.warehouse)
        # One that cannot be computed keeps no rewind from being finished.
        write_views(run.pipeline.tables, run.warehouse)
    if done.left:
        raise _readers_left(run, done)


def _begun(run: Run, asked: RewindRequest, now: datetime, done: RewindSoFar) -> PipelineChange:
    """What is carried out: planned now, backed up and begun, or begun before. RewindRefused."""
    unfinished = unfinished_act(run.warehouse)
    if unfinished is not None:
        change = read_change(unfinished.folder(run.warehouse))
        if is_of(change, asked):
            done.change = change
            return change
        if asked.undo is None:
            raise RewindRefused(
                f"{run.pipeline.name} was to go back to {change.to}, and that was not finished. "
                f"Finish it: `tidemark rewind {run.pipeline.name} --apply`. Or take it back: "
                f"--undo {unfinished.id}. Nothing was changed."
            )
    if asked.lacks_reason:
        raise RewindRefused(f"{NO_REASON_WITHOUT}. Nothing was changed.")
    plan = planned(run.pipeline, run.settings, asked, now)
    _keep_plan(done, plan)
    keep_backup(plan.change, run.warehouse)
    stop_for(run.warehouse, PipelineAct(ActKind.REWIND, plan.change.id))
    return plan.change


def _keep_plan(done: RewindSoFar, plan: PipelineRewindPlan) -> None:
    done.change, done.notes, done.refused = plan.change, plan.notes, plan.refused
    if plan.refused:
        raise RewindRefused(
            f"{plan.change.pipeline} does not go back to {plan.change.to}. Nothing was changed. "
            f"{' '.join(plan.refused)}"
        )


def _begin_generation(
    spark: SparkSession, run: Run, table: str, planned_at: datetime, done: RewindSoFar
) -> None:
    """Begin a generation of a table without its checks: these values were published once."""
    change = change_of(run.pipeline, run.settings, table, rebuild=True)
    note_as_reader(run)
    plan = plan_migration(spark, run, table, change, compute_table(spark, run, table, change))
    done.found[table] = plan.compared()
    note = publish_note(run.run_id, planned_at, MIGRATION)
    done.tables[table] = apply_migration(plan, balanced(plan), note)
    forget_former(run, table, change.former)


def _readers_left(run: Run, done: RewindSoFar) -> TidemarkError:
    commands = ", ".join(f"`{one.command}`" for one in done.left)
    return RewindRefused(
        f"{run.pipeline.name} has gone back, and its runs go on. But tables of other pipelines "
        f"that join with it could not begin anew, and their runs stop until they do: {commands}."
    )


def _record_run(run: Run, result: RewindResult, progress: Progress) -> None:
    """Its row in `ops/runs`; where it cannot be written, the next run records it."""
    change = result.change
    assert change is not None
    row = RunResult(
        pipeline=result.pipeline,
        run_id=change.run_id,
        outcome=result.outcome,
        held=False,
        trigger=REWIND,
        scheduled_at=change.planned_at,
        # As gold's commits note it, whichever try made them.
        started_at=change.planned_at,
        ended_at=result.ended_at,
        seconds=progress.seconds,
        tables=dict(result.tables),
        took_over=result.took_over,
        error=result.error,
        # Who gave the reason, not who finished it; a plan of before does not say it.
        by=change.by or run.by,
        dag=run.dag,
        reason=change.reason,
    )
    try_to_record_run(run.warehouse.runs, row, progress.say)


def _result(
    run: Run,
    dry_run: bool,
    progress: Progress,
    started: datetime,
    done: RewindSoFar,
    error: RunError | None,
) -> RewindResult:
    return RewindResult(
        pipeline=run.pipeline.name,
        run_id=run.run_id,
        dry_run=dry_run,
        outcome="failed" if error else "succeeded",
        started_at=started,
        ended_at=datetime.now(UTC),
        change=done.change,
        notes=done.notes,
        refused=done.refused,
        backup=done.backup,
        found=done.found,
        tables=done.tables,
        changed=done.changed,
        left=done.left,
        seconds=dict(progress.seconds),
        took_over=done.took_over,
        error=error,
    )


if __name__ == "__main__":
    sys.exit(main())
