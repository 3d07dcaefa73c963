"""What all acts on a pipeline have in common: a retraction, an erasure, a rewind, a replay, and
what computes a table again. How one begins, what it works under, and what is told of it, errors
included."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Generic, TypeVar

from pyspark.sql import SparkSession

from tidemark.recompute.act_row import act_row
from tidemark.recompute.erase.change import Erasure
from tidemark.recompute.erase.result import EraseResult
from tidemark.recompute.retract.change import Retraction
from tidemark.recompute.retract.result import RetractResult
from tidemark.recompute.rewind.change import PipelineChange
from tidemark.recompute.rewind.result import RewindResult
from tidemark.runs.lookups import copy_lookups
from tidemark.runs.pipeline_lease import OnLapse, pipeline_lease
from tidemark.runs.recorded_runs import record_interrupted_run, try_to_record_run
from tidemark.runs.requests import ActRequest, PipelineRequest
from tidemark.runs.run import Run
from tidemark.runs.unfinished_act import ActKind
from tidemark.storage.lease.halt import halt
from tidemark.storage.lease.lease import Lease
from tidemark.storage.result_file import Facts, RunError
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

Asked = TypeVar("Asked", bound=PipelineRequest)
Result = TypeVar("Result", bound=Facts)
Done = TypeVar("Done", bound="SoFar")


@dataclass(frozen=True)
class JobAct(Generic[Asked]):
    """An act that begins: the run that it is, what is asked, and what it works with.

    `on_lapse` is called when the lease is lost in the middle: a job ends itself.
    """

    run: Run
    asked: Asked
    progress: Progress
    started: datetime
    session: StartSession = start_session
    on_lapse: OnLapse = halt

    def spark(self) -> SparkSession:
        """Its session."""
        with self.progress.stage("session"):
            return self.session(self.run.pipeline, self.run.settings)

    def copy_lookups(self) -> None:
        """What lookups say now, and say which were copied."""
        for copied in copy_lookups(self.run):
            self.progress.say(copied)

    def under(self, lease: Lease, done: SoFar) -> JobAct[Asked]:
        """Itself, whose writes are fenced by the lease. A run that was killed is recorded first."""
        done.took_over = takeover_text(lease.took_over)
        run = replace(self.run, fence=lease.check)
        record_interrupted_run(run.pipeline, run.warehouse)
        return replace(self, run=run)

    def lease(self, purpose: str, finishes: ActKind | None = None) -> AbstractContextManager[Lease]:
        """The pipeline's lease; also where an act of the kind was begun that this `finishes`."""
        run = self.run
        return pipeline_lease(
            run.pipeline, run.settings, run.run_id, purpose, self.on_lapse, finishes=finishes
        )


@dataclass
class SoFar:
    """What an act has done so far: filled as it goes, so that a failed one tells it too. What has
    the name of a field of the result is told there."""

    took_over: str | None = None


def result_of(
    act: JobAct[Any],
    kind: type[Result],
    done: SoFar,
    error: RunError | None = None,
    **further: Any,
) -> Result:
    """What has been done so far."""
    told = {
        "pipeline": act.run.pipeline.name,
        "run_id": act.run.run_id,
        "dry_run": _is_dry(act.asked),
        "outcome": "failed" if error else "succeeded",
        "started_at": act.started,
        "ended_at": datetime.now(UTC),
        "seconds": dict(act.progress.seconds),
        "error": error,
    }
    told |= {name: getattr(done, name) for name in kind.model_fields if hasattr(done, name)}
    return kind(**{name: of for name, of in told.items() if name in kind.model_fields}, **further)


def carried_out(
    act: JobAct[Asked],
    kind: type[Result],
    done: Done,
    work: Callable[[JobAct[Asked], Done], object],
) -> Result:
    """What happened, errors included."""
    error = None
    try:
        work(act, done)
    except Exception as failure:  # noqa: BLE001  whatever it is, the result file says it
        error = reported(failure, act.progress)
    return result_of(act, kind, done, error)


def record_act(
    act: JobAct[Any],
    trigger: str,
    result: RetractResult | RewindResult | EraseResult,
    change: Retraction | PipelineChange | Erasure | None,
) -> None:
    """Its row in `ops/runs`; where it cannot be written, the next run records it."""
    assert change is not None
    row = act_row(
        act.run,
        trigger,
        change,
        result.ended_at,
        result.seconds,
        result.tables,
        result.took_over,
        result.error,
    )
    try_to_record_run(act.run.warehouse.runs, row, act.progress.say)


def act_main(
    request: Asked,
    trigger: str,
    once: Callable[[JobAct[Asked]], Any],
    lines: Callable[[Any], Iterable[str]],
    kind: type[Facts],
    **asked: Any,
) -> int:
    """The job of an act, as `job_main` has it: `once` carries it out, `lines` tell its result, of
    which also one that failed before has what was `asked`."""

    def work(job: Job[Asked]) -> JobOutcome:
        result = once(JobAct(job.run(trigger), request, job.progress, job.started))
        target = request.result if _is_dry(request) else job.target
        return JobOutcome(result, target, job_exit_code(result.error), list(lines(result)))

    if isinstance(request, ActRequest):
        asked["dry_run"] = request.dry_run
    return job_main(request, work, partial(kind, **asked))


def _is_dry(asked: PipelineRequest) -> bool:
    """A compaction has no dry run."""
    return isinstance(asked, ActRequest) and asked.dry_run
