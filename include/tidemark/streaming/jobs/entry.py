"""What the jobs that spark-submit starts have in common: errors, results, exit codes.

Exit codes: 0 success; 1 failed, and a retry will not help; 75 failed, and a retry can help.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar

from tidemark.errors import (
    FAILED,
    RETRY,
    SUCCESS,
    ExpressionFailed,
    PipelineNotFound,
    TidemarkError,
)
from tidemark.pipeline.instants import epoch_ms, manual_run_id
from tidemark.pipeline.load import find_pipeline
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.settings import Settings, load_settings
from tidemark.printed import printing_text
from tidemark.runs.acceptance import this_user
from tidemark.runs.requests import PipelineRequest, RunRequest, check_may_ask
from tidemark.runs.run import Run
from tidemark.storage.duckdb_bounds import bound_memory
from tidemark.storage.lease.files import PreviousHolder
from tidemark.storage.result_file import Facts, RunError, write_result
from tidemark.streaming.progress import Progress

Asked = TypeVar("Asked", bound=PipelineRequest)


@dataclass(frozen=True)
class Job(Generic[Asked]):
    """A job that begins: what it was asked, for which pipeline, and under which run id."""

    request: Asked
    run_id: str
    started: datetime
    pipeline: Pipeline
    settings: Settings
    progress: Progress

    def run(self, trigger: str, scheduled: datetime | None = None) -> Run:
        """The run that stands for `scheduled`, for now where that is None."""
        stands_for = epoch_ms(scheduled or self.started)
        asked = self.request
        by, dag = (asked.by, asked.dag) if isinstance(asked, RunRequest) else (None, None)
        return Run(
            self.pipeline,
            self.settings,
            self.run_id,
            stands_for,
            trigger,
            by=by or this_user(),
            dag=dag,
        )

    @property
    def target(self) -> str:
        """Where the result goes: as it was asked, or with the pipeline's tables."""
        own = Places(self.settings.root, self.pipeline.name).result(self.run_id)
        return self.request.result or own


@dataclass(frozen=True)
class JobOutcome:
    """What a job came to: its result, the path or URI where that goes, its exit code, and the
    result for people. These lines are printed where no `--result` is named: who names one reads it,
    and tells it (a command on its stdout, a task in its log)."""

    result: Facts
    target: str | None
    code: int
    told: Sequence[str] = ()


@printing_text()
def job_main(
    request: Asked,
    work: Callable[[Job[Asked]], JobOutcome],
    failed: Callable[..., Facts],
) -> int:
    """A job from its request to its exit code; never raises for an error that it can report.

    `work` is the job; its pipeline has the table that is asked for. `failed` makes the result of a
    job that failed before its pipeline was known, from what all results have.
    """
    started = datetime.now(UTC)
    run_id = request.run_id or manual_run_id(started, request.kind)
    try:
        pipeline, settings = _loaded(request)
    except TidemarkError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        if request.result:
            result = failed(
                pipeline=request.pipeline,
                run_id=run_id,
                outcome="failed",
                started_at=started,
                ended_at=datetime.now(UTC),
                error=RunError.of(error),
            )
            # Without settings no storage options are known: a place that needs some gets no file.
            with suppress(TidemarkError):
                write_result(request.result, result, {})
        return FAILED
    progress = Progress(pipeline.name)
    ended = work(Job(request, run_id, started, pipeline, settings, progress))
    if not request.result:
        print("\n".join(ended.told), flush=True)
    if ended.target and not _is_written(ended, settings, progress):
        return RETRY
    return ended.code


def reported(failure: Exception, progress: Progress) -> RunError:
    """Say what went wrong; an error that nobody foresaw with its whole traceback."""
    known = failure if isinstance(failure, TidemarkError) else _of_engine(failure)
    if known is not failure and not isinstance(known, ExpressionFailed):
        traceback.print_exception(failure, file=progress.out)
    error = RunError.of(known or failure)
    progress.say(f"failed: {error.type}: {error.message}")
    return error


def _of_engine(failure: Exception) -> TidemarkError | None:
    """What a batch query of ours failed of; PySpark is there once one was run."""
    if "pyspark" not in sys.modules:
        return None
    from tidemark.streaming.failures import failure_of, is_of_engine

    if not is_of_engine(failure):
        return None
    return failure_of(failure, "Gold is as it was.")


def takeover_text(taken: PreviousHolder | None) -> str | None:
    """Whose lease a job took over; None where it took over none."""
    return (
        f"from run {taken.run_id} ({taken.purpose}) on {taken.host}, because {taken.because}"
        if taken
        else None
    )


def job_exit_code(error: RunError | None) -> int:
    """The exit code of a job that ended with this error, or with none."""
    if error is None:
        return SUCCESS
    return RETRY if error.retry_can_help else FAILED


def _loaded(request: PipelineRequest) -> tuple[Pipeline, Settings]:
    """The pipeline and the settings that are named; the pipeline has the table, where one is."""
    settings = load_settings(request.settings, root=request.root)
    bound_memory(settings.duckdb)
    check_may_ask(request, settings)
    pipeline = find_pipeline(request.pipeline, settings)
    table = getattr(request, "table", None)
    if table is not None and table not in pipeline.tables:
        raise PipelineNotFound(
            f"The pipeline {pipeline.name} has no table {table}; it has "
            f"{', '.join(pipeline.tables)}. Nothing was read or written."
        )
    return pipeline, settings


def _is_written(outcome: JobOutcome, settings: Settings, progress: Progress) -> bool:
    """Write the result file; False, with a line that says so, where it cannot be written."""
    assert outcome.target is not None
    try:
        write_result(outcome.target, outcome.result, settings.storage_options)
    except TidemarkError as error:
        progress.say(f"it has ended, but its result is lost: {error}")
        return False
    return True
