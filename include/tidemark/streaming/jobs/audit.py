"""`spark-submit`'s entry for an audit: arguments in, one comparison, result written, exit code out.

Exit codes: 0 gold equals bronze; 1 it does not, or something must be mended before anybody can
tell; 75 it could not be told, and a retry can help. The result file says which.

The life of a table's audit, which only reads, and takes no lease:
1. read gold's version and its transactions, then bronze's: later rows are known as such by
   their batch (`gold/published_bronze.py`), so that a run may work beside it;
2. decide which windows can be compared (`recompute/audit_range.py`, pure);
3. compare both ways in Spark, and collect counts and a few examples.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime

import pyarrow.dataset as ds
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tidemark.errors import FAILED
from tidemark.gold.published_bronze import PublishedBronze, published_bronze
from tidemark.operators.row_range import RowRange
from tidemark.pipeline.instants import instant_of
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.recompute.audit_range import audited_range
from tidemark.recompute.audit_result import AuditResult, TableAudit, audit_lines
from tidemark.recompute.differences import Differences
from tidemark.runs.requests import AuditRequest
from tidemark.runs.run import Run, TableRun
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.result_file import RunError
from tidemark.streaming.jobs.entry import (
    Job,
    JobOutcome,
    job_exit_code,
    job_main,
    reported,
)
from tidemark.streaming.progress import Progress
from tidemark.streaming.recompute.compare import compare_windows, wide_session, window_differences
from tidemark.streaming.recompute.windows_of import (
    check_pipeline_columns,
    windows_by_bronze,
    windows_in_gold,
)
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


def audit_table(
    spark: SparkSession, run: Run, name: str, start: datetime | None, end: datetime | None
) -> TableAudit:
    """Compare the windows of one table that start in [start, end) with bronze; None: from the first
    one, up to the last one. TableMismatch where the tables are not the pipeline's."""
    table = run.table(name)
    state, gold, bronze = table.state, table.gold.existing(), table.bronze.existing()
    published = published_bronze(bronze, state.bronze)
    check_pipeline_columns(spark, table)
    frozen = table.frozen_before_ms()
    windows = audited_range(
        table.operator, start, end, _dates(gold, bronze), state.close_ms, frozen
    )
    return TableAudit(
        gold=state.version,
        bronze=published.version,
        before_batch=published.before_batch,
        close_ms=state.close_ms,
        closed_only=run.pipeline.tables[name].output_mode == "append",
        windows_from=windows.first_start if windows else None,
        windows_to=windows.last_start if windows else None,
        frozen=_frozen(gold, start, end, frozen),
        found=_found(spark, table, published, windows),
    )


def _found(
    spark: SparkSession, table: TableRun, bronze: PublishedBronze, windows: RowRange | None
) -> Differences:
    if windows is None:
        return Differences()
    session, operator = wide_session(spark), table.operator
    computed = windows_by_bronze(session, table, bronze, windows)
    held = windows_in_gold(session, table, windows)
    return window_differences(compare_windows(held, computed, operator), operator)


def _dates(gold: DeltaTable, bronze: DeltaTable) -> Iterable[date]:
    """The dates of which either table has any file."""
    for table, column in ((gold, "window_date"), (bronze, "_event_date")):
        for partition in table.partitions():
            yield date.fromisoformat(partition[column])


def _frozen(
    gold: DeltaTable, start: datetime | None, end: datetime | None, frozen_before_ms: int | None
) -> int:
    """How many windows of gold in the range are frozen."""
    if frozen_before_ms is None:
        return 0
    starts = ds.field("window_start")
    frozen = starts < instant_of(frozen_before_ms)
    if start:
        frozen = frozen & (starts >= start)
    if end:
        frozen = frozen & (starts < end)
    return int(dataset_of(gold).count_rows(filter=frozen))


if __name__ == "__main__":
    sys.exit(main())
