"""The columns of a pipeline's tables, as Spark types them: planned once, then kept in a file.

Planning takes most of a second of a small run, and comes to the same until the pipeline's file,
Spark or Tidemark is another. The file holds nothing else and may be removed at any time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tidemark.commit_point import commit_point
from tidemark.operators.kinds import operator_of
from tidemark.operators.operator import BRONZE
from tidemark.pipeline.model import Pipeline
from tidemark.runs.kept_columns import (
    PLANNED_FROM,
    fingerprint,
    is_planned_from,
    kept_columns,
)
from tidemark.runs.run import Run
from tidemark.sources.kinds import row_origin
from tidemark.storage.files import write_bytes
from tidemark.streaming.derive import derived
from tidemark.streaming.inputs import with_event_time
from tidemark.streaming.kept_types import check_kept_types, check_patterns
from tidemark.streaming.operators.kinds import streamed_operator
from tidemark.streaming.schemas import (
    bronze_schema,
    changes_schema,
    gold_schema,
    rejects_schema,
    source_schema,
)


@dataclass(frozen=True)
class PlannedColumns:
    """Bronze's columns, and by table what it aggregates to: window, keys, measures, rows."""

    bronze: StructType
    aggregated: Mapping[str, StructType]


def planned_columns(spark: SparkSession, run: Run) -> PlannedColumns:
    """From the file where it is of this pipeline and these versions; else planned and written."""
    place, options = run.places.planned_columns, run.settings.storage_options
    kept = kept_columns(place, options)
    if is_planned_from(kept, run.pipeline) and kept.get("spark") == pyspark.__version__:
        return PlannedColumns(
            StructType.fromJson(kept["bronze"]),
            {name: StructType.fromJson(columns) for name, columns in kept["aggregated"].items()},
        )
    columns = plan_columns(spark, run.pipeline)
    _keep(place, columns, run.pipeline, options)
    return columns


def plan_bronze(spark: SparkSession, pipeline: Pipeline) -> StructType:
    """Bronze's columns, as Spark types what is derived."""
    origin = row_origin(pipeline)
    rows = spark.createDataFrame([], source_schema(pipeline, origin))
    return bronze_schema(pipeline, derived(rows, pipeline.source).schema, origin)


def plan_columns(spark: SparkSession, pipeline: Pipeline) -> PlannedColumns:
    """Plan them; PipelineInvalid where no table can keep a column, or a pattern is none."""
    check_patterns(spark, pipeline)
    bronze = plan_bronze(spark, pipeline)
    accepted = with_event_time(spark.createDataFrame([], bronze), pipeline)
    inputs = {BRONZE: accepted, **of_partners(spark, pipeline)}
    aggregated = {
        name: streamed_operator(operator_of(pipeline, name)).columns(inputs)
        for name in pipeline.tables
    }
    check_kept_types(pipeline, bronze, aggregated)
    return PlannedColumns(bronze, aggregated)


def of_partners(spark: SparkSession, pipeline: Pipeline) -> dict[str, DataFrame]:
    """No rows of other pipelines' bronze, with their columns, by the names of inputs."""
    found = {}
    for name in pipeline.partners:
        partner = pipeline.partner(name)
        rows = spark.createDataFrame([], plan_bronze(spark, partner))
        found[f"{BRONZE}/{name}"] = with_event_time(rows, partner)
    return found


@commit_point(
    "columns planned",
    after_a_kill="before: the next run plans them again; after: it finds them",
)
def _keep(
    place: str, columns: PlannedColumns, pipeline: Pipeline, options: Mapping[str, str]
) -> None:
    kept = {
        PLANNED_FROM: fingerprint(pipeline),
        "spark": pyspark.__version__,
        "bronze": columns.bronze.jsonValue(),
        "aggregated": {name: schema.jsonValue() for name, schema in columns.aggregated.items()},
        # What tells whether the tables fit where there is no Spark to ask.
        "rejects": rejects_schema(row_origin(pipeline)).jsonValue(),
        "changes": {
            name: changes_schema(schema).jsonValue() for name, schema in columns.aggregated.items()
        },
        "gold": {
            name: gold_schema(schema, {}).jsonValue() for name, schema in columns.aggregated.items()
        },
    }
    write_bytes(place, json.dumps(kept).encode(), options)
