"""The repairs of a run: which windows late rows touch, and which an idle source's seal closes."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidemark.gold.plan import GoldState
from tidemark.gold.retention import table_frozen_before_ms
from tidemark.operators.other_inputs import read_at
from tidemark.operators.repaired import Repaired
from tidemark.runs.repair_facts import (
    batch_computed_after,
    checked_to_of,
    seal_ms,
    unpublished_batches,
)
from tidemark.runs.run import GoldStates, Outcome, Run
from tidemark.streaming.run.repair import Repair, repair


def repair_tables(
    spark: SparkSession, run: Run, gold: GoldStates, outcome: Outcome
) -> dict[str, Repaired]:
    """Repair each table; bronze is read at the version that this run's ingest ended with."""
    repaired = {}
    for name, state in gold.items():
        batches = unpublished_batches(run, name, state)
        repaired[name] = repair(spark, _plan(run, name, state, outcome), batches)
    return repaired


def _plan(run: Run, name: str, gold: GoldState, outcome: Outcome) -> Repair:
    bronze, operator = run.warehouse.bronze.existing(), run.operator(name)
    return Repair(
        pipeline=run.pipeline,
        table_name=name,
        tables=run.warehouse,
        gold=gold,
        bronze_version=outcome.versions["bronze"],
        closed_ms=run.closed_ms(name, gold.generation),
        seal_ms=seal_ms(run, name, outcome),
        frozen_before_ms=table_frozen_before_ms(
            run.pipeline, run.warehouse, name, operator, bronze, gold.close_ms
        ),
        run_id=run.run_id,
        others=read_at(operator, run.warehouse, run.query_checkpoint(name, gold.generation)),
        checked_to=checked_to_of(run, name, gold.generation, outcome.versions["bronze"]),
        batch=batch_computed_after(run, name, gold.generation),
    )
