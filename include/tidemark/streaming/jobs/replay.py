"""`spark-submit`'s entry for a replay of rejects: arguments in, result written, exit code out.

Exit codes as in `entry.py`. With `--dry-run` it only judges. Asked for no rejects, it finishes what
was begun, without Spark.

The life of a replay, under the pipeline's lease:
1. judge the rejects, and write what is to be committed (`streaming/recompute/replaying.py`);
2. keep the plan, and stop the pipeline: nothing else of it runs until 5;
3. commit (`recompute/replay/record.py`);
4. the ledger gets a line and `ops/upkeep` a row, and all is looked at again;
5. the pipeline goes on. Gold follows with its next run, as with any rows that come late.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from tidemark.errors import ReplayRefused
from tidemark.recompute.replay.change import Replay, read_replay
from tidemark.recompute.replay.record import (
    account_for,
    carry_out,
    keep_replay,
    prove,
    record_replay,
)
from tidemark.recompute.replay.result import Outcomes, ReplayResult, replay_lines
from tidemark.runs.pipeline_lease import OnLapse, pipeline_lease
from tidemark.runs.recorded_runs import record_interrupted_run
from tidemark.runs.requests import NO_REASON_TO_REPLAY, ReplayRequest
from tidemark.runs.run import Run
from tidemark.runs.unfinished_act import (
    ActKind,
    check_no_unfinished_act,
    release_after,
    stop_for,
    unfinished_act,
)
from tidemark.storage.lease.halt import halt
from tidemark.streaming.jobs.entry import (
    Job,
    JobOutcome,
    job_exit_code,
    job_main,
    reported,
    takeover_text,
)
from tidemark.streaming.progress import Progress
from tidemark.streaming.recompute.replaying import check_may_replay, rejudge, written_replay
from tidemark.streaming.session import StartSession, start_session
from tidemark.upkeep.record import REPLAY


@dataclass
class ReplayedSoFar:
    """What a replay has done so far: filled as it goes, so that a failed one tells it too."""

    judged: Outcomes | None = None
    change: Replay | None = None
    begun: bool = False
    took_over: str | None = None


def main(argv: Sequence[str] | None = None) -> int:
    """Replay rejects; the exit code. Never raises for an error that it can report."""
    request = ReplayRequest.read(argv)
    return job_main(request, _replay, partial(ReplayResult, dry_run=request.dry_run))


def _replay(job: Job[ReplayRequest]) -> JobOutcome:
    request = job.request
    result = replay_once(job.run(REPLAY), request, job.progress, job.started)
    target = request.result if request.dry_run else job.target
    return JobOutcome(result, target, job_exit_code(result.error), list(replay_lines(result)))


def replay_once(
    run: Run,
    asked: ReplayRequest,
    progress: Progress,
    started: datetime,
    session: StartSession = start_session,
    on_lapse: OnLapse = halt,
) -> ReplayResult:
    """Replay under the pipeline's lease, or only judge; what happened, errors included.

    `on_lapse` is called when the lease is lost in the middle: a job ends itself.
    """
    done, error = ReplayedSoFar(), None
    try:
        if asked.dry_run:
            check_no_unfinished_act(run.warehouse)
            _plan(run, asked, progress, started, done, session)
        else:
            _work(run, asked, progress, started, done, session, on_lapse)
    except Exception as failure:  # noqa: BLE001  whatever it is, the result file says it
        error = reported(failure, progress)
    return ReplayResult(
        pipeline=run.pipeline.name,
        run_id=run.run_id,
        dry_run=asked.dry_run,
        outcome="failed" if error else "succeeded",
        started_at=started,
        ended_at=datetime.now(UTC),
        judged=done.judged,
        change=done.change,
        begun=done.begun,
        seconds=progress.seconds,
        took_over=done.took_over,
        error=error,
    )


def _work(
    run: Run,
    asked: ReplayRequest,
    progress: Progress,
    started: datetime,
    done: ReplayedSoFar,
    session: StartSession,
    on_lapse: OnLapse,
) -> None:
    lease = pipeline_lease(
        run.pipeline, run.settings, run.run_id, REPLAY, on_lapse, finishes=ActKind.REPLAY
    )
    with lease as held:
        done.took_over = takeover_text(held.took_over)
        run = replace(run, fence=held.check)
        record_interrupted_run(run.pipeline, run.warehouse)
        change = _begun(run, asked, progress, started, done, session)
        if change is None:
            return
        done.begun = True
        with progress.stage("move rejects"):
            carry_out(change, run.warehouse)
        account_for(change, run.warehouse, datetime.now(UTC))
        record_replay(change, run.warehouse)
        prove(change, run.pipeline, run.warehouse)
        release_after(run.warehouse)


def _begun(
    run: Run,
    asked: ReplayRequest,
    progress: Progress,
    now: datetime,
    done: ReplayedSoFar,
    session: StartSession,
) -> Replay | None:
    """What is carried out: planned now, kept and begun, or begun before; None where no reject is
    accepted. ReplayRefused."""
    unfinished = unfinished_act(run.warehouse)
    if unfinished is not None:
        done.change = change = read_replay(unfinished.folder(run.warehouse))
        if not asked.finishes:
            raise ReplayRefused(
                f"The replay {change.id} of {run.pipeline.name} ({change.rows:,} rejects "
                f"{change.what}) was begun and not finished. {unfinished.ways_out(change.pipeline)}"
            )
        return change
    if not asked.finishes and not (asked.reason or "").strip():
        raise ReplayRefused(f"{NO_REASON_TO_REPLAY}. Nothing was changed.")
    planned = _plan(run, asked, progress, now, done, session)
    if planned is not None:
        keep_replay(planned, run.warehouse)
        stop_for(run.warehouse, planned.act)
    return planned


def _plan(
    run: Run,
    asked: ReplayRequest,
    progress: Progress,
    now: datetime,
    done: ReplayedSoFar,
    session: StartSession,
) -> Replay | None:
    """What rejects come to, told in `done`; and, of what is no dry run, the plan, with its files
    written. None where nothing is to be changed."""
    if asked.finishes:
        raise ReplayRefused(
            f"No replay of {run.pipeline.name} was begun that would have to be finished. Name "
            "rejects: --from or --again. Nothing was changed."
        )
    check_may_replay(run)
    with progress.stage("session"):
        spark = session(run.pipeline, run.settings)
    with progress.stage("judge rejects"), progress.tasks_of(spark):
        found = rejudge(spark, run, asked, now)
    try:
        done.judged = found.judged
        if asked.dry_run or not found.judged.accepted:
            return None
        with progress.stage("write rows"), progress.tasks_of(spark):
            done.change = written_replay(spark, run, asked, found, now)
        return done.change
    finally:
        found.release()


if __name__ == "__main__":
    sys.exit(main())
