"""The checks of a run that is published by its own job, which has a session already."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

from pyspark.sql import SparkSession

from tidemark.quality.validate import ManyRows, check_none_failed, validate_result
from tidemark.quality.verdicts import verdict_line, warnings
from tidemark.runs.run import Outcome, Run, run_result
from tidemark.streaming.arrow_rows import frame_of
from tidemark.streaming.progress import Progress


def validate_run(
    spark: SparkSession, run: Run, outcome: Outcome, started: datetime, progress: Progress
) -> None:
    """Judge and record what publish would write next. Raises ChecksFailed where it may not."""
    result = run_result(run, outcome, started, progress.batches, progress.seconds)
    now = datetime.now(UTC)
    found = validate_result(run.pipeline, result, run.settings, now)
    if isinstance(found, ManyRows):
        progress.say(f"expectations are told by Spark: {found}")
        found = validate_result(run.pipeline, result, run.settings, now, partial(frame_of, spark))
    assert not isinstance(found, ManyRows)
    for warning in warnings(found.verdicts):
        progress.say(f"warning: {verdict_line(warning)}")
    check_none_failed(run.pipeline.name, run.run_id, found.verdicts)
