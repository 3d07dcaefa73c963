"""The steps of a run, in their order, up to the pins that publish starts from."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.errors import (
    ExpressionFailed,
    StackExhausted,
    TidemarkError,
)
from tidemark.gold.failing import excluded_windows, failing_of_run, other_rows
from tidemark.gold.pins import TableResult
from tidemark.gold.recomputed import append_recomputed
from tidemark.operators.batches_read import ReadTo, read_to
from tidemark.operators.operator import BRONZE, Equation
from tidemark.operators.other_inputs import check_others_are_there, others_published
from tidemark.operators.repaired import FAILED, Repaired
from tidemark.operators.touched import BatchRead
from tidemark.pipeline.expressions.sql import columns_read
from tidemark.pipeline.instants import instant_text
from tidemark.pipeline.places import FIRST_GENERATION
from tidemark.pipeline.settings.storage_options import spark_uri
from tidemark.runs.accounts import account
from tidemark.runs.clocks import check_ticks, remove_old_ticks
from tidemark.runs.contract.check import Admitted, record_contracts
from tidemark.runs.contract.contract import Seed
from tidemark.runs.contract.recorded import begun_from
from tidemark.runs.erased_again import erased_again
from tidemark.runs.lookups import copy_lookups
from tidemark.runs.pins import pins_of, state_before
from tidemark.runs.reads_others import note_as_reader
from tidemark.runs.recorded_runs import record_interrupted_run
from tidemark.runs.repair_facts import (
    batch_computed_after,
    checked_to_of,
    seal_ms,
    unpublished_batches,
)
from tidemark.runs.run import Outcome, Run, TableRun
from tidemark.sources.kinds import row_origin
from tidemark.storage.delta.history import FAILURE, schema_of
from tidemark.storage.delta.place import own_handles
from tidemark.storage.file_place import one_look
from tidemark.streaming.exhausted import exhausted, found_exhausting
from tidemark.streaming.ingest.ingest import Ingest, start_ingest
from tidemark.streaming.inputs import counted_rows, input_at, others_at
from tidemark.streaming.operators.kinds import streamed_operator
from tidemark.streaming.progress import Progress
from tidemark.streaming.recompute.following import follow_source
from tidemark.streaming.run.aggregate import Aggregate, start_aggregate, tick_clocks
from tidemark.streaming.run.ensure_tables import ensure_tables
from tidemark.streaming.run.queries import Running, await_all, clocks_observed, end_of
from tidemark.streaming.run.recomputed_singly import failing_among, verdict_rows
from tidemark.streaming.run.repair import Repair, repair
from tidemark.streaming.sources.streams import streamed_source


def run_stream(
    spark: SparkSession,
    run: Run,
    admitted: Admitted,
    progress: Progress,
    outcome: Outcome,
    now: datetime,
) -> None:
    """Ingest what is new in the source and aggregate it into `changes`; gold stays as it is, unless
    the source changed rows (`follow_source`). `now` is in UTC.

    When it returns, closed windows are repaired, the ledger is written and balances, and
    `outcome.tables` holds the pins for publish. Killed anywhere, the next run finishes what this
    one began. Raises LedgerUnbalanced, LeaseLost, and what the steps raise.
    """
    run.source.check(run.ingest_checkpoint())
    for name in run.pipeline.tables:
        check_others_are_there(run.operator(name), run.warehouse)
    for copied in copy_lookups(run):
        progress.say(copied)
    note_as_reader(run)
    tables = ensure_tables(spark, run)
    record_contracts(admitted, run.warehouse)
    record_interrupted_run(run.pipeline, run.warehouse)
    outcome.restart = run.restart_cases(tables.values())
    with own_handles():
        ingest = partial(_ingest, spark, run, progress, outcome)
        has_followed = follow_source(spark, run, progress, now, ingest)
    if has_followed:
        tables = ensure_tables(spark, run)
    with progress.stage("ingest"), progress.tasks_of(spark), own_handles():
        _ingest(spark, run, progress, outcome)
    before = {name: state_before(table) for name, table in tables.items()}
    with progress.stage("aggregate"), progress.tasks_of(spark), own_handles():
        _aggregate(spark, tables, progress)
    with progress.stage("repair"), progress.tasks_of(spark):
        repaired = repair_tables(spark, tables, outcome)
    with one_look():
        for name in tables:
            outcome.tables[name] = pins_of(before[name], repaired[name], outcome)
    for name, table in tables.items():
        progress.say(f"{name}: {_summary(outcome.tables[name])}")
        _say_what_fails(table, progress)
    with progress.stage("ledger"):
        account(run, tables, repaired)


def _ingest(spark: SparkSession, run: Run, progress: Progress, outcome: Outcome) -> None:
    ingest = Ingest(
        pipeline=run.pipeline,
        streamed=streamed_source(run.source),
        bronze=run.warehouse.bronze,
        rejects=run.warehouse.rejects,
        checkpoint=run.ingest_checkpoint(),
        scheduled_ms=run.scheduled_ms,
        run_id=run.run_id,
        erased=erased_again(run.pipeline, run.settings, run.warehouse),
    )
    with ingest.streamed.nothing_passed_over(ingest.checkpoint):
        try:
            await_all([start_ingest(spark, ingest, progress)])
        finally:
            outcome.rows += ingest.rows
    for name, place in (("bronze", ingest.bronze), ("rejects", ingest.rejects)):
        outcome.versions[name] = place.existing().version()


def _aggregate(spark: SparkSession, tables: Mapping[str, TableRun], progress: Progress) -> None:
    """All tables side by side; those that fail on some windows again, without them."""
    names = list(tables)
    while names:
        plans = [_query(tables[name]) for name in names]
        ticks = [tick_clocks(plan) for plan in plans]
        started: list[Running] = []
        try:
            for plan in plans:
                running = start_aggregate(spark, plan, progress)
                started.append(running)
        except TidemarkError:
            # With this error the lease goes back in order, and others write.
            for running in started:
                end_of(running)
            raise
        failed = [
            (plan, failure)
            for plan, running in zip(plans, started, strict=True)
            if (failure := end_of(running))
        ]
        names = [plan.name for plan, failure in failed if _mended(spark, plan, failure, progress)]
        if lasting := [failure for plan, failure in failed if plan.name not in names]:
            raise lasting[0]
        for plan, of_plan, running in zip(plans, ticks, started, strict=True):
            if of_plan and plan.name not in names:
                watermark = plan.table.watermark_ms()
                check_ticks(of_plan, clocks_observed(running), watermark, plan.name)
                remove_old_ticks(of_plan, plan.table.run_id)


def _mended(
    spark: SparkSession, plan: Aggregate, failure: TidemarkError, progress: Progress
) -> bool:
    """Can the query go on, without the windows that it failed on?"""
    if isinstance(failure, StackExhausted):
        raise with_measure(spark, plan, failure) from failure
    if not isinstance(failure, ExpressionFailed) or not plan.table.operator.traits.sets_aside:
        return False
    try:
        windows = exclude_failing(spark, plan)
    except TidemarkError as error:
        raise error from failure
    if windows:
        progress.say(f"{plan.name}: {windows:,} windows fail, and are set aside")
    return windows > 0


def _query(table: TableRun) -> Aggregate:
    is_later = table.generation != FIRST_GENERATION
    if not is_later or table.checkpoint.last_batch("commits") is not None:
        return Aggregate(table)
    return Aggregate(table, since=_since(table), seed=begun_from(table.name, table.warehouse))


def _since(table: TableRun) -> datetime | None:
    """The earliest event time that the first batch of a later generation has to read; None: any.

    It reads all of bronze again, and only rows that can touch an open window matter: gold has the
    others' windows. What comes later and is older is late. Complete mode emits all that it holds,
    so it has to hold all.
    """
    if table.operator.traits.equation is Equation.ALL:
        return None
    return table.operator.rows_in(table.bronze.existing()).seeded_from(table.state.close_ms)


def _say_what_fails(table: TableRun, progress: Progress) -> None:
    name, changes = table.name, table.changes.existing()
    found = failing_of_run(changes, table.operator, table.generation, table.run_id)
    if found.windows:
        progress.say(f"{name}: {found.windows:,} windows fail, and gold has no row of them:")
    for example in found.examples:
        progress.say(f"  {example}")
    if found.windows > len(found.examples):
        progress.say(f"  … and {found.windows - len(found.examples):,} more")


def _summary(table: TableResult) -> str:
    parts = [f"{table.windows_changed:,} windows changed"]
    if table.late.assigned:
        parts.append(f"{table.late.rows + table.late.partly:,} late rows")
        if table.late.first_seen:
            parts.append(f"{table.late.first_seen:,} first seen")
    if table.late.assigned or table.corrected:
        parts.append(f"{table.corrected:,} windows corrected")
    if table.sealed_to_ms > table.close_before_ms:
        parts.append(f"sealed up to {instant_text(table.sealed_to_ms)}")
    return ", ".join([*parts, f"watermark {instant_text(table.watermark_after_ms)}"])


def with_measure(spark: SparkSession, plan: Aggregate, failure: StackExhausted) -> StackExhausted:
    """The failure of a table's query with the measure and the row, where one of the last batch of
    bronze exhausts the stack by itself; else as it is. Only reads."""
    rows = spark.read.format("delta").load(spark_uri(plan.table.bronze.uri))
    last = rows.agg(F.max("_batch")).collect()[0][0]
    before = "tables." + plan.name + ".measures."
    measures = plan.table.operator.table.measures
    asked = {before + name: partial(_measured, sql=sql) for name, sql in measures.items()}
    read = {before + name: columns_read(sql, rows.columns) for name, sql in measures.items()}
    place = [one.name for one in row_origin(plan.table.pipeline)]
    operator = plan.table.reading(plan.table.read_at())
    counted = counted_rows(rows.where(F.col("_batch") == last), operator)
    found = found_exhausting(counted, asked, place, read)
    if found is None:
        return failure
    return exhausted(
        f"The query {plan.name} failed. It was {found}. What was committed before stays; the "
        "next run repeats the batch that failed."
    )


def _measured(rows: DataFrame, sql: str) -> DataFrame:
    return rows.agg(F.expr(sql))


def repair_tables(
    spark: SparkSession, tables: Mapping[str, TableRun], outcome: Outcome
) -> dict[str, Repaired]:
    """Repair each table; bronze is read at the version that this run's ingest ended with."""
    repaired = {}
    for name, table in tables.items():
        with one_look():
            plan, batches = _plan(table, outcome), unpublished_batches(table)
        repaired[name] = repair(spark, plan, batches)
    return repaired


