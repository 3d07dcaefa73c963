"""The gate of a job that publishes by itself: what it would publish is held to the tables' checks
before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tidemark.quality.planned_rows import WholePublish
from tidemark.quality.record import JudgedRun, record_verdicts
from tidemark.quality.validate import Judged, judge_tables, record_validation
from tidemark.quality.verdicts import failures, verdict_line, warnings
from tidemark.runs.acceptance import CheckOverride
from tidemark.runs.run import Run


def judge_publish(run: Run, publish: WholePublish) -> Judged:
    """The verdicts on what would be published; nothing is written."""
    return judge_tables(run.pipeline.name, [publish], run.settings)


def record_judged(
    run: Run, result: JudgedRun, judged: Judged, accepted: CheckOverride | None, now: datetime
) -> str | None:
    """Record the verdicts, and that somebody has accepted those that fail. Where the pages of
    expectations begin; None where none ran. `now` is in UTC."""
    validated = record_validation(result, judged, run.settings, now)
    if accepted is not None:
        failed = failures(judged.verdicts)
        record_verdicts(run.warehouse.quality, result, now, failed, accepted=accepted)
    return validated.data_docs


def of_all(judged: Sequence[Judged]) -> Judged:
    """The verdicts on several tables as one."""
    return Judged(
        tuple(verdict for one in judged for verdict in one.verdicts),
        tuple(expected for one in judged for expected in one.expectations),
    )


def check_lines(judged: Judged | None, overridden: bool) -> tuple[str, ...]:
    """A line for each check that did not pass; none where it did not come to checks."""
    if judged is None:
        return ()
    said = "overridden" if overridden else "failed"
    failed = [f"check {said}: {verdict_line(one)}" for one in failures(judged.verdicts)]
    return (*failed, *(f"warning: {verdict_line(one)}" for one in warnings(judged.verdicts)))
