"""`spark-submit`'s entry for a validation of many rows: arguments in, verdicts, result written.

Exit codes as in `entry.py`: 1 also where a check failed. The result file has the verdicts; that of
the held run and `ops/quality` say the same.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial

from pyspark.sql import SparkSession

from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.quality.gate import validate_held
from tidemark.quality.validate import ManyRows
from tidemark.quality.verdicts import ValidationResult
from tidemark.runs.results.result import RunResult
from tidemark.storage.result_file import read_result
from tidemark.streaming.arrow_rows import frame_of
from tidemark.streaming.jobs.entry import (
    Job,
    JobOutcome,
    job_exit_code,
    job_main,
    job_parser,
    reported,
)
from tidemark.streaming.progress import Progress
from tidemark.streaming.session import start_session


def main(argv: Sequence[str] | None = None) -> int:
    """Validate a held run; the exit code. Never raises for an error that it can report."""
    return job_main(_arguments(argv), "validate", _validation, ValidationResult)


def _validation(job: Job) -> JobOutcome:
    result = validate_once(
        job.pipeline, job.settings, job.arguments.held, job.run_id, job.started, job.progress
    )
    return JobOutcome(result, job.target, job_exit_code(result.error))


def _arguments(argv: Sequence[str] | None) -> Namespace:
    parser = job_parser("validate.py", "Judge what a held run would publish.")
    parser.add_argument("--held", required=True, help="the held run's result file: a path or URI")
    return parser.parse_args(argv)


def validate_once(
    pipeline: Pipeline,
    settings: Settings,
    held: str,
    run_id: str,
    started: datetime,
    progress: Progress,
    session: Callable[[Pipeline, Settings], SparkSession] = start_session,
) -> ValidationResult:
    """Validate the run whose result file is `held`, expectations in Spark; errors included."""
    try:
        run = read_result(RunResult, held, settings.storage_options)
        with progress.stage("session"):
            spark = session(pipeline, settings)
        with progress.stage("validate"), progress.tasks_of(spark):
            gated = validate_held(pipeline, run, held, settings, started, partial(frame_of, spark))
        assert not isinstance(gated, ManyRows)
    except Exception as failure:  # noqa: BLE001  whatever it is, the result file says it
        return ValidationResult(
            pipeline=pipeline.name,
            run_id=run_id,
            outcome="failed",
            started_at=started,
            ended_at=datetime.now(UTC),
            error=reported(failure, progress),
        )
    return gated.validation


if __name__ == "__main__":
    sys.exit(main())
