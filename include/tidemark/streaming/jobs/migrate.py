"""`spark-submit`'s entry for a migration: arguments in, result written, exit code out.

Exit codes as in `entry.py`. The result file says what changes, what is published, and the error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from pyspark.sql import SparkSession
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_delay,
    wait_fixed,
)

from tidemark.errors import LeaseHeld
from tidemark.gold.compared import Compared
from tidemark.gold.pins import TableResult
from tidemark.gold.published import publish_note
from tidemark.operators.repaired import MIGRATION
from tidemark.pipeline.instants import instant_text
from tidemark.quality.validate import Judged, check_none_failed
from tidemark.runs.losses import check_losses
from tidemark.runs.migration.change import Change, change_of
from tidemark.runs.migration.result import MigrationResult, migration_lines
from tidemark.runs.pipeline_lease import OnLapse, pipeline_lease
from tidemark.runs.reads_others import forget_former, note_as_reader
from tidemark.runs.recorded_runs import record_interrupted_run
from tidemark.runs.requests import MigrationRequest
from tidemark.runs.run import Run
from tidemark.storage.lease.halt import halt
from tidemark.storage.lease.lease import Lease, is_held
from tidemark.storage.result_file import RunError
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
from tidemark.streaming.migration.computed import Computed
from tidemark.streaming.migration.migrate import (
    Migration,
    apply_migration,
    balanced,
    compute_table,
    plan_migration,
)
from tidemark.streaming.progress import Progress
from tidemark.streaming.session import StartSession, start_session

_ADVICE = (
    "Gold is as it was, and its generation goes on. Mend the data or the check and repeat the "
    'migration, or publish it as it is: the same command with --accept --reason "…".'
)
# A run may take that long, and its lease is looked at so often.
_MOST_WAITED = timedelta(hours=1)
_LOOKED_AGAIN = timedelta(seconds=5)


@dataclass
class MigrationSoFar:
    """What a migration has done so far: filled as it goes, so that a failed one tells it too."""

    change: Change | None = None
    plan: Migration | None = None
    found: Compared | None = None
    judged: Judged | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    data_docs: str | None = None
    published: TableResult | None = None
    took_over: str | None = None


def main(argv: Sequence[str] | None = None) -> int:
    """Migrate a table; the exit code. Never raises for an error that it can report."""
    request = MigrationRequest.read(argv)
    failed = partial(MigrationResult, table=request.table, dry_run=request.dry_run)
    return job_main(request, _migrate, failed)


def _migrate(job: Job[MigrationRequest]) -> JobOutcome:
    request = job.request
    result = migrate_once(job.run(MIGRATION), request, job.progress, job.started)
    target = request.result if request.dry_run else job.target
    told = [] if result.error else list(migration_lines(result))
    return JobOutcome(result, target, job_exit_code(result.error), told)


def migrate_once(
    run: Run,
    request: MigrationRequest,
    progress: Progress,
    started: datetime,
    session: StartSession = start_session,
    on_lapse: OnLapse = halt,
) -> MigrationResult:
    """Migrate under the pipeline's lease, or only look; what happened, errors included.

    `on_lapse` is called when the lease is lost in the middle: a job ends itself.
    """
    done, error = MigrationSoFar(seconds=progress.seconds), None
    try:
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


@dataclass(frozen=True)
class Begun:
    """A migration whose windows are computed, by bronze as it was then."""

    spark: SparkSession
    computed: Computed


def _begin(
    run: Run,
    request: MigrationRequest,
    progress: Progress,
    done: MigrationSoFar,
    session: StartSession,
) -> Begun | None:
    """The long step, without the lease; None where there is nothing to migrate. Where the other
    bronze that a join reads has its own upkeep, it has to know of that before."""
    change = _changes(run, request, done, _is_alone(run))
    if change is None:
        return None
    if not request.dry_run:
        note_as_reader(run)
    with progress.stage("session"):
        spark = session(run.pipeline, run.settings)
    with progress.stage("compute"), progress.tasks_of(spark):
        return Begun(spark, compute_table(spark, run, request.table, change))


def _is_alone(run: Run) -> bool:
    """Beside a run that works, its tables do not fit each other for a moment, and it has a batch
    that it planned."""
    return not is_held(run.places.lease, run.settings.storage_options)


def _changes(
    run: Run, request: MigrationRequest, done: MigrationSoFar, alone: bool
) -> Change | None:
    """What changes; None where nothing is to change."""
    if alone:
        rebuilt = request.table if request.rebuild else None
        check_losses(run.pipeline, run.warehouse, rebuilt=rebuilt)
    done.change = change_of(run.pipeline, run.settings, request.table, request.rebuild, alone)
    return done.change if done.change.differences or request.rebuild else None


def _compare(
    begun: Begun,
    run: Run,
    request: MigrationRequest,
    progress: Progress,
    done: MigrationSoFar,
    alone: bool,
) -> None:
    """Catch up with bronze, and look at what gold would be; nothing is written."""
    change = _changes(run, request, done, alone)
    if change is None:
        return
    spark = begun.spark
    with progress.stage("catch up"), progress.tasks_of(spark):
        done.plan = plan_migration(spark, run, request.table, change, begun.computed)
        done.found = done.plan.compared()
        if done.plan.gold_is_lost:
            progress.say(_without_gold(done.plan))
    with progress.stage("validate"), progress.tasks_of(spark):
        done.judged = judge_publish(run, done.plan)


def _without_gold(plan: Migration) -> str:
    frozen = plan.to.frozen_before_ms
    gone = ""
    if frozen is not None and plan.former.identity is None:
        gone = f"; of those before {instant_text(frozen)} neither bronze nor a history has the rows"
    return (
        f"what was published of {plan.name} is gone: every window has revision 0, closed are those "
        f"up to {instant_text(plan.table.state.close_ms)}{gone}"
    )


def _look(
    run: Run,
    request: MigrationRequest,
    progress: Progress,
    done: MigrationSoFar,
    session: StartSession,
) -> None:
    begun = _begin(run, request, progress, done, session)
    if begun is not None:
        _compare(begun, run, request, progress, done, _is_alone(run))


def _work(
    run: Run,
    request: MigrationRequest,
    progress: Progress,
    started: datetime,
    done: MigrationSoFar,
    session: StartSession,
    on_lapse: OnLapse,
) -> None:
    begun = _begin(run, request, progress, done, session)
    if begun is None:
        return
    with _lease_once_free(run, on_lapse, progress) as lease:
        done.took_over = takeover_text(lease.took_over)
        run = replace(run, fence=lease.check)
        record_interrupted_run(run.pipeline, run.warehouse)
        _compare(begun, run, request, progress, done, alone=True)
        if done.plan is None or done.judged is None:
            return
        recomputed = balanced(done.plan)
        result = _result(run, request, started, done, None)
        accepted = request.accepted
        done.data_docs = record_judged(run, result, done.judged, accepted, result.ended_at)
        if accepted is None:
            check_none_failed(run.pipeline.name, run.run_id, done.judged.verdicts, _ADVICE)
        with progress.stage("publish"):
            note = publish_note(run.run_id, started, MIGRATION)
            done.published = apply_migration(done.plan, recomputed, note)
        if done.change is not None:
            forget_former(run, request.table, done.change.former)


@contextmanager
def _lease_once_free(run: Run, on_lapse: OnLapse, progress: Progress) -> Iterator[Lease]:
    """The pipeline's lease; while a run holds it, that one is waited for: what was computed is not
    thrown away. LeaseHeld where it is not free within `_MOST_WAITED`."""
    with ExitStack() as stack:

        def take() -> Lease:
            lease = pipeline_lease(run.pipeline, run.settings, run.run_id, "migrate", on_lapse)
            return stack.enter_context(lease)

        waiting = Retrying(
            retry=retry_if_exception_type(LeaseHeld),
            wait=wait_fixed(_LOOKED_AGAIN),
            stop=stop_after_delay(_MOST_WAITED),
            before_sleep=partial(_say_once, progress),
            reraise=True,
        )
        yield waiting(take)


def _say_once(progress: Progress, waiting: RetryCallState) -> None:
    if waiting.attempt_number == 1 and waiting.outcome is not None:
        progress.say(f"waits for its end: {waiting.outcome.exception()}")


def _result(
    run: Run,
    request: MigrationRequest,
    started: datetime,
    done: MigrationSoFar,
    error: RunError | None,
) -> MigrationResult:
    facts: dict[str, Any] = {}
    if done.change is not None:
        facts |= {"changes": tuple(str(found) for found in done.change.differences)}
    if done.plan is not None:
        facts |= {
            "bronze": done.plan.bronze,
            "found": done.found,
            "former_generation": done.plan.table.generation,
        }
    if done.published is not None:
        facts |= {
            "generation": done.published.generation,
            "gold": done.published.gold,
            "published": done.published.published,
        }
    return MigrationResult(
        pipeline=run.pipeline.name,
        table=request.table,
        run_id=run.run_id,
        dry_run=request.dry_run,
        outcome="failed" if error else "succeeded",
        started_at=started,
        ended_at=datetime.now(UTC),
        took_over=done.took_over,
        checks=tuple(check_lines(done.judged, done.published)),
        data_docs=done.data_docs,
        seconds=dict(done.seconds),
        error=error,
        **facts,
    )


if __name__ == "__main__":
    sys.exit(main())
