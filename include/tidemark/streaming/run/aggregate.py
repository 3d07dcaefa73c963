"""Aggregate: one query for each table reads bronze as a stream and appends to `changes`.

The life of a batch:
1. the engine plans it from bronze's new files, and writes `offsets/N`;
2. the windows that it emits are appended to `changes`, under the transaction (query, N), but for
   those that are closed already: they change only by being computed again from bronze;
3. the engine commits state and `commits/N`.
Killed between 2 and 3, the batch runs again; its append is known by its transaction and left
out, but the batch still runs, because its tasks write the state that the next batch needs.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.checkpoint.log import Checkpoint
from tidemark.commit_point import commit_point
from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.model import Pipeline, Table
from tidemark.pipeline.settings.storage_options import spark_uri
from tidemark.storage.delta.commits import rows_appended, rows_between
from tidemark.storage.delta.notes import EmittedNote
from tidemark.storage.delta.place import TablePlace
from tidemark.streaming.progress import BatchReport, Progress
from tidemark.streaming.run.append import FEW_ROWS, Append, append
from tidemark.streaming.run.queries import Running, start_query

# The Delta source's default is 1,000 files.
_NO_LIMIT = 2**31 - 1


@dataclass(frozen=True)
class Aggregate:
    """One table's query: where it reads, where it appends, and under which run.

    `close_ms` is the close frontier that gold holds, in milliseconds; 0 for none.
    """

    pipeline: Pipeline
    table_name: str
    bronze: TablePlace
    changes: TablePlace
    checkpoint: Checkpoint
    generation: int
    run_id: str
    close_ms: int

    @property
    def table(self) -> Table:
        return self.pipeline.tables[self.table_name]


def aggregate(rows: DataFrame, table: Table) -> DataFrame:
    """The table's windows over `rows`: window_start, window_end, keys, measures, rows.

    Streaming and batch alike: the same plan is the stream's and the recomputation's.
    """
    event_window = F.window(
        "_event_time", duration_text(table.window.length), duration_text(table.window.slide)
    )
    keys = [F.col(f"`{key}`") for key in table.group_by]
    measures = [F.expr(sql).alias(name) for name, sql in table.measures.items()]
    grouped = rows.groupBy(event_window.alias("_window"), *keys)
    return grouped.agg(*measures, F.count(F.lit(1)).alias("rows")).select(
        F.col("_window.start").alias("window_start"),
        F.col("_window.end").alias("window_end"),
        *keys,
        *[F.col(f"`{name}`") for name in table.measures],
        "rows",
    )


def with_event_time(bronze: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Bronze with its event time as `_event_time`, whatever the pipeline calls it."""
    return bronze.withColumn("_event_time", F.col(f"`{pipeline.source.event_time.column}`"))


def start_aggregate(spark: SparkSession, plan: Aggregate, progress: Progress) -> Running:
    """Start the query; it ends by itself when bronze, as it is now, has been read.

    All that is new is one batch: a batch of whole versions of bronze is what its late rows are
    counted by, and files cut into several batches could come out of order.
    """
    reader = spark.readStream.format("delta").option("maxFilesPerTrigger", _NO_LIMIT)
    # Retention drops whole partitions of bronze, which the stream has long read.
    bronze = reader.option("skipChangeCommits", "true").load(spark_uri(plan.bronze.uri))
    delay = duration_text(plan.pipeline.watermark.delay)
    rows = with_event_time(bronze, plan.pipeline).withWatermark("_event_time", delay)
    writer = aggregate(rows, plan.table).writeStream.outputMode(plan.table.output_mode)
    writer = writer.queryName(f"{plan.pipeline.name}.{plan.table_name}")
    writer = writer.option("checkpointLocation", spark_uri(plan.checkpoint.uri))

    def write(windows: DataFrame, batch: int) -> None:
        with progress.batch(plan.table_name, batch) as report:
            _write(plan, windows, batch, report)

    return start_query(writer, write)


def _write(plan: Aggregate, windows: DataFrame, batch: int, report: BatchReport) -> None:
    query_id = str(plan.checkpoint.query_id())
    changes = plan.changes.existing()
    appended = changes.transaction_version(query_id)
    report.watermark_ms = plan.checkpoint.offsets(batch).watermark_ms
    if (appended is not None and appended >= batch) or not _may_emit(plan, batch):
        # Nothing to append, but the tasks must run: they write the batch's state.
        windows.write.format("noop").mode("append").save()
    elif plan.table.output_mode == "update":
        note = EmittedNote(query=query_id, batch=batch, close_ms=plan.close_ms)
        _append(plan, windows, batch, note, _emits_few(plan, batch))
        report.windows = rows_appended(changes, changes.version())
    else:
        report.windows = _append_emitted(plan, windows, batch)


def _may_emit(plan: Aggregate, batch: int) -> bool:
    """A batch without input frees state; only in append mode it emits what it frees."""
    return plan.table.output_mode == "append" or plan.checkpoint.has_new_input(batch)


def _append_emitted(plan: Aggregate, windows: DataFrame, batch: int) -> int:
    """Append what append or complete mode emits; the number of windows.

    Kept while it is counted: complete mode's sum over all windows goes into the commit for the
    ledger, and append mode often emits nothing, which needs no commit.
    """
    emitted, query_id = windows.persist(), str(plan.checkpoint.query_id())
    try:
        is_open = _still_open(plan)
        total, kept = emitted.agg(F.sum("rows"), F.count_if(is_open)).collect()[0]
        note = EmittedNote(
            query=query_id, batch=batch, close_ms=plan.close_ms, emitted_rows=total or 0
        )
        if kept or plan.table.output_mode == "complete":
            _append(plan, emitted, batch, note, kept <= FEW_ROWS)
        return int(kept)
    finally:
        emitted.unpersist()


def _emits_few(plan: Aggregate, batch: int) -> bool:
    """In update mode a batch emits no more windows than its rows are in. How many rows it read
    is not known where bronze's log was cleaned of them: then they may be many."""
    checkpoint, window = plan.checkpoint, plan.table.window
    first = checkpoint.delta_version(batch - 1) if batch else 0
    bronze = plan.bronze.existing()
    rows = rows_between(bronze, first, checkpoint.delta_version(batch) - 1)
    return rows is not None and rows * -(-window.length // window.slide) <= FEW_ROWS


@commit_point(
    "windows of the stream",
    after_a_kill="before: the batch runs again; after: it runs again for its state, and appends "
    "nothing",
)
def _append(plan: Aggregate, windows: DataFrame, batch: int, note: EmittedNote, few: bool) -> None:
    rows = windows.where(_still_open(plan)).select(
        "*",
        _constant("stream", "string").alias("cause"),
        _constant(plan.generation, "bigint").alias("generation"),
        _constant(plan.run_id, "string").alias("run"),
        _constant(batch, "bigint").alias("batch"),
    )
    query = str(plan.checkpoint.query_id())
    # Either way all tasks of the batch run, and write its state.
    to = Append(plan.changes, query, batch, note)
    append(rows.toArrow() if few else rows, to)


def _still_open(plan: Aggregate) -> Column:
    return F.col("window_end") > F.timestamp_millis(F.lit(plan.close_ms))


def _constant(value: str | int, type_name: str) -> Column:
    return F.lit(value).cast(type_name)
