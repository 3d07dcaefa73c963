"""A table's windows in a range, from gold and from bronze, as audits and backfills compare them."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.gold.failing import failing_when_computed
from tidemark.gold.published_bronze import PublishedBronze, published_bronze
from tidemark.operators.lookups import input_of
from tidemark.operators.operator import BRONZE
from tidemark.operators.other_inputs import ReadAt, other_places
from tidemark.operators.row_range import RowRange
from tidemark.pipeline.model import Pipeline
from tidemark.runs.run import TableRun
from tidemark.storage.delta.create import TableSpec, check_columns
from tidemark.storage.delta.history import ADDED_TO_CHANGES
from tidemark.streaming.arrow_rows import frame_of
from tidemark.streaming.inputs import (
    counted_rows,
    input_at,
    others_at,
    table_at,
    with_event_time,
)
from tidemark.streaming.operators.kinds import streamed_operator
from tidemark.streaming.operators.stretches import is_in_range
from tidemark.streaming.planned_columns import of_partners, plan_bronze
from tidemark.streaming.run.recomputed_singly import recomputed_singly
from tidemark.streaming.schemas import changes_schema, gold_schema


def windows_by_bronze(
    spark: SparkSession,
    table: TableRun,
    bronze: PublishedBronze,
    windows: RowRange,
) -> DataFrame:
    """What a batch query over the rows that gold stands for gives for these windows. Those that
    failed so far, and would fail the query, are computed one by one."""
    at = published_others(table)
    pipeline, operator = table.pipeline, table.reading(at)
    rows = input_at(spark, table.bronze, pipeline, bronze.version).where(bronze.condition)
    inputs = {
        BRONZE: counted_rows(with_all_columns(spark, rows, pipeline), operator),
        **others_at(spark, operator, table.warehouse, pipeline, at),
    }
    in_bronze = operator.rows_in(table.bronze.at_version(bronze.version))
    excluded = in_bronze.rows_in_bronze(_failed_before(table), bronze.condition)
    computed = streamed_operator(operator, excluded).starting_in(inputs, windows)
    alone = windows.of(excluded)
    if not alone.num_rows:
        return computed
    streamed, none = streamed_operator(operator), alone.slice(0, 0)
    found, _ = recomputed_singly(streamed, inputs, in_bronze, none, alone, bronze.condition)
    return computed.unionByName(frame_of(inputs[BRONZE].sparkSession, found))


def published_others(table: TableRun) -> ReadAt:
    """The rows of other inputs that gold stands for, as those of bronze (`published_bronze`)."""
    found = {}
    for other, place in other_places(table.operator, table.warehouse).items():
        one = published_bronze(place.existing(), table.state.inputs[other])
        found[other] = (one.version, one.condition)
    for name in map(input_of, table.operator.lookups):
        found[name] = (table.state.inputs[name], "true")
    return found


def _failed_before(table: TableRun) -> pa.Table:
    found = failing_when_computed(table.changes.existing(), table.operator, table.generation)
    return found if table.operator.traits.fails_queries else found.slice(0, 0)


def windows_in_gold(spark: SparkSession, table: TableRun, windows: RowRange) -> DataFrame:
    """What gold holds of these windows, as it was found."""
    first, last = windows.first_start.date(), windows.last_start.date()
    gold = table_at(spark, table.gold, table.state.version)
    return gold.where(F.col("window_date").between(first, last)).where(is_in_range(windows))


def check_pipeline_columns(spark: SparkSession, table: TableRun) -> None:
    """TableMismatch where gold or `changes` lack columns of the pipeline file, or have others."""
    pipeline = table.pipeline
    rows = with_event_time(spark.createDataFrame([], plan_bronze(spark, pipeline)), pipeline)
    rows = counted_rows(rows, table.operator, planned=True)
    inputs = {BRONZE: rows, **of_partners(spark, pipeline)}
    aggregated = streamed_operator(table.operator).columns(inputs)
    for place, schema in (
        (table.gold, gold_schema(aggregated, {})),
        (table.changes, changes_schema(aggregated)),
    ):
        spec = TableSpec(schema.json(), may_add=ADDED_TO_CHANGES)
        check_columns(place, place.existing(), spec)


def with_all_columns(spark: SparkSession, bronze: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Columns that bronze gets with the next run only are null, as they will be then."""
    for field in plan_bronze(spark, pipeline).fields:
        if field.name not in bronze.columns:
            bronze = bronze.withColumn(field.name, F.lit(None).cast(field.dataType))
    return bronze