def _plan(table: TableRun, outcome: Outcome) -> Repair:
    others = table.read_at()
    inputs = {BRONZE: outcome.versions["bronze"], **{name: at for name, (at, _) in others.items()}}
    return Repair(
        table=table,
        bronze_version=outcome.versions["bronze"],
        closed_ms=table.closed_ms(),
        seal_ms=seal_ms(table, outcome),
        frozen_before_ms=table.frozen_before_ms(),
        others=others,
        checked_to=checked_to_of(table, outcome.versions["bronze"]),
        batch=batch_computed_after(table, inputs),
    )


def exclude_failing(spark: SparkSession, plan: Aggregate) -> int:
    """Exclude what the query's next batch fails on; the number of windows, 0 where the batch
    alone does not fail on any: then nothing is written.

    Called when the query has failed with ExpressionFailed. Raises that where too many fail.

    The life of it, after the query has failed on an expression in batch N:
    1. find the windows that batch N evaluates rows of, without Spark: those that its rows touch,
       and of a join those of rows that it gives up as unmatched;
    2. compute these from bronze, as it is at the end of N, and find those that fail;
    3. append them to `changes`, cause `failed`, with what the engine says: the repair of the same
       run says what becomes of gold;
    4. the query is started again and leaves them out; the engine repeats batch N.
    What its state has of such a window stays as it was before N, and is not appended when the
    engine emits it: the window changes only by being computed again (`repair.py`). Killed before 3,
    batch N fails again and the same windows are found; after it, the next start leaves them out.
    """
    failed_batch = _failed_batch(plan)
    if failed_batch is None:
        return 0
    batch, before_ms = failed_batch
    # Of the other inputs as far as the batch has read them.
    at = {name: (last, "true") for name, (_, last) in batch.others.items()}
    operator, changes = plan.table.reading(at), plan.table.changes.existing()
    in_bronze = operator.rows_in(plan.table.bronze.at_version(batch.last))
    touched = in_bronze.evaluated(plan.table.bronze, batch, before_ms)
    candidates = other_rows(
        touched, excluded_windows(changes, operator, plan.table.generation), operator
    )
    bronze = input_at(spark, plan.table.bronze, plan.table.pipeline, batch.last)
    inputs = {
        BRONZE: counted_rows(bronze, operator),
        **others_at(spark, operator, plan.table.warehouse, plan.table.pipeline, at),
    }
    streamed = streamed_operator(operator, exact=False)

    def compute(closed: pa.Table) -> None:
        streamed.recompute(inputs, closed).write.format("noop").mode("overwrite").save()

    failed = failing_among(compute, candidates)
    names = {*operator.identity, *operator.values, FAILURE}
    schema = pa.schema([field for field in schema_of(changes) if field.name in names])
    rows = verdict_rows(failed, in_bronze, schema)
    append_recomputed(
        plan.table.changes, rows, FAILED, plan.table.generation, plan.table.run_id, batch.number
    )
    return len(failed)


