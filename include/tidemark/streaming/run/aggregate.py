"""Aggregate: one query for each table reads bronze as a stream and appends to `changes`.

The life of a batch:
1. the engine plans it from bronze's new files, and writes `offsets/N`;
2. the windows that it emits are appended to `changes`, under the transaction (query, N), but for
   those that are closed already or set aside: they change only by being computed again from bronze;
3. the engine commits state and `commits/N`.
Where the table is recomputed (`Table.recomputes`), the query has no state and emits nothing: its
batches say how far bronze was read, and move the watermark.
Killed between 2 and 3, the batch runs again; its append is known by its transaction and left
out, but the batch still runs, because its tasks write the state that the next batch needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.commit_point import commit_point
from tidemark.gold.failing import excluded_windows
from tidemark.operators.operator import BRONZE
from tidemark.pipeline.settings.storage_options import spark_uri
from tidemark.runs.clocks import Tick, tick
from tidemark.runs.contract.contract import Seed
from tidemark.runs.run import TableRun
from tidemark.storage.delta.commits import rows_appended, rows_between
from tidemark.storage.delta.history import schema_of
from tidemark.storage.delta.notes import EmittedNote
from tidemark.storage.delta.place import shared_handles
from tidemark.streaming.arrow_rows import frame_of
from tidemark.streaming.inputs import Inputs, clocked_stream, event_times, input_stream
from tidemark.streaming.operators.joins import StreamedJoins
from tidemark.streaming.operators.kinds import streamed_operator
from tidemark.streaming.progress import BatchReport, Progress
from tidemark.streaming.run.append import FEW_ROWS, append
from tidemark.streaming.run.queries import Running, start_query


@dataclass(frozen=True)
class Aggregate:
    """The query of one table in a run.

    No row is read that only what starts before `since` can need; None: any. `seed`, before the
    first batch of a later generation, is what that was computed from.
    """

    table: TableRun
    since: datetime | None = None
    seed: Seed | None = None

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def where(self) -> str | None:
        """Which rows its query takes; of what only moves the watermark, all."""
        table = self.table.operator.table
        return None if table.recomputes else table.where

    @cached_property
    def excluded(self) -> pa.Table:
        """The windows that the query leaves out, as they were when this was first asked."""
        table = self.table
        return excluded_windows(table.changes.existing(), table.operator, table.generation)


def start_aggregate(spark: SparkSession, plan: Aggregate, progress: Progress) -> Running:
    """Start the query; it ends by itself when its inputs, as they are now, have been read."""
    streamed = streamed_operator(plan.table.operator, plan.excluded)
    if isinstance(streamed, StreamedJoins):
        inputs: Inputs = _both_sides(spark, plan, streamed)
    else:
        bronze, pipeline = plan.table.bronze, plan.table.pipeline
        inputs = {BRONZE: input_stream(spark, bronze, pipeline, plan.since, plan.where)}
    emitted = event_times(inputs) if plan.table.operator.table.recomputes else streamed.plan(inputs)
    writer = emitted.writeStream
    writer = writer.outputMode(plan.table.operator.table.output_mode)
    writer = writer.queryName(f"{plan.table.pipeline.name}.{plan.name}")
    writer = writer.option("checkpointLocation", spark_uri(plan.table.checkpoint.uri))

    def write(windows: DataFrame, batch: int) -> None:
        with progress.batch(plan.name, batch) as report:
            _write(plan, windows, batch, report)

    # A query keeps the settings that it starts with, and each other one has its own.
    with settings_of(spark, streamed.settings):
        return start_query(writer, write)


@contextmanager
def settings_of(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """The session with these settings, and afterwards with its own again."""
    before = {name: spark.conf.getAll.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, own in before.items():
            if own is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, own)


def tick_clocks(plan: Aggregate) -> tuple[Tick, ...]:
    """Append a row to each clock of a join, before its query starts."""
    return tuple(
        tick(clock, plan.table.state.close_ms, plan.table.run_id) for clock in plan.table.clocks
    )


def _both_sides(spark: SparkSession, plan: Aggregate, streamed: StreamedJoins) -> Inputs:
    found = {}
    sides = (streamed.left_columns, streamed.right_columns)
    for name, clock, needed in zip(
        plan.table.operator.inputs, plan.table.clocks, sides, strict=True
    ):
        bronze = clock.bronze.existing().schema()
        # Of what is only followed, the event time is all that is read.
        known = [] if plan.table.operator.table.recomputes else [one.name for one in bronze.fields]
        since = None if plan.since is None else plan.since - plan.table.operator.needed_before(name)
        where = plan.where if name == BRONZE else None
        found[name] = clocked_stream(spark, clock, needed(known), since, where)
    return found


@shared_handles()
def _write(plan: Aggregate, windows: DataFrame, batch: int, report: BatchReport) -> None:
    query_id = plan.table.query
    changes = plan.table.changes.existing()
    known, appended = changes.version(), changes.transaction_version(query_id)
    report.watermark_ms = plan.table.checkpoint.offsets(batch).watermark_ms
    done = (appended is not None and appended >= batch) or not _may_emit(plan, batch)
    if done or plan.table.operator.table.recomputes:
        # Nothing to append, but the tasks must run: they write the batch's state, and tell the
        # engine the newest event time.
        windows.write.format("noop").mode("append").save()
    if done:
        return
    if plan.table.operator.table.recomputes:
        _append_nothing(plan, batch)
    elif plan.table.operator.table.output_mode == "update":
        note = EmittedNote(query=query_id, batch=batch, close_ms=plan.table.state.close_ms)
        _append(plan, windows, batch, note, _emits_few(plan, batch))
    else:
        _append_emitted(plan, windows, batch)
    report.windows = rows_appended(plan.table.changes.existing(), known)


def _append_nothing(plan: Aggregate, batch: int) -> None:
    """A commit without rows, as `_append_emitted` makes one: it says that the batch is here, and
    what of gold was closed before it."""
    query = plan.table.query
    note = EmittedNote(query=query, batch=batch, close_ms=plan.table.state.close_ms)
    nothing = schema_of(plan.table.changes.existing()).empty_table()
    _commit(plan, nothing, note, few=True)


def _may_emit(plan: Aggregate, batch: int) -> bool:
    return plan.table.operator.traits.emits_without_input or plan.table.checkpoint.has_new_input(
        batch
    )


def _append_emitted(plan: Aggregate, windows: DataFrame, batch: int) -> None:
    """Append what append or complete mode emits, also nothing.

    Kept while it is counted: the sum over all that is emitted goes into the commit for the ledger.
    A commit of no windows says that the batch is here: without it nobody could tell that `changes`
    lost one (`runs/losses.py`).
    """
    emitted, query_id = windows.persist(), plan.table.query
    try:
        total, opened = emitted.agg(F.sum("rows"), F.count_if(_is_open(plan))).collect()[0]
        note = EmittedNote(
            query=query_id, batch=batch, close_ms=plan.table.state.close_ms, emitted_rows=total or 0
        )
        _append(plan, emitted, batch, note, opened <= FEW_ROWS)
    finally:
        emitted.unpersist()


def _emits_few(plan: Aggregate, batch: int) -> bool:
    """How many rows a batch read is not known where bronze's log was cleaned of them: then what it
    emits may be many."""
    checkpoint = plan.table.checkpoint
    first = checkpoint.delta_version(batch - 1) if batch else 0
    bronze = plan.table.bronze.existing()
    rows = rows_between(bronze, first, checkpoint.delta_version(batch) - 1)
    per_row = plan.table.operator.traits.emits_per_row
    return rows is not None and per_row is not None and rows * per_row <= FEW_ROWS


def _append(plan: Aggregate, windows: DataFrame, batch: int, note: EmittedNote, few: bool) -> None:
    rows = _appended(plan, windows).select(
        "*",
        _constant("stream", "string").alias("cause"),
        _constant(plan.table.generation, "bigint").alias("generation"),
        _constant(plan.table.run_id, "string").alias("run"),
        _constant(batch, "bigint").alias("batch"),
    )
    _commit(plan, rows, note, few)


@commit_point(
    "windows of the stream",
    after_a_kill="before: the batch runs again; after: it runs again for its state, and appends "
    "nothing",
)
def _commit(plan: Aggregate, rows: DataFrame | pa.Table, note: EmittedNote, few: bool) -> None:
    # Either way all tasks of the batch run, and write its state.
    rows = rows.toArrow() if few and isinstance(rows, DataFrame) else rows
    append(rows, plan.table.changes, note.query, note.batch, note)


def _appended(plan: Aggregate, windows: DataFrame) -> DataFrame:
    """Of what is emitted, what is still open and not set aside: the state of that is an old one."""
    opened = windows.where(_is_open(plan))
    if not plan.excluded.num_rows:
        return opened
    excluded = F.broadcast(frame_of(windows.sparkSession, plan.excluded))
    same = [
        opened[f"`{name}`"].eqNullSafe(excluded[f"`{name}`"])
        for name in plan.table.operator.identity
    ]
    return opened.join(excluded, same, "left_anti")


def _is_open(plan: Aggregate) -> Column:
    return F.col("window_end") > F.timestamp_millis(F.lit(plan.table.state.close_ms))


def _constant(value: str | int, type_name: str) -> Column:
    return F.lit(value).cast(type_name)
