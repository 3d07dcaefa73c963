"""The gate of a backfill: what it would publish is held to the checks before it is appended.

Behind the append it would be too late: the next publish takes along all of `changes`.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial

import pyarrow as pa
from pyspark.sql import SparkSession

from tidemark.gold.plan import plan_publish
from tidemark.gold.recomputed import rows_of_changes
from tidemark.operators.repaired import BACKFILL
from tidemark.quality.acceptance import Acceptance
from tidemark.quality.planned_rows import TablePublish
from tidemark.quality.record import JudgedRun, record_verdicts
from tidemark.quality.validate import (
    Judged,
    ManyRows,
    check_none_failed,
    judge_tables,
    record_validation,
)
from tidemark.quality.verdicts import failures
from tidemark.storage.delta.history import VERSION, schema_of
from tidemark.streaming.arrow_rows import frame_of
from tidemark.streaming.backfill.backfill import Backfill, pins

_ADVICE = (
    "Gold is as it was, and nothing was appended. Mend the data or the check and repeat the "
    'backfill, or publish it as it is: the same command with --accept --reason "…" (in Airflow, '
    "the parameter `accept`)."
)


def judge_backfill(spark: SparkSession, plan: Backfill) -> Judged:
    """The verdicts on what a backfill would publish; nothing is written."""
    if plan.nothing_to_publish:
        return Judged(())
    name, settings, publish = plan.run.pipeline.name, plan.run.settings, _publish(plan)
    judged = judge_tables(name, [publish], settings)
    if isinstance(judged, ManyRows):
        judged = judge_tables(name, [publish], settings, partial(frame_of, spark))
    assert not isinstance(judged, ManyRows)
    return judged


def record_backfill(
    plan: Backfill, run: JudgedRun, judged: Judged, accepted: Acceptance | None, now: datetime
) -> str | None:
    """Record the verdicts, and that somebody has accepted those that fail. Where the pages of
    expectations begin; None where none ran. `now` is in UTC."""
    settings = plan.run.settings
    validated = record_validation(run, judged, settings, now)
    if accepted is not None:
        failed = failures(judged.verdicts)
        record_verdicts(plan.run.warehouse.quality, run, now, failed, accepted=accepted)
    return validated.data_docs


def check_backfill(run: JudgedRun, judged: Judged) -> None:
    """Raise ChecksFailed where a check keeps the backfill from being published."""
    check_none_failed(run.pipeline, run.run_id, judged.verdicts, _ADVICE)


def _publish(plan: Backfill) -> TablePublish:
    """The publish as it will be once what differs is appended."""
    run, name = plan.run, plan.table_name
    # A dry run holds no lease: a run may have published since the windows were compared.
    gold = run.warehouse.gold(name).at_version(plan.state.version)
    changes = run.warehouse.changes(name, plan.state.generation).existing()
    schema, next_version = schema_of(changes), changes.version() + 1
    differing = rows_of_changes(
        schema, plan.differing, BACKFILL, plan.state.generation, run.run_id
    ).select(schema.names)
    differing = differing.cast(schema).append_column(
        VERSION, pa.repeat(pa.scalar(next_version, pa.int64()), differing.num_rows)
    )
    return TablePublish(
        name,
        run.operator(name),
        gold,
        plan_publish(plan.state, pins(plan, next_version)),
        pa.concat_tables([plan.pending, differing]),
        run.run_id,
    )
