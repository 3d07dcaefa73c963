"""`spark-submit`'s entry for an audit: arguments in, one comparison, result written, exit code out.

Exit codes: 0 gold equals bronze; 1 it does not, or something must be mended before anybody can
tell; 75 it could not be told, and a retry can help. The result file says which.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from tidemark.errors import FAILED
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.backfill.audit_result import AuditResult, TableAudit, audit_lines
from tidemark.runs.run import Run
from tidemark.storage.result_file import RunError
from tidemark.streaming.backfill.audit import AuditRequest, audit_table
from tidemark.streaming.jobs.entry import (
    Job,
    JobOutcome,
    add_range,
    job_exit_code,
    job_main,
    job_parser,
    reported,
)
from tidemark.streaming.progress import Progress
from tidemark.streaming.session import start_session


def main(argv: Sequence[str] | None = None) -> int:
    """Audit a pipeline; the exit code. Never raises for an error that it can report."""
    arguments = _arguments(argv)
    return job_main(arguments, "audit", _audit, AuditResult, arguments.table)


def _audit(job: Job) -> JobOutcome:
    asked = job.arguments
    names = [asked.table] if asked.table else list(job.pipeline.tables)
    request = AuditRequest(asked.start, asked.end)
    result = audit_once(job.run("audit"), names, request, job.progress, job.started)
    code = FAILED if result.outcome == "different" else job_exit_code(result.error)
    return JobOutcome(
        result, job.target, code, [*audit_lines(result), f"result file: {job.target}"]
    )


def _arguments(argv: Sequence[str] | None) -> Namespace:
    parser = job_parser("audit.py", "Compare gold with the batch aggregate of bronze.")
    parser.add_argument("--table", help="default: all tables of the pipeline")
    add_range(parser, required=False)
    return parser.parse_args(argv)


def audit_once(
    run: Run,
    names: Sequence[str],
    request: AuditRequest,
    progress: Progress,
    started: datetime,
    session: Callable[[Pipeline, Settings], SparkSession] = start_session,
) -> AuditResult:
    """Audit these tables; what was found, errors included."""
    tables: dict[str, TableAudit] = {}
    error: RunError | None = None
    try:
        with progress.stage("session"):
            spark = session(run.pipeline, run.settings)
        for name in names:
            with progress.stage(f"audit of {name}"), progress.tasks_of(spark):
                tables[name] = audit_table(spark, run, name, request)
    except Exception as failure:  # noqa: BLE001  whatever it is, the result file says it
        error = reported(failure, progress)
    differ = any(table.found.windows for table in tables.values())
    return AuditResult(
        pipeline=run.pipeline.name,
        run_id=run.run_id,
        outcome="failed" if error else "different" if differ else "equal",
        started_at=started,
        ended_at=datetime.now(UTC),
        tables=tables,
        error=error,
    )


if __name__ == "__main__":
    sys.exit(main())
