"""Make a pipeline's tables before its first row, and check them before every run."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tidemark.gold.plan import GoldState
from tidemark.gold.state import gold_state
from tidemark.pipeline.places import FIRST_GENERATION
from tidemark.runs.run import GoldStates, Run
from tidemark.sources.kinds import row_origin
from tidemark.storage.delta.create import TableSpec, ensure_table
from tidemark.storage.delta.history import ADDED_TO_CHANGES
from tidemark.storage.generation import GENERATION
from tidemark.streaming.planned_columns import planned_columns
from tidemark.streaming.schemas import changes_schema, gold_schema, rejects_schema


def ensure_tables(spark: SparkSession, run: Run) -> GoldStates:
    """Make what is missing; the state of each gold table. TableMismatch before any row moves."""
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


def _ensure_gold(run: Run, name: str, aggregated: StructType) -> GoldState:
    table = run.pipeline.tables[name]
    comments = dict(table.measures)
    gold = ensure_table(
        run.warehouse.gold(name),
        TableSpec(
            gold_schema(aggregated, comments).json(),
            ("window_date",),
            table.description,
            transactions={GENERATION: FIRST_GENERATION},
        ),
    )
    state = gold_state(gold)
    ensure_table(
        run.warehouse.changes(name, state.generation),
        TableSpec(
            changes_schema(aggregated).json(),
            description=f"History of the windows of {run.pipeline.name}.{name}",
            # Readers learn from the change feed in which commit a row came.
            properties={"delta.enableChangeDataFeed": "true"},
            may_add=ADDED_TO_CHANGES,
        ),
    )
    return state
