"""A table's windows in a range, from gold and from bronze, as audits and backfills compare them."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.gold.published_bronze import PublishedBronze
from tidemark.operators.operator import BRONZE
from tidemark.operators.row_range import RowRange
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.storage_options import spark_uri
from tidemark.runs.run import Run
from tidemark.storage.delta.create import TableSpec, check_columns
from tidemark.streaming.inputs import input_at, with_event_time
from tidemark.streaming.operators.kinds import streamed_operator
from tidemark.streaming.planned_columns import plan_bronze
from tidemark.streaming.schemas import changes_schema, gold_schema


def windows_by_bronze(
    spark: SparkSession, run: Run, name: str, bronze: PublishedBronze, windows: RowRange
) -> DataFrame:
    """What a batch query over the rows that gold stands for gives for these windows."""
    rows = input_at(spark, run.warehouse.bronze, run.pipeline, bronze.version)
    rows = _with_all_columns(spark, rows.where(bronze.condition), run.pipeline)
    return streamed_operator(run.operator(name)).starting_in({BRONZE: rows}, windows)


def windows_in_gold(
    spark: SparkSession, run: Run, name: str, version: int, windows: RowRange
) -> DataFrame:
    """What gold holds of these windows at a version."""
    reader = spark.read.format("delta").option("versionAsOf", version)
    first, last = windows.first_start, windows.last_start
    gold = reader.load(spark_uri(run.places.gold(name)))
    return gold.where(F.col("window_date").between(first.date(), last.date())).where(
        F.col("window_start").between(F.lit(first), F.lit(last))
    )


def check_pipeline_columns(spark: SparkSession, run: Run, name: str) -> None:
    """TableMismatch where gold or `changes` lack columns of the pipeline file, or have others."""
    bronze = spark.createDataFrame([], plan_bronze(spark, run.pipeline))
    rows = with_event_time(bronze, run.pipeline)
    aggregated = streamed_operator(run.operator(name)).plan({BRONZE: rows}).schema
    for place, schema in (
        (run.warehouse.gold(name), gold_schema(aggregated, {})),
        (run.warehouse.changes(name), changes_schema(aggregated)),
    ):
        check_columns(place, place.existing(), TableSpec(schema.json()))


def _with_all_columns(spark: SparkSession, bronze: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Columns that bronze gets with the next run only are null, as they will be then."""
    for field in plan_bronze(spark, pipeline).fields:
        if field.name not in bronze.columns:
            bronze = bronze.withColumn(field.name, F.lit(None).cast(field.dataType))
    return bronze
