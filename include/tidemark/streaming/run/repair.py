"""Repair: windows that the stream left wrong or never emitted are computed again from bronze.

The life of a table's repair, after its query has ended:
1. count the late rows of each batch since the last publish, and find the windows they touch;
2. compute those windows again from bronze, at one version;
3. append to `changes` what differs from the newest known value, cause `late`;
4. where the source is idle, compute the windows that a seal closes, and append them likewise,
   cause `seal`.
Nothing here is decided by what an earlier try did: killed anywhere, a repeat finds the same
windows, and what was appended already does not differ any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from tidemark.gold.plan import GoldState
from tidemark.gold.recomputed import append_recomputed, differing_windows
from tidemark.operators.repaired import LATE, SEAL, Recomputed, Repaired
from tidemark.operators.windows.assignments import count_of_range, count_of_windows
from tidemark.operators.windows.late_rows import BatchCounts, BatchRead, find_late_rows
from tidemark.pipeline.instants import instant_of
from tidemark.pipeline.model import Pipeline, Table
from tidemark.storage.warehouse import Warehouse
from tidemark.streaming.recompute import bronze_at, recompute_range, recompute_windows


@dataclass(frozen=True)
class Repair:
    """One table of a run, and the state that its repair starts from.

    `bronze_version` is the version that the table's query has read to. `closed_ms` is how far
    the query closed windows (`Run.closed_ms`), `seal_ms` the seal frontier (0: no seal), in
    milliseconds. Windows that start before `frozen_before_ms` stay as they are.
    """

    pipeline: Pipeline
    table_name: str
    tables: Warehouse
    gold: GoldState
    bronze_version: int
    closed_ms: int
    seal_ms: int
    frozen_before_ms: int | None
    run_id: str

    @property
    def table(self) -> Table:
        return self.pipeline.tables[self.table_name]

    @property
    def event_time(self) -> str:
        return self.pipeline.source.event_time.column

    @property
    def open_after_ms(self) -> int:
        """The frontier that the stream itself reached: what ends later, it may not have emitted."""
        return max(self.gold.close_ms, self.closed_ms)

    def bronze(self) -> DeltaTable:
        return self.tables.bronze.at_version(self.bronze_version)


def repair(spark: SparkSession, plan: Repair, batches: tuple[BatchRead, ...]) -> Repaired:
    """Repair one table after its query has read bronze up to the plan's version."""
    counts: tuple[BatchCounts, ...] = ()
    done = []
    if batches:
        late = find_late_rows(
            plan.bronze(),
            plan.tables.bronze,
            plan.event_time,
            plan.table,
            batches,
            plan.frozen_before_ms,
            plan.gold.close_ms,
        )
        counts = late.batches
        if late.windows.num_rows:
            done.append(_repair_late(spark, plan, late.windows))
    if plan.seal_ms > plan.open_after_ms:
        done.append(_repair_sealed(spark, plan))
    return Repaired(counts, tuple(done), plan.seal_ms)


def _repair_late(spark: SparkSession, plan: Repair, windows: pa.Table) -> Recomputed:
    bronze = bronze_at(spark, plan.tables.bronze, plan.bronze_version)
    computed = recompute_windows(spark, bronze, plan.pipeline, plan.table, windows)
    in_bronze = count_of_windows(plan.bronze(), plan.event_time, plan.table, windows)
    return _append_differing(plan, computed, LATE, in_bronze)


def _repair_sealed(spark: SparkSession, plan: Repair) -> Recomputed:
    bronze = bronze_at(spark, plan.tables.bronze, plan.bronze_version)
    # From the first end that is a microsecond after what is closed.
    first_end = instant_of(plan.open_after_ms) + timedelta(microseconds=1)
    last_end = instant_of(plan.seal_ms)
    computed = recompute_range(bronze, plan.pipeline, plan.table, first_end, last_end)
    in_bronze = count_of_range(plan.bronze(), plan.event_time, plan.table, first_end, last_end)
    return _append_differing(plan, computed, SEAL, in_bronze)


def _append_differing(
    plan: Repair, computed: DataFrame, cause: str, rows_in_bronze: int
) -> Recomputed:
    windows = computed.toArrow()
    changes, gold = plan.tables.changes(plan.table_name), plan.tables.gold(plan.table_name)
    differing = differing_windows(
        gold.existing(), changes.existing(), plan.gold, windows, plan.table
    )
    append_recomputed(changes, differing, cause, plan.gold.generation, plan.run_id)
    rows = pc.sum(windows.column("rows")).as_py() or 0
    return Recomputed(cause, windows.num_rows, rows, rows_in_bronze, differing.num_rows)
