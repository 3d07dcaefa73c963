"""Judge one batch of the source: its rows, its files, and how many there were to judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.pipeline.model import Pipeline, Unique
from tidemark.pipeline.settings.storage_options import spark_uri
from tidemark.sources.files.batch_files import BatchFiles, no_longer_readable
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.delta.rows import Rows
from tidemark.streaming.ingest.accepted_before import accepted_before, dates_within
from tidemark.streaming.ingest.batch_rows import (
    REJECTED,
    accepted_rows,
    accepted_rows_and_lines,
    collected_rows,
    lines_apart,
    rejected_files,
    rejected_rows,
)
from tidemark.streaming.ingest.duplicates import (
    accepted_rows_of,
    contested_ids,
    find_duplicates,
    horizon_micros,
    reject_duplicates,
    with_position,
    without_duplicates,
)
from tidemark.streaming.ingest.judge import Rules, judge_lines
from tidemark.streaming.ingest.line_count import count_lines, count_plain
from tidemark.streaming.run.append import FEW_ROWS, BatchRows, WrittenRows, write_apart, write_rows
from tidemark.streaming.sources.files import find_unreadable, read_source_lines

# Lines up to this size together pass through the driver.
_FEW_BYTES = 32_000_000
# Up to this many rows are written as one file for each date.
_ONE_FILE_ROWS = 200_000
# Up to this many rows are sent to every task, instead of the batch being sorted to meet them.
_BROADCAST_ROWS = 200_000


@dataclass(frozen=True)
class Batch:
    """One batch of the source: its number, and its own time, the same when it is repeated."""

    pipeline: Pipeline
    rules: Rules
    bronze: TablePlace
    number: int
    time_ms: int


@dataclass(frozen=True)
class JudgedBatch:
    """A batch's rows in the columns of bronze and of rejects, verdicts on files among these.

    `counts` says how many there are of each. `accepted` is None where the rows are committed
    already. Release them in the end.
    """

    accepted: pa.Table | WrittenRows | None
    rejected: BatchRows
    files: BatchFiles
    counts: Rows
    persisted: Sequence[DataFrame] = ()

    def release(self) -> None:
        for rows in self.persisted:
            rows.unpersist()


def judge_batch(
    spark: SparkSession, batch: Batch, files: BatchFiles, repeated: bool
) -> JudgedBatch:
    """Judge the batch without the files that cannot be read to their end.

    `repeated`: bronze of the batch is committed, so such a file is one that changed since.
    """
    try:
        return _judged(spark, batch, files, repeated)
    except (PySparkException, Py4JJavaError):
        bad = find_unreadable(spark, files.read)
        if not bad:
            raise
        verdicts = [no_longer_readable(verdict) for verdict in bad] if repeated else bad
        return _judged(spark, batch, files.without(verdicts), repeated)


def _judged(spark: SparkSession, batch: Batch, files: BatchFiles, repeated: bool) -> JudgedBatch:
    if not files.read:
        none, verdicts = pa.table({}), rejected_files(files, batch.number, batch.time_ms)
        return JudgedBatch(none, verdicts, files, _rows(0, Counter(), files))
    unique = batch.pipeline.source.unique
    lines = read_source_lines(spark, files.read)
    count = count_plain(files.read, batch.bronze.options) or count_lines(lines)
    are_few = count.lines <= FEW_ROWS and count.bytes <= _FEW_BYTES
    judged = judge_lines(with_position(lines) if unique else lines, batch.rules, batch.time_ms)
    if unique is None:
        judged = without_duplicates(judged)
        if are_few:
            return _collected(batch, judged, files, count.lines)
        return _of_many(spark, batch, judged, files, count.lines, repeated)
    judged = judged.persist()
    try:
        rows = _without_repeats(spark, batch, judged, files, unique)
        if are_few:
            found = _collected(batch, rows, files, count.lines)
        else:
            found = _of_many(spark, batch, rows, files, count.lines, repeated)
    except BaseException:
        judged.unpersist()
        raise
    return replace(found, persisted=(judged, *found.persisted))


def _of_many(
    spark: SparkSession,
    batch: Batch,
    judged: DataFrame,
    files: BatchFiles,
    lines: int,
    repeated: bool,
) -> JudgedBatch:
    """Accepted rows are written by Spark's tasks; of the others there are few, as a rule."""
    source, number, time_ms = batch.pipeline.source, batch.number, batch.time_ms
    if repeated:
        accepted = None
        accepted_number = accepted_rows(judged, source, number, time_ms).count()
    else:
        accepted, judged = _accepted_written(spark, batch, judged, lines)
        accepted_number = accepted.number
    verdicts = rejected_files(files, number, time_ms)
    if accepted_number == lines:
        counts = _rows(lines, Counter({None: lines}), files)
        return JudgedBatch(accepted, verdicts, files, counts)
    rejected = rejected_rows(judged, source, number, time_ms).persist()
    try:
        counted = (
            rejected.groupBy("reason").agg(F.count("*"), F.sum(F.octet_length("raw"))).collect()
        )
        by_reason: dict[str | None, int] = {reason: rows for reason, rows, _ in counted}
        counts = _rows(lines, Counter({None: accepted_number, **by_reason}), files)
        size = sum(size or 0 for *_, size in counted)
        few = sum(by_reason.values()) <= FEW_ROWS and size <= _FEW_BYTES
        together = _with_files(spark, rejected, few, verdicts)
    except BaseException:
        rejected.unpersist()
        raise
    return JudgedBatch(accepted, together, files, counts, (rejected,))


