"""What the jobs that spark-submit starts have in common: arguments, errors, results, exit codes.

Exit codes: 0 success; 1 failed, and a retry will not help; 75 failed, and a retry can help.
"""

from __future__ import annotations

import sys
import traceback
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tidemark.errors import (
    FAILED,
    RETRY,
    SUCCESS,
    ExpressionFailed,
    PipelineNotFound,
    TidemarkError,
)
from tidemark.pipeline.instants import epoch_ms, manual_run_id, utc_instant
from tidemark.pipeline.load import find_pipeline
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.settings import Settings, load_settings
from tidemark.printed import printing_text
from tidemark.runs.run import Run
from tidemark.storage.lease.files import PreviousHolder
from tidemark.storage.result_file import Facts, RunError, write_result
from tidemark.streaming.progress import Progress


@dataclass(frozen=True)
class Job:
    """A job that begins: what it was asked, for which pipeline, and under which run id."""

    arguments: Namespace
    run_id: str
    started: datetime
    pipeline: Pipeline
    settings: Settings
    progress: Progress

    def run(self, trigger: str, scheduled: datetime | None = None) -> Run:
        """The run that stands for `scheduled`, for now where that is None."""
        stands_for = epoch_ms(scheduled or self.started)
        return Run(self.pipeline, self.settings, self.run_id, stands_for, trigger)

    @property
    def target(self) -> str:
        """Where the result goes: as it was asked, or with the pipeline's tables."""
        own = Places(self.settings.root, self.pipeline.name).result(self.run_id)
        return self.arguments.result or own


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
    arguments: Namespace,
    kind: str,
    work: Callable[[Job], JobOutcome],
    failed: Callable[..., Facts],
    table: str | None = None,
) -> int:
    """A job from its arguments to its exit code; never raises for an error that it can report.

    `kind` begins the run id that it gives itself. `work` is the job, whose pipeline has `table`
    where one is named. `failed` makes the result of a job that failed before its pipeline was
    known, from what all results have.
    """
    started = datetime.now(UTC)
    run_id = arguments.run_id or manual_run_id(started, kind)
    try:
        pipeline, settings = _loaded(arguments, table)
    except TidemarkError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        if arguments.result:
            result = failed(
                pipeline=arguments.pipeline,
                run_id=run_id,
                outcome="failed",
                started_at=started,
                ended_at=datetime.now(UTC),
                error=RunError.of(error),
            )
            # Without settings no storage options are known: a place that needs some gets no file.
            with suppress(TidemarkError):
                write_result(arguments.result, result, {})
        return FAILED
    progress = Progress(pipeline.name)
    ended = work(Job(arguments, run_id, started, pipeline, settings, progress))
    if not arguments.result:
        print("\n".join(ended.told), flush=True)
    if ended.target and not _is_written(ended, settings, progress):
        return RETRY
    return ended.code


def job_parser(prog: str, description: str) -> ArgumentParser:
    """The arguments that every job takes."""
    parser = ArgumentParser(prog=prog, description=description)
    parser.add_argument("--pipeline", required=True, help="its name, or the path of its file")
    parser.add_argument("--settings", type=Path, help="default: include/settings.yaml")
    parser.add_argument("--root", help="goes before the settings' root")
    parser.add_argument("--run-id", help="default: what is run, and the time")
    parser.add_argument(
        "--result",
        help="where the result file goes, a path or URI; only without it the result is printed",
    )
    return parser


def add_range(parser: ArgumentParser, required: bool) -> None:
    """`--from` and `--to`, as `start` and `end`: windows with start <= window's start < end."""
    form = "ISO 8601 with a zone, as in 2026-07-01T00:00:00Z, or a date, its midnight in UTC"
    for name, which in (("from", "windows that start here or later"), ("to", "and before this")):
        parser.add_argument(
            f"--{name}",
            dest={"from": "start", "to": "end"}[name],
            type=instant_argument,
            required=required,
            help=f"{which}; {form}",
        )


def instant_argument(text: str) -> datetime:
    """`utc_instant` as an argument's type: argparse would name the function, and not the reason."""
    try:
        return utc_instant(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error


def reported(failure: Exception, progress: Progress) -> RunError:
    """Say what went wrong; an error that nobody foresaw with its whole traceback."""
    told = failure if isinstance(failure, TidemarkError) else _of_engine(failure)
    if told is not failure and not isinstance(told, ExpressionFailed):
        traceback.print_exception(failure, file=progress.out)
    error = RunError.of(told or failure)
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


def _loaded(arguments: Namespace, table: str | None) -> tuple[Pipeline, Settings]:
    """What `--pipeline` and `--settings` name; the pipeline has `table`, where one is given."""
    settings = load_settings(arguments.settings, root=arguments.root)
    pipeline = find_pipeline(arguments.pipeline, settings)
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
