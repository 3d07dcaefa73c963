"""The checks of a run that is published by its own job."""

from __future__ import annotations

from datetime import UTC, datetime

from tidemark.quality.validate import check_none_failed, validate_result
from tidemark.quality.verdicts import verdict_line, warnings
from tidemark.runs.run import Outcome, Run, run_result
from tidemark.streaming.progress import Progress


def validate_run(run: Run, outcome: Outcome, started: datetime, progress: Progress) -> None:
    """Judge and record what publish would write next. Raises ChecksFailed where it may not."""
    result = run_result(run, outcome, started, progress.batches, progress.seconds)
    found = validate_result(run.pipeline, result, run.settings, datetime.now(UTC))
    for warning in warnings(found.verdicts):
        progress.say(f"warning: {verdict_line(warning)}")
    check_none_failed(run.pipeline.name, run.run_id, found.verdicts)