def _accepted_written(
    spark: SparkSession, batch: Batch, judged: DataFrame, lines: int
) -> tuple[WrittenRows, DataFrame]:
    """The accepted rows in files, and judged rows that have all of the rejected ones.

    One pass over the lines: those that are rejected are written apart, as they are, and judged once
    more, which gives the same. Whether a row repeats another is not told by its line alone; then
    the rows were kept for that, and are asked a second time.
    """
    source, number, time_ms = batch.pipeline.source, batch.number, batch.time_ms

    def few_files(rows: DataFrame) -> DataFrame:
        return rows.coalesce(1) if lines <= _ONE_FILE_ROWS else rows

    if source.unique is not None:
        rows = few_files(accepted_rows(judged, source, number, time_ms))
        return write_rows(rows, batch.bronze, number), judged
    rows = few_files(accepted_rows_and_lines(judged, source, number, time_ms))
    accepted, apart = write_apart(rows, REJECTED, batch.bronze, number)
    if apart:
        judged = without_duplicates(judge_lines(lines_apart(spark, apart), batch.rules, time_ms))
    return accepted, judged


def _with_files(
    spark: SparkSession, rejected: DataFrame, few: bool, verdicts: pa.Table
) -> BatchRows:
    """Rejected lines with the verdicts on files: in the driver where they are few."""
    if few:
        return _with_verdicts(rejected.toArrow(), verdicts)
    if verdicts.num_rows:
        # From Arrow: a list of rows would be read by Python workers, which take a second to start.
        rejected = rejected.unionByName(spark.createDataFrame(verdicts, rejected.schema))
    return rejected.coalesce(1)


def _collected(batch: Batch, judged: DataFrame, files: BatchFiles, lines: int) -> JudgedBatch:
    """Few rows, judged in one pass that brings them into the driver."""
    source, number, time_ms = batch.pipeline.source, batch.number, batch.time_ms
    accepted, rejected = collected_rows(judged, source, number, time_ms)
    by_reason = Counter({None: accepted.num_rows, **Counter(rejected["reason"].to_pylist())})
    verdicts = rejected_files(files, number, time_ms)
    counts = _rows(lines, by_reason, files)
    return JudgedBatch(accepted, _with_verdicts(rejected, verdicts), files, counts)


def _with_verdicts(rejected: pa.Table, verdicts: pa.Table) -> pa.Table:
    return pa.concat_tables([rejected.cast(verdicts.schema), verdicts])


def _without_repeats(
    spark: SparkSession, batch: Batch, judged: DataFrame, files: BatchFiles, unique: Unique
) -> DataFrame:
    """The rows with duplicates rejected."""
    times = _times(judged, batch)
    duplicates = _duplicates(spark, batch, judged, files, times, unique) if times else None
    if duplicates is None:
        return without_duplicates(judged)
    return reject_duplicates(judged, _small(duplicates, duplicates.count()), unique)


def _times(judged: DataFrame, batch: Batch) -> list[tuple[int, int]]:
    """The first and last event time of each date's accepted rows, in microseconds."""
    time = F.unix_micros(F.col(f"`{batch.pipeline.source.event_time.column}`"))
    dates = judged.where(F.col("_reason").isNull()).groupBy("_event_date")
    found = dates.agg(F.min(time).alias("first"), F.max(time).alias("last"))
    return [(row["first"], row["last"]) for row in found.collect()]


def _duplicates(
    spark: SparkSession,
    batch: Batch,
    judged: DataFrame,
    files: BatchFiles,
    times: Sequence[tuple[int, int]],
    unique: Unique,
) -> DataFrame | None:
    """The batch's duplicates; None where no id is contested."""
    source = batch.pipeline.source
    dates = dates_within(times, horizon_micros(unique))
    bronze = spark.read.format("delta").load(spark_uri(batch.bronze.uri))
    not_read = [verdict.uri for verdict in files.verdicts]
    before = accepted_before(bronze, batch.number, not_read, dates)
    ids = contested_ids(judged, accepted_rows_of(before, source, unique), source, unique)
    # Cut off from bronze: an append to a table makes Spark compute what is persisted and was
    # read from that table again, and the copies are never released.
    ids = ids.localCheckpoint()
    number = ids.count()
    if not number:
        return None
    return find_duplicates(judged, _small(ids, number), source, unique).localCheckpoint()


def _small(rows: DataFrame, number: int) -> DataFrame:
    return F.broadcast(rows) if number <= _BROADCAST_ROWS else rows


def _rows(lines: int, by_reason: Counter[str | None], files: BatchFiles) -> Rows:
    rejected = Counter({reason: n for reason, n in by_reason.items() if reason is not None})
    rejected.update(verdict.reason for verdict in files.verdicts)
    return Rows(
        read=lines + len(files.verdicts),
        accepted=by_reason[None],
        rejected=dict(sorted(rejected.items())),
    )
