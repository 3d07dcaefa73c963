"""The repairs of a run: which windows late rows touch, and which an idle source's seal closes."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidemark.storage.lease import Lease
from tidemark.streaming.run import GoldStates, Outcome, Run
from tidemark.streaming.stream.repair import Repair, repair
from tidemark.tables.commits import close_frontiers, last_ingest_ms
from tidemark.tables.publishing.plan import GoldState
from tidemark.tables.publishing.retention import frozen_before_ms
from tidemark.tables.repair.batches import Frontier, batches_read
from tidemark.tables.repair.repaired import Repaired
from tidemark.tables.repair.seal import newest_window_end_ms, seal_frontier_ms


def repair_tables(
    spark: SparkSession, run: Run, gold: GoldStates, outcome: Outcome, lease: Lease
) -> dict[str, Repaired]:
    """Repair each table; bronze is read at the version that this run's ingest ended with."""
    repaired = {}
    for name, state in gold.items():
        checkpoint = run.query_checkpoint(name, state.generation)
        batches = batches_read(checkpoint, state.bronze, _frontier(run, name, state))
        repaired[name] = repair(spark, _plan(run, name, state, outcome, lease), batches)
    return repaired


def _frontier(run: Run, name: str, gold: GoldState) -> Frontier:
    """As the batch noted it with what it appended; one that appended nothing took gold's.

    A held run may have been published since a batch: that moved gold's frontier.
    """
    query = str(run.query_checkpoint(name, gold.generation).query_id())
    noted = close_frontiers(run.table(run.places.changes(name)), query, gold.changes)
    return lambda batch, _: gold.close_ms if batch is None else noted.get(batch, gold.close_ms)


def _plan(run: Run, name: str, gold: GoldState, outcome: Outcome, lease: Lease) -> Repair:
    return Repair(
        pipeline=run.pipeline,
        table_name=name,
        places=run.places,
        options=run.settings.storage_options,
        gold=gold,
        bronze_version=outcome.versions["bronze"],
        closed_ms=run.closed_ms(name, gold.generation),
        seal_ms=_seal_ms(run, name, outcome),
        frozen_before_ms=frozen_before_ms(run.pipeline, run.ingest_checkpoint()),
        run_id=run.run_id,
        check=lease.check,
    )


def _seal_ms(run: Run, name: str, outcome: Outcome) -> int:
    idle = run.pipeline.watermark.seal_after_idle
    if idle is None or outcome.rows.read:
        return 0
    tables = [run.table(place) for place in (run.places.bronze, run.places.rejects)]
    ingested = [last for table in tables if (last := last_ingest_ms(table)) is not None]
    event_time = run.pipeline.source.event_time.column
    return seal_frontier_ms(
        run.scheduled_ms,
        max(ingested, default=None),
        idle,
        run.pipeline.watermark.delay,
        newest_window_end_ms(tables[0], event_time, run.pipeline.tables[name].window),
    )
