"""Repair: windows that the stream left wrong or never emitted are computed from bronze.

The life of a table's repair, after its query has ended:
1. count the late rows of each batch since the last publish, and find the windows they touch; so
   with what the stream leaves out (`exclude_failing.py`), and with what it emitted unlike bronze
   (`gold/to_compute.py`);
2. compute those windows again from bronze, at one version; what fails is known by that;
3. append to `changes` what differs from the newest known value, cause `late`;
4. where the stream emits nothing (`Table.recomputes`), compute the windows that the watermark
   has closed, and append them likewise, cause `closed`; where gold shows what is open
   (`Table.recomputes_open`) instead those that the batches' rows touch, cause `open`; and before
   that what lookups touch which say something else than gold was computed with, cause `lookup`;
5. where the source is idle, compute those that a seal closes, cause `seal`.
Nothing here is decided by what an earlier try did: killed anywhere, a repeat finds the same
windows, and what was appended already does not differ any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tidemark.gold.excluded import Excluded
from tidemark.gold.recomputed import append_recomputed, differing_rows, known_to_gold
from tidemark.gold.to_compute import Frontiers, to_compute
from tidemark.operators.bronze_rows import BronzeRows
from tidemark.operators.looked_up_rows import NOTHING, Found
from tidemark.operators.operator import BRONZE, Covered, Operator
from tidemark.operators.other_inputs import ReadAt, position
from tidemark.operators.repaired import (
    APART,
    CLOSED,
    LATE,
    LOOKUP,
    OPEN,
    SEAL,
    Recomputed,
    Repaired,
)
from tidemark.operators.touched import NEVER_MS, BatchRead
from tidemark.pipeline.instants import instant_of
from tidemark.runs.run import TableRun
from tidemark.storage.delta.append import conformed
from tidemark.storage.delta.history import FAILURE, schema_of
from tidemark.streaming.inputs import Inputs, counted_rows, input_at, others_at
from tidemark.streaming.operators.kinds import streamed_operator
from tidemark.streaming.run.recomputed_singly import recomputed_singly


@dataclass(frozen=True)
class Repair:
    """The repair of one table of a run, after its query has ended.

    `bronze_version` is the version that the query has read to. `closed_ms` is how far the query
    closed windows (`TableRun.closed_ms`), `seal_ms` the seal frontier (0: no seal), in
    milliseconds. Windows that start before `frozen_before_ms` stay as they are. `others` are the
    versions of other inputs that it has read to; `checked_to` is as in `Repaired`, `batch` as in
    `append_recomputed`.
    """

    table: TableRun
    bronze_version: int
    closed_ms: int
    seal_ms: int
    frozen_before_ms: int | None
    others: ReadAt
    checked_to: int
    batch: int | None

    @cached_property
    def operator(self) -> Operator:
        """With its other inputs, as far as the query has read them."""
        return self.table.reading(self.others)

    @property
    def at(self) -> Frontiers:
        return Frontiers(
            before_ms=self.table.state.close_ms,
            closed_ms=self.closed_ms,
            seal_ms=self.seal_ms,
            frozen_before_ms=self.frozen_before_ms,
            emits=not self.operator.table.recomputes,
        )

    @property
    def position(self) -> int:
        """That of its inputs, as they are read here."""
        others = {name: version for name, (version, _) in self.others.items()}
        return position(
            self.table.operator, self.table.warehouse, {BRONZE: self.bronze_version, **others}
        )

    @cached_property
    def rows(self) -> BronzeRows:
        """Its rows by bronze at the plan's version."""
        return self.operator.rows_in(self.table.bronze.at_version(self.bronze_version))


def repair(spark: SparkSession, plan: Repair, batches: tuple[BatchRead, ...]) -> Repaired:
    """Repair one table after its query has read bronze up to the plan's version."""
    table, at, changes = plan.table, plan.at, plan.table.changes.existing()
    excluded = Excluded.of(plan.rows, table.bronze, changes, table.generation)
    found = to_compute(excluded, table.gold.existing(), changes, table.state, batches, at)
    done = []
    _note_detached(plan, changes, found.detached)
    if found.rows.num_rows or found.alone.num_rows:
        closed = plan.at.reached_ms
        done.append(_repair_touched(spark, plan, LATE, found.rows, found.alone, closed))
    if found.opened.num_rows:
        nothing = found.opened.slice(0, 0)
        done.append(_repair_touched(spark, plan, OPEN, found.opened, nothing, NEVER_MS))
    by_lookups = found.looked_up is not None and found.looked_up.num_rows > 0
    if found.looked_up is not None and by_lookups:
        nothing = found.looked_up.slice(0, 0)
        done.append(_repair_touched(spark, plan, LOOKUP, found.looked_up, nothing, NEVER_MS))
    closed_to = 0 if at.emits or table.operator.table.recomputes_open else at.reached_ms
    ends = (CLOSED, at.before_ms, closed_to), (SEAL, at.reached_ms, at.seal_ms)
    ending = [(cause, after_ms, to_ms) for cause, after_ms, to_ms in ends if to_ms > after_ms]
    done += [_repair_ending(spark, plan, excluded, *one) for one in ending]
    computed_at = plan.position if ending or by_lookups else 0
    return Repaired(
        found.batches, tuple(done), plan.seal_ms, plan.checked_to, closed_to, computed_at
    )


