"""`spark-submit`'s entry: arguments in, one run, result written, exit code out.

Exit codes: 0 success; 1 failed, and a retry will not help; 75 failed, and a retry can help.
The result file says the same, with rows, versions and the error.
"""

from __future__ import annotations

import sys
import traceback
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from tidemark.errors import TidemarkError
from tidemark.pipeline.instants import manual_run_id
from tidemark.pipeline.load import find_pipeline
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings import Settings, load_settings
from tidemark.streaming.progress import Progress
from tidemark.streaming.run import Outcome, Run, run_stream
from tidemark.streaming.session import start_session
from tidemark.tables.publish import publish_run
from tidemark.tables.result import RunError, RunResult, write_result

SUCCESS, FAILED, RETRY = 0, 1, 75


def main(argv: Sequence[str] | None = None) -> int:
    """Run a pipeline once; the exit code. Never raises for an error that it can report."""
    arguments = _arguments(argv)
    started = datetime.now(UTC)
    run_id = arguments.run_id or manual_run_id(started)
    try:
        settings = load_settings(arguments.settings)
        pipeline = find_pipeline(arguments.pipeline, settings)
    except TidemarkError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        _write_early_failure(arguments, run_id, started, error)
        return FAILED
    run = Run(pipeline, settings, run_id)
    target = arguments.result or Places(settings.root, pipeline.name).result(run_id)
    progress = Progress(pipeline.name)
    result = run_once(run, progress, started, arguments.hold)
    try:
        write_result(target, result, settings.storage_options)
    except TidemarkError as error:
        progress.say(f"the run {result.outcome}, but its result is lost: {error}")
        return RETRY
    return _exit_code(result)


def _arguments(argv: Sequence[str] | None) -> Namespace:
    parser = ArgumentParser(prog="stream.py", description="Run a pipeline once.")
    parser.add_argument("--pipeline", required=True, help="its name, or the path of its file")
    parser.add_argument("--settings", type=Path, help="default: include/settings.yaml")
    parser.add_argument("--run-id", help="default: manual__ and the time")
    parser.add_argument("--result", help="where the result file goes: a path or URI")
    parser.add_argument("--hold", action="store_true", help="leave publishing to a later step")
    return parser.parse_args(argv)


def run_once(
    run: Run,
    progress: Progress,
    started: datetime,
    hold: bool,
    session: Callable[[Pipeline, Settings], SparkSession] = start_session,
) -> RunResult:
    """Run a pipeline, and publish unless `hold`; what happened, errors included."""
    outcome, error = Outcome(), None
    try:
        with progress.stage("session"):
            spark = session(run.pipeline, run.settings)
        run_stream(spark, run, progress, outcome)
    except Exception as failure:  # noqa: BLE001  whatever it is, the result file says it
        error = _reported(failure, progress)
    result = _result(run, progress, outcome, started, error)
    return result if hold or error else _published(run, progress, result)


def _published(run: Run, progress: Progress, result: RunResult) -> RunResult:
    try:
        with progress.stage("publish"):
            result = publish_run(run.pipeline, result, run.settings)
    except Exception as failure:  # noqa: BLE001  whatever it is, the result file says it
        error = _reported(failure, progress)
        result = result.model_copy(update={"error": error, "outcome": "failed"})
    return result.model_copy(update={"seconds": progress.seconds, "ended_at": datetime.now(UTC)})


def _reported(failure: Exception, progress: Progress) -> RunError:
    """Say what went wrong; an error that nobody foresaw with its whole traceback."""
    if not isinstance(failure, TidemarkError):
        traceback.print_exception(failure, file=progress.out)
    error = RunError.of(failure)
    progress.say(f"failed: {error.type}: {error.message}")
    return error


def _result(
    run: Run, progress: Progress, outcome: Outcome, started: datetime, error: RunError | None
) -> RunResult:
    return RunResult(
        pipeline=run.pipeline.name,
        run_id=run.run_id,
        outcome="failed" if error else "succeeded",
        held=True,
        started_at=started,
        ended_at=datetime.now(UTC),
        rows=outcome.rows,
        batches=progress.batches,
        seconds=progress.seconds,
        versions=outcome.versions,
        tables=outcome.tables,
        error=error,
    )


def _write_early_failure(
    arguments: Namespace, run_id: str, started: datetime, error: TidemarkError
) -> None:
    """Without settings no storage options are known: a place that needs some gets no file."""
    if not arguments.result:
        return
    result = RunResult(
        pipeline=arguments.pipeline,
        run_id=run_id,
        outcome="failed",
        held=True,
        started_at=started,
        ended_at=datetime.now(UTC),
        error=RunError.of(error),
    )
    write_result(arguments.result, result, {})


def _exit_code(result: RunResult) -> int:
    if result.error is None:
        return SUCCESS
    return RETRY if result.error.retry_can_help else FAILED


if __name__ == "__main__":
    sys.exit(main())
