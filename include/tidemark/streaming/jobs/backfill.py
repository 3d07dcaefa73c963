"""`spark-submit`'s entry for a backfill: arguments in, one backfill, result written, exit code out.

Exit codes as in `entry.py`. The result file says what differed, what was published, and the error.

The life of a backfill, under the pipeline's lease:
1. refuse a range with open or frozen windows, and while changes of a run wait for their publish;
2. compare gold's windows of the range with those that bronze gives, in Spark;
3. check that the computed windows hold every assignment that bronze has of them;
4. hold what would be published to the table's checks (`gate.py`);
5. append to `changes` what differs, cause `backfill`; what bronze has no row of with `rows` 0;
6. write the ledger's line;
7. publish, by the plan and the commit of every publish: gold's close frontier, generation and
   bronze version stay as they are, only `changes` moves on.
The stream's checkpoint is not opened for writing, and no window that the stream may still change
is touched. Killed anywhere before 7, gold is as it was; a repeat finds what was appended, appends
only what differs from that, and publishes it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from itertools import repeat
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.errors import BackfillRefused
from tidemark.gold.failing import failing_windows
from tidemark.gold.pins import Dependency, TableResult
from tidemark.gold.plan import CHANGES, plan_publish
from tidemark.gold.publish import publish_table
from tidemark.gold.published import published_before
from tidemark.gold.published_bronze import PublishedBronze, published_bronze
from tidemark.gold.recomputed import append_recomputed, rows_of_changes
from tidemark.ledger.ledger import check_balance
from tidemark.ledger.lines import recomputed_lines
from tidemark.operators.operator import Operator
from tidemark.operators.repaired import BACKFILL, Recomputed
from tidemark.operators.row_range import RowRange
from tidemark.quality.planned_rows import TablePublish
from tidemark.quality.validate import Judged
from tidemark.recompute.backfill_range import (
    backfill_range,
    check_pending,
    check_whole,
    last_pending,
    pending_changes,
)
from tidemark.recompute.backfill_result import BackfillResult, backfill_lines
from tidemark.recompute.differences import Differences
from tidemark.runs.accounts import write_lines
from tidemark.runs.contract.check import admit
from tidemark.runs.losses import check_losses
from tidemark.runs.repair_facts import batch_computed_after
from tidemark.runs.requests import BackfillRequest
from tidemark.runs.run import Run, TableRun
from tidemark.storage.delta.append import conformed
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.history import FAILURE, VERSION, schema_of
from tidemark.storage.delta.notes import PublishedNote
from tidemark.storage.lease.lease import Lease
from tidemark.storage.result_file import RunError
from tidemark.streaming.arrow_rows import frame_of
from tidemark.streaming.gate import judge_publish
from tidemark.streaming.jobs.act import JobAct, act_main, result_of
from tidemark.streaming.jobs.recomputation import Recomputation
from tidemark.streaming.operators.stretches import is_in_range
from tidemark.streaming.recompute.compare import (
    compare_windows,
    differing_values,
    wide_session,
    window_differences,
)
from tidemark.streaming.recompute.windows_of import (
    check_pipeline_columns,
    published_others,
    windows_by_bronze,
    windows_in_gold,
)
from tidemark.streaming.run.recomputed_singly import with_columns


def main(argv: Sequence[str] | None = None) -> int:
    """Backfill a range; the exit code. Never raises for an error that it can report."""
    request = BackfillRequest.read(argv)
    return act_main(
        request,
        BACKFILL,
        backfill_once,
        backfill_lines,
        BackfillResult,
        table=request.table,
        window_from=request.start,
        window_to=request.end,
    )


def backfill_once(act: JobAct[BackfillRequest]) -> BackfillResult:
    """Backfill under the pipeline's lease, or only look; what happened, errors included."""
    return _Backfilling(act).carry_out()


class _Backfilling(Recomputation[BackfillRequest, BackfillResult]):
    trigger = BACKFILL
    advice = (
        "Gold is as it was, and nothing was appended. Mend the data or the check and repeat the "
        'backfill, or publish it as it is: the same command with --accept --reason "…" (in '
        "Airflow, the parameter `accept`)."
    )
    plan: Backfill | None = None

    def begin(self) -> bool:
        check_losses(self.run.pipeline, self.run.warehouse, by_hand=False)
        # Closed windows would be computed by measures that the others were not.
        admit(self.run.pipeline, self.run.settings)
        return True

    def lease(self) -> AbstractContextManager[Lease]:
        return self.act.lease("backfill")

    def compare(self) -> Recomputed | None:
        asked, progress = self.request, self.progress
        spark = self.act.spark()
        with progress.stage("compare"), progress.tasks_of(spark):
            self.plan = plan_backfill(spark, self.run, asked.table, asked.start, asked.end)
        with progress.stage("validate"), progress.tasks_of(spark):
            self.judged = judge_backfill(self.plan)
        return None if asked.dry_run else balanced(self.plan)

    def apply(self, recomputed: Recomputed, note: PublishedNote) -> TableResult:
        assert self.plan is not None
        return apply_backfill(self.plan, recomputed, note)

    def result(self, error: RunError | None) -> BackfillResult:
        facts: dict[str, Any] = {}
        if self.plan is not None:
            facts = {"bronze": self.plan.bronze.version, "found": self.plan.found}
        if self.committed is not None:
            facts |= {
                "appended": self.committed.windows_changed,
                "changes": self.committed.changes,
                "gold": self.committed.gold,
                "published_windows": self.committed.published_windows,
                "published": self.committed.published,
            }
        facts |= {"window_from": self.request.start, "window_to": self.request.end}
        return result_of(self.act, BackfillResult, self, error, **facts)


