"""Make a pipeline's tables before its first row, and check them before every run."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tidemark.pipeline.model import Pipeline, Table
from tidemark.pipeline.places import FIRST_GENERATION
from tidemark.runs.run import Run, TableRun
from tidemark.sources.kinds import row_origin
from tidemark.storage.delta.create import TableSpec, ensure_table
from tidemark.storage.delta.history import ADDED_TO_CHANGES
from tidemark.storage.generation import GENERATION
from tidemark.streaming.planned_columns import planned_columns
from tidemark.streaming.schemas import changes_schema, gold_schema, rejects_schema


def ensure_tables(spark: SparkSession, run: Run) -> dict[str, TableRun]:
    """Make what is missing; the run's tables by name. TableMismatch before any row moves."""
    pipeline = run.pipeline
    columns = planned_columns(spark, run)
    ensure_table(
        run.warehouse.bronze,
        TableSpec(
            columns.bronze.json(),
            ("_event_date",),
            f"Accepted rows of {pipeline.name}",
            may_add=None,
        ),
    )
    ensure_table(
        run.warehouse.rejects,
        TableSpec(
            rejects_schema(row_origin(pipeline)).json(),
            description=f"Rejected rows of {pipeline.name}",
            may_add=None,
        ),
    )
    return {name: _ensure_gold(run, name, columns.aggregated[name]) for name in pipeline.tables}


def _ensure_gold(run: Run, name: str, aggregated: StructType) -> TableRun:
    model = run.pipeline.tables[name]
    schema = gold_schema(aggregated, model.comments).json()
    ensure_table(run.warehouse.gold(name), gold_spec(model, schema))
    table = run.table(name)
    spec = changes_spec(run.pipeline, name, changes_schema(aggregated).json())
    ensure_table(table.changes, spec)
    return table


def gold_spec(table: Table, schema_json: str) -> TableSpec:
    """Gold, in its first generation until another one is committed."""
    return TableSpec(
        schema_json,
        ("window_date",),
        table.description,
        transactions={GENERATION: FIRST_GENERATION},
    )


def changes_spec(pipeline: Pipeline, name: str, schema_json: str) -> TableSpec:
    """The history of a table's generation."""
    return TableSpec(
        schema_json,
        description=f"History of the windows of {pipeline.name}.{name}",
        # Readers learn from the change feed in which commit a row came.
        properties={"delta.enableChangeDataFeed": "true"},
        may_add=ADDED_TO_CHANGES,
    )
