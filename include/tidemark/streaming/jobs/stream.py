"""`spark-submit`'s entry: arguments in, one run, result written, exit code out.

Exit codes: 0 success; 1 failed, and a retry will not help; 75 failed, and a retry can help.
The result file says the same, with rows, versions and the error.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from tidemark.gold.published import publish_note
from tidemark.quality.validate import check_none_failed, validate_result
from tidemark.quality.verdicts import verdict_line, warnings
from tidemark.recompute.retract.refusals import check_followed_as_begun
from tidemark.runs.contract.check import admit
from tidemark.runs.erased_again import erased_again
from tidemark.runs.losses import check_losses
from tidemark.runs.pipeline_lease import OnLapse, pipeline_lease
from tidemark.runs.recorded_runs import try_to_record_run
from tidemark.runs.repair_ops import repair_ops_tables
from tidemark.runs.requests import StreamRequest
from tidemark.runs.results.result import RunResult
from tidemark.runs.run import Outcome, Run, run_result
from tidemark.runs.status.recorded_status import record_status
from tidemark.runs.unfinished_act import ActKind
from tidemark.storage.delta.place import shared_handles
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
from tidemark.streaming.session import StartSession, start_session


def main(argv: Sequence[str] | None = None) -> int:
    """Run a pipeline once; the exit code. Never raises for an error that it can report."""
    return run_asked(StreamRequest.read(argv))


def run_asked(request: StreamRequest, session: StartSession = start_session) -> int:
    """Run a pipeline once, in a session that is given; the exit code."""
    return job_main(request, partial(_run, session=session), partial(RunResult, held=True))


def _run(job: Job[StreamRequest], session: StartSession) -> JobOutcome:
    asked = job.request
    run = job.run(asked.trigger, asked.scheduled_time)
    result = run_once(run, job.progress, job.started, asked.hold, session)
    return JobOutcome(result, job.target, job_exit_code(result.error))


@shared_handles()
def run_once(
    run: Run,
    progress: Progress,
    started: datetime,
    hold: bool,
    session: StartSession = start_session,
    on_lapse: OnLapse = halt,
) -> RunResult:
    """Run a pipeline under its lease, and publish unless `hold`; what happened, errors included.

    A pipeline whose file changed may be refused before a session starts, or run once more as it
    was (`admit`).
    `on_lapse` is called when the lease is lost in the middle: a job ends itself.
    """
    outcome, error = Outcome(), None
    try:
        with pipeline_lease(
            run.pipeline, run.settings, run.run_id, "stream", on_lapse, finishes=ActKind.FOLLOWING
        ) as lease:
            outcome.took_over = takeover_text(lease.took_over)
            check_losses(run.pipeline, run.warehouse)
            admitted = admit(run.pipeline, run.settings)
            run = replace(run, pipeline=admitted.pipeline, fence=lease.check)
            check_followed_as_begun(run)
            erased_again(run.pipeline, run.settings, run.warehouse)
            for line in admitted.messages:
                progress.say(line)
            with progress.stage("session"), ThreadPoolExecutor(1) as pool:
                starting = pool.submit(session, run.pipeline, run.settings)
                # Most of a second of imports and looks, while the JVM makes the session.
                from tidemark.streaming.run.steps import run_stream

                repair_ops_tables(run.pipeline, run.warehouse, progress.say)
                spark = starting.result()
            run_stream(spark, run, admitted, progress, outcome, started)
            if not hold:
                with progress.stage("validate"):
                    validate_run(run, outcome, started, progress)
                with progress.stage("publish"):
                    _publish(run, outcome, started)
    except Exception as failure:  # noqa: BLE001  whatever it is, the result file says it
        error = reported(failure, progress)
    result = run_result(run, outcome, started, progress.batches, progress.seconds, error)
    try_to_record_run(run.warehouse.runs, result, progress.say)
    if not hold:
        record_status(run.pipeline.name, run.settings, result.ended_at)
    return result


def _publish(run: Run, outcome: Outcome, started: datetime) -> None:
    from tidemark.gold.publish import publish_tables
    from tidemark.gold.views import write_views

    check_losses(run.pipeline, run.warehouse, outcome.tables)
    note = publish_note(run.run_id, started)
    publish_tables(run.pipeline, outcome.tables, note, run.warehouse)
    outcome.held = False
    write_views(run.pipeline.tables, run.warehouse)


def validate_run(run: Run, outcome: Outcome, started: datetime, progress: Progress) -> None:
    """Judge and record what publish would write next. Raises ChecksFailed where it may not."""
    result = run_result(run, outcome, started, progress.batches, progress.seconds)
    found = validate_result(run.pipeline, result, run.settings, datetime.now(UTC))
    for warning in warnings(found.verdicts):
        progress.say(f"warning: {verdict_line(warning)}")
    check_none_failed(run.pipeline.name, run.run_id, found.verdicts)


if __name__ == "__main__":
    sys.exit(main())