def judge_backfill(plan: Backfill) -> Judged:
    """The verdicts on what a backfill would publish; nothing is written. Asked before it is
    appended: behind that it would be too late, as the next publish takes along all of `changes`."""
    if plan.nothing_to_publish:
        return Judged(())
    return judge_publish(plan.table.run, _publish(plan))


def _publish(plan: Backfill) -> TablePublish:
    """The publish as it will be once what differs is appended."""
    table, state = plan.table, plan.table.state
    # A dry run holds no lease: a run may have published since the windows were compared.
    gold = table.gold.at_version(state.version)
    changes = table.changes.existing()
    schema, next_version = schema_of(changes), changes.version() + 1
    differing = rows_of_changes(
        schema, plan.differing, BACKFILL, state.generation, table.run_id
    ).select(schema.names)
    differing = differing.cast(schema).append_column(
        VERSION, pa.repeat(pa.scalar(next_version, pa.int64()), differing.num_rows)
    )
    return TablePublish(
        table.name,
        table.operator,
        gold,
        plan_publish(state, pins(plan, next_version)),
        pa.concat_tables([plan.pending, differing]),
        table.run_id,
    )


_UNBALANCED = (
    "Nothing was written. The windows that were computed do not hold the rows that bronze has of "
    "them: did something else write to bronze meanwhile? Repeat the backfill; where it fails "
    "again, audit the pipeline (`tidemark audit`)."
)


@dataclass(frozen=True)
class Backfill:
    """What a backfill of a table found: the range, the differences, and what to append.

    `pending` are changes that a killed backfill left, which the publish takes along.
    """

    table: TableRun
    bronze: PublishedBronze
    windows: RowRange
    pending: pa.Table
    found: Differences
    differing: pa.Table

    @property
    def nothing_to_publish(self) -> bool:
        return not self.differing.num_rows and not self.pending.num_rows


def plan_backfill(
    spark: SparkSession, run: Run, name: str, start: datetime, end: datetime
) -> Backfill:
    """Compare the windows that start in [start, end) with bronze; nothing is written.

    Raises BackfillRefused, UnpublishedChanges, TableMismatch, LedgerUnbalanced.
    """
    table = run.table(name)
    state = table.state
    frozen = table.frozen_before_ms()
    windows = backfill_range(table.operator, start, end, state.close_ms, frozen)
    pending = pending_changes(table.changes.existing(), state.changes)
    check_pending(pending, name)
    check_pipeline_columns(spark, table)
    bronze = published_bronze(table.bronze.existing(), state.bronze)
    found, differing = _compared(spark, table, bronze, windows, pending)
    operator = table.reading(published_others(table))
    in_bronze = operator.rows_in(table.bronze.at_version(bronze.version))
    gold = dataset_of(table.gold.at_version(state.version))
    check_whole(in_bronze.hanging_with(differing, gold, bronze.condition), windows)
    gone = _failing_that_went(table, bronze, windows, differing.schema)
    differing = pa.concat_tables([differing, gone])
    return Backfill(table, bronze, windows, pending, found, differing)


def _compared(
    spark: SparkSession,
    table: TableRun,
    bronze: PublishedBronze,
    windows: RowRange,
    pending: pa.Table,
) -> tuple[Differences, pa.Table]:
    """How gold differs from bronze, and the values to append: what differs from the newest known
    ones."""
    session, operator = wide_session(spark), table.operator
    computed = windows_by_bronze(session, table, bronze, windows)
    held = windows_in_gold(session, table, windows)
    found = window_differences(compare_windows(held, computed, operator), operator)
    _check_unique(found, table.name)
    known = _known(session, held, pending, operator, windows)
    differing = differing_values(compare_windows(known, computed, operator), operator)
    return found, (differing if found.windows or pending.num_rows else differing.limit(0)).toArrow()


def _failing_that_went(
    table: TableRun, bronze: PublishedBronze, windows: RowRange, schema: pa.Schema
) -> pa.Table:
    """Windows of the range that failed and of which bronze has no row any more, with `rows` 0: they
    stand in gold no more than by bronze, but `changes` still says that they fail."""
    operator = table.reading(published_others(table))
    in_bronze = operator.rows_in(table.bronze.at_version(bronze.version))
    rows = failing_windows(table.gold.existing(), table.changes.existing(), operator, table.state)
    closed = windows.of(rows).select(list(operator.located))
    each = {
        str(one.to_pylist()): one for one in map(closed.slice, range(closed.num_rows), repeat(1))
    }
    went = [one for one in each.values() if not in_bronze.count_touched(one, bronze.condition)]
    found = pa.concat_tables([closed.slice(0, 0), *went])
    none = pa.repeat(pa.scalar(0, pa.int64()), found.num_rows)
    found = with_columns(found, {"window_end": in_bronze.ends(found), "rows": none})
    return conformed(found, schema)


