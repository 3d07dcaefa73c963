"""The gate of a backfill: what it would publish is held to the checks before it is appended.

Behind the append it would be too late: the next publish takes along all of `changes`.
"""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
from pyspark.sql import SparkSession

from tidemark.quality.acceptance import Acceptance
from tidemark.quality.planned_rows import TablePublish
from tidemark.quality.record import JudgedRun, record_verdicts
from tidemark.quality.validate import (
    Judged,
    ManyRows,
    check_none_failed,
    judge_tables,
    record,
)
from tidemark.quality.verdicts import failures
from tidemark.streaming.backfill.backfill import Backfill, pins
from tidemark.tables.history import VERSION, schema_of
from tidemark.tables.publishing.plan import plan_publish
from tidemark.tables.repair.recomputed import rows_of_changes
from tidemark.tables.repair.repaired import BACKFILL

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
        judged = judge_tables(name, [publish], settings, spark.createDataFrame)
    assert not isinstance(judged, ManyRows)
    return judged


def check_backfill(
    plan: Backfill, run: JudgedRun, judged: Judged, accepted: Acceptance | None, now: datetime
) -> None:
    """Record the verdicts; raise ChecksFailed where one keeps the backfill from being published,
    unless somebody has accepted that, which is recorded too. `now` is in UTC."""
    settings = plan.run.settings
    record(run, judged, settings, now)
    if accepted is None:
        check_none_failed(run.pipeline, run.run_id, judged.verdicts, _ADVICE)
        return
    failed, options = failures(judged.verdicts), settings.storage_options
    record_verdicts(plan.run.places.quality, run, now, failed, options, accepted=accepted)


def _publish(plan: Backfill) -> TablePublish:
    """The publish as it will be once what differs is appended."""
    run, name = plan.run, plan.table_name
    changes = run.table(run.places.changes(name))
    schema, next_version = schema_of(changes), changes.version() + 1
    differing = rows_of_changes(
        schema, plan.differing, BACKFILL, plan.state.generation, run.run_id
    ).select(schema.names)
    differing = differing.cast(schema).append_column(
        VERSION, pa.repeat(pa.scalar(next_version, pa.int64()), differing.num_rows)
    )
    return TablePublish(
        name,
        run.pipeline.tables[name],
        run.table(run.places.gold(name)),
        plan_publish(plan.state, pins(plan, next_version)),
        pa.concat_tables([plan.pending, differing]),
        run.run_id,
    )
