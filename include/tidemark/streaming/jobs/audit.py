"""`spark-submit`'s entry for an audit: arguments in, one comparison, result written, exit code out.

Exit codes: 0 gold equals bronze; 1 it does not, or something must be mended before anybody can
tell; 75 it could not be told, and a retry can help. The result file says which.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from tidemark.errors import FAILED
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.recompute.audit_result import AuditResult, TableAudit, audit_lines
from tidemark.runs.requests import AuditRequest
from tidemark.runs.run import Run
from tidemark.storage.result_file import RunError
from tidemark.streaming.jobs.entry import (
    Job,
    JobOutcome,
    job_exit_code,
    job_main,
    reported,
)
from tidemark.streaming.progress import Progress
from tidemark.streaming.recompute.audit import audit_table
from tidemark.streaming.session import start_session


def main(argv: Sequence[str] | None = None) -> int:
    """Audit a pipeline; the exit code. Never raises for an error that it can report."""
    return job_main(AuditRequest.read(argv), _audit, AuditResult)


def _audit(job: Job[AuditRequest]) -> JobOutcome:
    result = audit_once(job.run("audit"), job.request, job.progress, job.started)
    code = FAILED if result.outcome == "different" else job_exit_code(result.error)
    return JobOutcome(
        result, job.target, code, [*audit_lines(result), f"result file: {job.target}"]
    )


def audit_once(
    run: Run,
    request: AuditRequest,
    progress: Progress,
    started: datetime,
    session: Callable[[Pipeline, Settings], SparkSession] = start_session,
) -> AuditResult:
    """Audit the table that is asked for, or all; what was found, errors included."""
    names = [request.table] if request.table else list(run.pipeline.tables)
    tables: dict[str, TableAudit] = {}
    error: RunError | None = None
    try:
        with progress.stage("session"):
            spark = session(run.pipeline, run.settings)
        for name in names:
            with progress.stage(f"audit of {name}"), progress.tasks_of(spark):
                tables[name] = audit_table(spark, run, name, request.start, request.end)
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