def _failed_batch(plan: Aggregate) -> tuple[BatchRead, int] | None:
    """The batch that is planned and not committed, and the watermark that the one before ran by;
    None where there is none, or it reads nothing and cannot fail for what it read before.

    None for the very first one too: nothing rests on the measures yet, so a corrected file is taken
    by the next run, which is better than windows that are set aside. That of a later generation
    reads anew what was computed then, by which it is known what of that fails.
    """
    checkpoint, seed = plan.table.checkpoint, plan.seed
    batch = checkpoint.last_batch("offsets")
    if batch is None or batch == checkpoint.last_batch("commits"):
        return None
    if batch == 0 and seed is None:
        return None
    others = others_published(plan.table.operator, plan.table.warehouse, {})
    if batch:
        before = read_to(checkpoint, batch - 1, others)
    else:
        begun = seed or Seed(bronze=-1)
        ends = {one.name: begun.others.get(one.name, -1) + 1 for one in others}
        before = ReadTo(begun.bronze + 1, 0, ends)
    now = read_to(checkpoint, batch, others)
    read = {one.name: (before.other_ends[one.name], now.other_ends[one.name] - 1) for one in others}
    first, last = before.bronze_end, now.bronze_end - 1
    if first > last and not plan.table.operator.traits.checks_closing:
        return None
    return BatchRead(batch, first, last, 0, now.watermark_ms, read), before.watermark_ms
