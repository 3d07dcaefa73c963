"""`spark-submit`'s entry for a compaction: arguments in, snapshots, result written, exit code out.

Exit codes as in `entry.py`. The result file says which queries were compacted, with figures.

The life of one, under the pipeline's lease:
1. look at each checkpoint in use, and plan (pure);
2. compact those that are due, one after the other (`compact.py`);
3. record them in `ops/upkeep`;
4. housekeeping, which removes what no kept batch needs any more.
Killed anywhere, all of it can be repeated.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from tidemark.runs.pipeline_lease import OnLapse, pipeline_lease
from tidemark.runs.requests import CompactionRequest
from tidemark.runs.results.compaction_result import (
    CompactionResult,
    QueryCompaction,
    compaction_lines,
)
from tidemark.runs.run import Run
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
from tidemark.streaming.progress import Progress
from tidemark.streaming.session import StartSession, start_session
from tidemark.streaming.state.compact import compact_state
from tidemark.upkeep.pipeline_compaction import (
    Planned,
    check_no_compaction_refused,
    plan_compactions,
    record_compactions,
)
from tidemark.upkeep.pipeline_housekeeping import keep_checkpoints
from tidemark.upkeep.record import Kept


@dataclass
class CompactionSoFar:
    """What a compaction has done so far: filled as it goes, so that a failed one tells it too."""

    queries: list[tuple[Planned, QueryCompaction]] = field(default_factory=list)
    kept: tuple[Kept, ...] = ()
    took_over: str | None = None


def main(argv: Sequence[str] | None = None) -> int:
    """Compact what is due; the exit code. Never raises for an error that it can report."""
    return job_main(CompactionRequest.read(argv), _compaction, CompactionResult)


def _compaction(job: Job[CompactionRequest]) -> JobOutcome:
    run, every = job.run("compaction"), job.request.every
    result = compact_once(run, every, job.progress, job.started)
    lines = list(compaction_lines(result))
    return JobOutcome(result, job.target, job_exit_code(result.error), lines)


def compact_once(
    run: Run,
    every: bool,
    progress: Progress,
    started: datetime,
    session: StartSession = start_session,
    on_lapse: OnLapse = halt,
) -> CompactionResult:
    """Compact a pipeline under its lease; what happened, errors included.

    A query for which it is refused is left as it is, the others are compacted all the same, and the
    result has CompactionRefused. `on_lapse` is called when the lease is lost in the middle.
    """
    done, error = CompactionSoFar(), None
    try:
        with pipeline_lease(
            run.pipeline, run.settings, run.run_id, "compaction", on_lapse
        ) as lease:
            done.took_over = takeover_text(lease.took_over)
            fenced = replace(run, fence=lease.check)
            _work(fenced, every, progress, started, done, session)
    except Exception as failure:  # noqa: BLE001  whatever it is, the result file says it
        error = reported(failure, progress)
    return _result(run, started, done, progress, error)


def _work(
    run: Run,
    every: bool,
    progress: Progress,
    started: datetime,
    done: CompactionSoFar,
    session: StartSession,
) -> None:
    pipeline, settings = run.pipeline, run.settings
    planned = plan_compactions(pipeline, run.warehouse, started, every)
    wanted = [one for one in planned if one.plan and one.plan.stores]
    if wanted:
        with progress.stage("session"):
            spark = session(pipeline, settings)
        try:
            for one in wanted:
                _compact(spark, one, progress, done)
        finally:
            _record(run, started, done)
        with progress.stage("housekeeping"):
            now = datetime.now(UTC)
            done.kept = keep_checkpoints(pipeline, settings, run.warehouse, run.run_id, now)
    check_no_compaction_refused(pipeline.name, planned)


def _compact(spark: SparkSession, one: Planned, progress: Progress, done: CompactionSoFar) -> None:
    assert one.plan is not None
    with progress.stage(f"compaction of {one.checkpoint.name}"), progress.tasks_of(spark):
        done.queries.append((one, compact_state(spark, one.plan, one.checkpoint.place)))


def _record(run: Run, started: datetime, done: CompactionSoFar) -> None:
    rows = [(planned.checkpoint, figures) for planned, figures in done.queries]
    record_compactions(run.warehouse.upkeep, run.pipeline.name, run.run_id, started, rows)


def _result(
    run: Run, started: datetime, done: CompactionSoFar, progress: Progress, error: RunError | None
) -> CompactionResult:
    plans = [one.plan for one in done.kept if one.plan is not None]
    return CompactionResult(
        pipeline=run.pipeline.name,
        run_id=run.run_id,
        outcome="failed" if error else "succeeded",
        started_at=started,
        ended_at=datetime.now(UTC),
        queries={planned.checkpoint.table: figures for planned, figures in done.queries},
        files_removed=sum(plan.going_files for plan in plans),
        bytes_removed=sum(plan.going_size for plan in plans),
        seconds=progress.seconds,
        took_over=done.took_over,
        error=error,
    )


if __name__ == "__main__":
    sys.exit(main())
