"""A table's next generation within an act: its file is as it was, and its rows are others."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import SparkSession

from tidemark.gold.pins import TableResult
from tidemark.gold.published import publish_note
from tidemark.operators.repaired import MIGRATION
from tidemark.recompute.table_change import change_of
from tidemark.runs.reads_others import forget_former
from tidemark.runs.run import Run
from tidemark.streaming.recompute.computed import Computed, RowsLeftOut
from tidemark.streaming.recompute.migration import (
    Migration,
    apply_migration,
    balanced,
    compute_table,
    plan_migration,
)


def compute_without(spark: SparkSession, run: Run, table: str, left_out: RowsLeftOut) -> Computed:
    """The windows of a table as they are without some rows of bronze."""
    change = change_of(run.pipeline, run.settings, table, rebuild=True)
    return compute_table(spark, run, table, change, left_out)


def plan_rebuild(
    spark: SparkSession, run: Run, table: str, known: Computed | None = None
) -> Migration:
    """Its next generation, of what is computed now where its windows are not known."""
    change = change_of(run.pipeline, run.settings, table, rebuild=True)
    computed = compute_table(spark, run, table, change) if known is None else known
    return plan_migration(spark, run, table, change, computed)


def begin_rebuilt(plan: Migration, planned_at: datetime) -> TableResult:
    """Begin it, in one commit of gold."""
    run = plan.table.run
    begun = apply_migration(plan, balanced(plan), publish_note(run.run_id, planned_at, MIGRATION))
    forget_former(run, plan.name, plan.former_operator)
    return begun