def balanced(plan: Backfill) -> Recomputed:
    """What was computed, as the ledger tells it. Raises LedgerUnbalanced where it does not hold
    each assignment of bronze; before anything is appended, as the next publish would take it along.
    """
    table, recomputed = plan.table, _recomputed(plan)
    lines = list(recomputed_lines(table.name, table.query, {BACKFILL: 0}, [recomputed]))
    check_balance(table.pipeline.name, lines, _UNBALANCED)
    return recomputed


def apply_backfill(plan: Backfill, recomputed: Recomputed, note: PublishedNote) -> TableResult:
    """Append, account, publish. A repeat appends nothing twice, and raises no revision twice."""
    table, run = plan.table, plan.table.run
    changes, gold = table.changes, table.gold
    batch = batch_computed_after(table, table.state.inputs)
    append_recomputed(changes, plan.differing, BACKFILL, table.generation, run.run_id, batch)
    pinned = pins(plan, changes.existing().version())
    positions = {BACKFILL: _position(plan, pinned.changes)}
    lines = list(recomputed_lines(table.name, table.query, positions, [recomputed]))
    run.fence()
    write_lines(run, lines)
    if not plan.nothing_to_publish:
        pinned = publish_table(table.operator, pinned, gold, changes, note)
    # Earlier tries may have died behind gold's commit: whoever follows gold is told of those too.
    published = published_before(gold.existing(), run.run_id, BACKFILL)
    return pinned.model_copy(update={"published": published})


def _known(
    spark: SparkSession,
    held: DataFrame,
    pending: pa.Table,
    operator: Operator,
    windows: RowRange,
) -> DataFrame:
    """The newest known value of each window: gold's, unless a killed backfill left a newer one."""
    if not pending.num_rows:
        return held
    columns = [f"`{column}`" for column in (*operator.identity, *operator.values)]
    newer = frame_of(spark, last_pending(pending, operator)).where(is_in_range(windows))
    is_shown = (F.col("rows") > 0) & F.col(FAILURE).isNull()
    same = [F.col(f"g.`{key}`").eqNullSafe(F.col(f"n.`{key}`")) for key in operator.identity]
    older = held.alias("g").join(F.broadcast(newer.alias("n")), same, "left_anti")
    return older.select(columns).unionByName(newer.where(is_shown).select(columns))


def _check_unique(found: Differences, name: str) -> None:
    if not found.duplicated:
        return
    first = found.examples["duplicated"][0]
    raise BackfillRefused(
        f"{found.duplicated:,} windows of the range stand in gold of {name} more than once, the "
        f"first of them {first.window_start:%Y-%m-%dT%H:%M:%SZ} {first.keys}: something else than "
        "a publish wrote them. Nothing was written. Delete all of their rows from gold, then "
        "repeat the backfill: it brings them back from bronze."
    )


def _recomputed(plan: Backfill) -> Recomputed:
    bronze = plan.table.bronze.at_version(plan.bronze.version)
    operator = plan.table.reading(published_others(plan.table))
    in_bronze = None
    if operator.traits.counts_rows:
        rows = operator.rows_in(bronze)
        in_bronze = rows.count_starting(plan.windows, plan.bronze.condition)
    found = plan.found
    return Recomputed(
        BACKFILL, found.bronze_windows, found.bronze_rows, in_bronze, plan.differing.num_rows
    )


def _position(plan: Backfill, changes: int) -> int:
    """The commit of `changes` that holds what was computed: a repeat after a crash finds the same.

    Not the newest version: a takeover of the lease fences the table by a commit of its own.
    """
    if plan.differing.num_rows:
        return changes
    versions = [int(version) for version in plan.pending.column(VERSION).to_pylist() if version]
    return max(versions, default=plan.table.state.changes)


def pins(plan: Backfill, changes: int) -> TableResult:
    """What publish starts from: all as gold has it, but for the version of `changes`, `changes`."""
    state, watermark = plan.table.state, plan.table.watermark_ms()
    return TableResult(
        generation=state.generation,
        changes=changes,
        inputs=dict(state.inputs),
        rests_on=_rests_on(plan, changes),
        windows_changed=plan.differing.num_rows,
        watermark_before_ms=watermark,
        watermark_after_ms=watermark,
        close_before_ms=state.close_ms,
        close_after_ms=state.close_ms,
    )


def _rests_on(plan: Backfill, changes: int) -> dict[str, Dependency]:
    """Where gold says what it rests on, `changes` moves on in that too."""
    if not plan.table.state.identified:
        return {}
    identity = str(plan.table.changes.existing().metadata().id)
    return {CHANGES: Dependency(id=identity, at=changes)}


if __name__ == "__main__":
    sys.exit(main())
