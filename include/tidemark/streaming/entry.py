"""What the jobs that spark-submit starts have in common: arguments, errors, results, exit codes.

Exit codes: 0 success; 1 failed, and a retry will not help; 75 failed, and a retry can help.
"""

from __future__ import annotations

import sys
import traceback
from argparse import ArgumentParser, Namespace
from pathlib import Path

from tidemark.errors import FAILED, RETRY, SUCCESS, PipelineNotFound, TidemarkError
from tidemark.pipeline.instants import utc_instant
from tidemark.pipeline.load import find_pipeline
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings import Settings, load_settings
from tidemark.storage.lease_files import TakenFrom
from tidemark.streaming.progress import Progress
from tidemark.tables.results.result_file import Facts, RunError, write_result


def job_parser(prog: str, description: str) -> ArgumentParser:
    """The arguments that every job takes."""
    parser = ArgumentParser(prog=prog, description=description)
    parser.add_argument("--pipeline", required=True, help="its name, or the path of its file")
    parser.add_argument("--settings", type=Path, help="default: include/settings.yaml")
    parser.add_argument("--run-id", help="default: what is run, and the time")
    parser.add_argument("--result", help="where the result file goes: a path or URI")
    return parser


def add_range(parser: ArgumentParser, required: bool) -> None:
    """`--from` and `--to`, as `start` and `end`: windows with start <= window's start < end."""
    told = "ISO 8601 with a zone, as in 2026-07-01T00:00:00Z"
    for name, which in (("from", "windows that start here or later"), ("to", "and before this")):
        parser.add_argument(
            f"--{name}",
            dest={"from": "start", "to": "end"}[name],
            type=utc_instant,
            required=required,
            help=f"{which}; {told}",
        )


def loaded(arguments: Namespace, table: str | None) -> tuple[Pipeline, Settings]:
    """What `--pipeline` and `--settings` name; the pipeline has `table`, where one is given."""
    settings = load_settings(arguments.settings)
    pipeline = find_pipeline(arguments.pipeline, settings)
    if table is not None and table not in pipeline.tables:
        raise PipelineNotFound(
            f"The pipeline {pipeline.name} has no table {table}; it has "
            f"{', '.join(pipeline.tables)}. Nothing was read or written."
        )
    return pipeline, settings


def reported(failure: Exception, progress: Progress) -> RunError:
    """Say what went wrong; an error that nobody foresaw with its whole traceback."""
    if not isinstance(failure, TidemarkError):
        traceback.print_exception(failure, file=progress.out)
    error = RunError.of(failure)
    progress.say(f"failed: {error.type}: {error.message}")
    return error


def say_early(error: TidemarkError) -> None:
    """Say what went wrong before the pipeline was known."""
    print(f"{type(error).__name__}: {error}", file=sys.stderr)


def takeover_text(taken: TakenFrom | None) -> str | None:
    """Whose lease a job took over; None where it took over none."""
    return (
        f"from run {taken.run_id} ({taken.purpose}) on {taken.host}, because {taken.because}"
        if taken
        else None
    )


def result_written(target: str, result: Facts, settings: Settings, progress: Progress) -> bool:
    """Write a result file; False, with a line that says so, where it cannot be written."""
    try:
        write_result(target, result, settings.storage_options)
    except TidemarkError as error:
        progress.say(f"it has ended, but its result is lost: {error}")
        return False
    return True


def exit_code(error: RunError | None) -> int:
    """The exit code of a job that ended with this error, or with none."""
    if error is None:
        return SUCCESS
    return RETRY if error.retry_can_help else FAILED