def _repair_touched(
    spark: SparkSession, plan: Repair, cause: str, rows: pa.Table, due: pa.Table, up_to_ms: int
) -> Recomputed:
    """What new rows touch, and what of the windows that are set aside is due."""
    windows = _computed(spark, plan, rows, due, up_to_ms)
    touched = pa.concat_tables([rows, due.cast(rows.schema)])
    counted = plan.operator.traits.counts_rows
    in_bronze = plan.rows.count_touched(touched) if counted else None
    return _append_differing(plan, windows, plan.rows.covered(touched), cause, in_bronze)


def _repair_ending(
    spark: SparkSession, plan: Repair, excluded: Excluded, cause: str, after_ms: int, up_to_ms: int
) -> Recomputed:
    """All with after < end <= up to."""
    # From the first end that is a microsecond after what is closed.
    ends = instant_of(after_ms) + timedelta(microseconds=1), instant_of(up_to_ms)
    rows, due = plan.rows, excluded.ending_in(after_ms, up_to_ms)
    ending = rows.ending(*ends)
    if ending is not None:
        covered = rows.covered(ending)
        windows = _computed(spark, plan, ending, ending.slice(0, 0), up_to_ms)
    else:
        covered = rows.covered_ending(*ends)
        streamed = streamed_operator(plan.operator, excluded.windows)
        windows = streamed.ending_in(_inputs(spark, plan), *ends).toArrow()
        if due.num_rows:
            windows = pa.concat_tables(
                [windows, _computed(spark, plan, due.slice(0, 0), due, up_to_ms)]
            )
    in_bronze = rows.count_ending(*ends) if plan.operator.traits.counts_rows else None
    return _append_differing(plan, windows, covered, cause, in_bronze)


def _note_detached(plan: Repair, changes: DeltaTable, detached: pa.Table | None) -> None:
    """Before anything else: what is published without it would go on with the stream's own."""
    if detached is not None and detached.num_rows:
        names = {*plan.operator.identity, *plan.operator.values, FAILURE}
        columns = pa.schema([field for field in schema_of(changes) if field.name in names])
        rows = conformed(detached, columns)
        append_recomputed(plan.table.changes, rows, APART, plan.table.generation, plan.table.run_id)


def _computed(
    spark: SparkSession, plan: Repair, closed: pa.Table, excluded: pa.Table, up_to_ms: int
) -> pa.Table:
    """These windows by bronze, what fails with its verdict; one by one those that are set aside. Of
    what ends after the frontier, anything."""
    streamed = streamed_operator(plan.operator, up_to_ms=up_to_ms)
    every = pa.concat_tables([closed, excluded.cast(closed.schema)])
    inputs = _inputs(spark, plan, plan.rows.looked_up(every))
    return recomputed_singly(streamed, inputs, plan.rows, closed, excluded)[0]


def _inputs(spark: SparkSession, plan: Repair, looked_up: Found = NOTHING) -> Inputs:
    table = plan.table
    bronze = input_at(spark, table.bronze, table.pipeline, plan.bronze_version)
    others = others_at(spark, plan.operator, table.warehouse, table.pipeline, plan.others)
    return {BRONZE: counted_rows(bronze, plan.operator, looked_up=looked_up), **others}


def _append_differing(
    plan: Repair, windows: pa.Table, covered: Covered | None, cause: str, rows_in_bronze: int | None
) -> Recomputed:
    table, gold = plan.table, plan.table.gold.existing()
    differing = differing_rows(
        gold,
        table.changes.existing(),
        table.state,
        plan.operator,
        windows,
        covered,
        plan.at.after_ms,
        plan.seal_ms if cause == SEAL else None,
    )
    known = known_to_gold(gold, table.state, plan.operator, differing)
    append_recomputed(table.changes, differing, cause, table.generation, table.run_id, plan.batch)
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
