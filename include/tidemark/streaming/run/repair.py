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
from tidemark.gold.recomputed import append_recomputed, differing_rows, known_to_gold
from tidemark.operators.kinds import operator_of
from tidemark.operators.operator import BRONZE, Covered, Operator
from tidemark.operators.repaired import LATE, SEAL, Recomputed, Repaired
from tidemark.operators.touched import BatchCounts, BatchRead
from tidemark.pipeline.instants import instant_of
from tidemark.pipeline.model import Pipeline
from tidemark.storage.warehouse import Warehouse
from tidemark.streaming.inputs import Inputs, input_at
from tidemark.streaming.operators.kinds import streamed_operator


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
    def operator(self) -> Operator:
        return operator_of(self.pipeline, self.table_name)

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
        touched = plan.operator.touched(
            plan.bronze(), plan.tables.bronze, batches, plan.frozen_before_ms, plan.gold.close_ms
        )
        counts = touched.batches
        if touched.closed.num_rows:
            done.append(_repair_late(spark, plan, touched.closed))
    if plan.seal_ms > plan.open_after_ms:
        done.append(_repair_sealed(spark, plan))
    return Repaired(counts, tuple(done), plan.seal_ms)


def _repair_late(spark: SparkSession, plan: Repair, closed: pa.Table) -> Recomputed:
    operator = plan.operator
    computed = streamed_operator(operator).recompute(spark, _inputs(spark, plan), closed)
    in_bronze = operator.count_touched(plan.bronze(), closed)
    return _append_differing(plan, computed, operator.covered(closed), LATE, in_bronze)


def _repair_sealed(spark: SparkSession, plan: Repair) -> Recomputed:
    # From the first end that is a microsecond after what is closed.
    ends = instant_of(plan.open_after_ms) + timedelta(microseconds=1), instant_of(plan.seal_ms)
    operator = plan.operator
    computed = streamed_operator(operator).ending_in(_inputs(spark, plan), *ends)
    in_bronze = operator.count_ending(plan.bronze(), *ends)
    return _append_differing(plan, computed, operator.covered_ending(*ends), SEAL, in_bronze)


def _inputs(spark: SparkSession, plan: Repair) -> Inputs:
    return {BRONZE: input_at(spark, plan.tables.bronze, plan.pipeline, plan.bronze_version)}


def _append_differing(
    plan: Repair, computed: DataFrame, covered: Covered | None, cause: str, rows_in_bronze: int
) -> Recomputed:
    windows = computed.toArrow()
    changes, gold = plan.tables.changes(plan.table_name), plan.tables.gold(plan.table_name)
    differing = differing_rows(
        gold.existing(), changes.existing(), plan.gold, plan.operator, windows, covered
    )
    known = known_to_gold(gold.existing(), plan.gold, plan.operator, differing)
    append_recomputed(changes, differing, cause, plan.gold.generation, plan.run_id)
    rows = pc.sum(windows.column("rows")).as_py() or 0
    return Recomputed(
        cause,
        windows.num_rows,
        rows,
        rows_in_bronze,
        appended=differing.num_rows,
        corrected=known.closed,
        first_seen=differing.num_rows - known.held,
    )
