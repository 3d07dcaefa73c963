"""What a backfill's job and a migration's have in common: both compute from bronze and publish by
themselves, unless they only look."""

from __future__ import annotations

from collections.abc import Iterator

from tidemark.gold.pins import TableResult
from tidemark.pipeline.instants import instant_of
from tidemark.quality.validate import Judged
from tidemark.quality.verdicts import failures, verdict_line, warnings
from tidemark.runs.backfill.backfill_result import BackfillResult
from tidemark.runs.migration.result import MigrationResult
from tidemark.runs.recorded_runs import try_to_record_run
from tidemark.runs.results.result import RunResult
from tidemark.runs.run import Run
from tidemark.streaming.progress import Progress


def check_lines(judged: Judged | None, published: TableResult | None) -> Iterator[str]:
    """A line for each check that did not pass; none where it did not come to checks."""
    if judged is None:
        return
    for verdict in failures(judged.verdicts):
        yield f"check {'overridden' if published else 'failed'}: {verdict_line(verdict)}"
    for verdict in warnings(judged.verdicts):
        yield f"warning: {verdict_line(verdict)}"


def record_recomputation(
    run: Run,
    result: BackfillResult | MigrationResult,
    published: TableResult | None,
    progress: Progress,
) -> None:
    """Its row in `ops/runs`; where it cannot be written, the next run records it."""
    row = RunResult(
        pipeline=result.pipeline,
        run_id=result.run_id,
        outcome=result.outcome,
        held=False,
        trigger=run.trigger,
        scheduled_at=instant_of(run.scheduled_ms),
        started_at=result.started_at,
        ended_at=result.ended_at,
        seconds=progress.seconds,
        versions={} if result.bronze is None else {"bronze": result.bronze},
        tables={} if published is None else {result.table: published},
        took_over=result.took_over,
        error=result.error,
    )
    try_to_record_run(run.warehouse.runs, row, progress.say)
