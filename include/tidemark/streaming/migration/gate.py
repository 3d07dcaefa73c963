"""The gate of a migration: what gold would be is held to the checks before anything is written."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from pyspark.sql import SparkSession

from tidemark.quality.acceptance import Acceptance
from tidemark.quality.record import JudgedRun, record_verdicts
from tidemark.quality.validate import (
    Judged,
    ManyRows,
    check_none_failed,
    judge_tables,
    record_validation,
)
from tidemark.quality.verdicts import failures
from tidemark.streaming.arrow_rows import frame_of
from tidemark.streaming.migration.migrate import Migration

_ADVICE = (
    "Gold is as it was, and its generation goes on. Mend the data or the check and repeat the "
    'migration, or publish it as it is: the same command with --accept --reason "…".'
)


def judge_migration(spark: SparkSession, plan: Migration) -> Judged:
    """The verdicts on what gold would be; nothing is written."""
    name, settings = plan.run.pipeline.name, plan.run.settings
    judged = judge_tables(name, [plan], settings)
    if isinstance(judged, ManyRows):
        judged = judge_tables(name, [plan], settings, partial(frame_of, spark))
    assert not isinstance(judged, ManyRows)
    return judged


def record_migration(
    plan: Migration, run: JudgedRun, judged: Judged, accepted: Acceptance | None, now: datetime
) -> str | None:
    """Record the verdicts, and that somebody has accepted those that fail. Where the pages of
    expectations begin; None where none ran. `now` is in UTC."""
    validated = record_validation(run, judged, plan.run.settings, now)
    if accepted is not None:
        failed = failures(judged.verdicts)
        record_verdicts(plan.run.warehouse.quality, run, now, failed, accepted=accepted)
    return validated.data_docs


def check_migration(run: JudgedRun, judged: Judged) -> None:
    """Raise ChecksFailed where a check keeps the generation from being published."""
    check_none_failed(run.pipeline, run.run_id, judged.verdicts, _ADVICE)
