"""The columns of a pipeline's tables, as Spark types them: planned once, then kept in a file.

Planning takes most of a second of a small run, and comes to the same until the pipeline's file,
Spark or Tidemark is another. The file holds nothing else and may be removed at any time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import tidemark
from tidemark.pipeline.model import Pipeline
from tidemark.storage.files import FileMissing, read_bytes, write_bytes
from tidemark.streaming.ingest.judge import judge, rules_of
from tidemark.streaming.run import Run
from tidemark.streaming.schemas import bronze_schema
from tidemark.streaming.stream.aggregate import aggregate, with_event_time


@dataclass(frozen=True)
class PlannedColumns:
    """Bronze's columns, and by table what it aggregates to: window, keys, measures, rows."""

    bronze: StructType
    aggregated: Mapping[str, StructType]


def planned_columns(spark: SparkSession, run: Run) -> PlannedColumns:
    """From the file where it is of this pipeline and these versions; else planned and written."""
    place, options = run.places.planned_columns, run.settings.storage_options
    planned_from = _fingerprint(run.pipeline)
    kept = _read(place, options)
    if kept.get("planned_from") == planned_from:
        return PlannedColumns(
            StructType.fromJson(kept["bronze"]),
            {name: StructType.fromJson(columns) for name, columns in kept["aggregated"].items()},
        )
    columns = _plan(spark, run.pipeline)
    _keep(place, columns, planned_from, options)
    return columns


def plan_bronze(spark: SparkSession, pipeline: Pipeline) -> StructType:
    """Bronze's columns, as judging a line types them."""
    lines = spark.createDataFrame([], "_value string, _file string")
    return bronze_schema(pipeline, judge(lines, rules_of(pipeline), 0).schema)


def _plan(spark: SparkSession, pipeline: Pipeline) -> PlannedColumns:
    bronze = plan_bronze(spark, pipeline)
    accepted = with_event_time(spark.createDataFrame([], bronze), pipeline)
    tables = pipeline.tables.items()
    return PlannedColumns(
        bronze, {name: aggregate(accepted, table).schema for name, table in tables}
    )


def _fingerprint(pipeline: Pipeline) -> str:
    """Of all that the columns follow from."""
    of = [pipeline.model_dump_json(), pyspark.__version__, tidemark.__version__]
    return hashlib.sha256("\n".join(of).encode()).hexdigest()


def _read(place: str, options: Mapping[str, str]) -> dict[str, Any]:
    """What the file holds; nothing where it is missing or is no such file."""
    try:
        found = json.loads(read_bytes(place, options))
    except (FileMissing, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _keep(
    place: str, columns: PlannedColumns, planned_from: str, options: Mapping[str, str]
) -> None:
    kept = {
        "planned_from": planned_from,
        "bronze": columns.bronze.jsonValue(),
        "aggregated": {name: schema.jsonValue() for name, schema in columns.aggregated.items()},
    }
    write_bytes(place, json.dumps(kept).encode(), options)
