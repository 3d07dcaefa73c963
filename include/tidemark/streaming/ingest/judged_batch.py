"""Judge one batch of the source: its rows, its parts, and how many rows there were to judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.pipeline.model import Unique
from tidemark.pipeline.settings.storage_options import spark_uri
from tidemark.sources.source import Reading
from tidemark.storage.delta.rows import Rows
from tidemark.streaming.ingest.accepted_before import accepted_before, dates_within
from tidemark.streaming.ingest.batch import Batch
from tidemark.streaming.ingest.batch_rows import (
    REJECTED,
    accepted_rows,
    accepted_rows_and_lines,
    collected_rows,
    lines_apart,
    rejected_parts,
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
from tidemark.streaming.ingest.judge import judge_lines
from tidemark.streaming.ingest.line_count import count_lines
from tidemark.streaming.run.append import FEW_ROWS, BatchRows, WrittenRows, write_apart, write_rows

# Lines up to this size together pass through the driver.
_FEW_BYTES = 32_000_000
# Up to this many rows are written as one file for each date.
_ONE_FILE_ROWS = 200_000
# Up to this many rows are sent to every task, instead of the batch being sorted to meet them.
_BROADCAST_ROWS = 200_000


@dataclass(frozen=True)
class JudgedBatch:
    """A batch's rows in the columns of bronze and of rejects, verdicts on parts among these.

    `counts` says how many there are of each. `accepted` is None where the rows are committed
    already. Release them in the end.
    """

    accepted: pa.Table | WrittenRows | None
    rejected: BatchRows
    reading: Reading
    counts: Rows
    persisted: Sequence[DataFrame] = ()

    def release(self) -> None:
        for rows in self.persisted:
            rows.unpersist()


def judge_batch(spark: SparkSession, batch: Batch, reading: Reading, repeated: bool) -> JudgedBatch:
    """Judge the batch without the parts that cannot be read to their end.

    `repeated`: bronze of the batch is committed, so such a part is one that changed since.
    """
    try:
        return _judged(spark, batch, reading, repeated)
    except (PySparkException, Py4JJavaError):
        left = batch.streamed.without_unreadable(
            spark, batch.checkpoint, batch.number, reading, repeated
        )
        if left == reading:
            raise
        return _judged(spark, batch, left, repeated)


def _judged(spark: SparkSession, batch: Batch, reading: Reading, repeated: bool) -> JudgedBatch:
    if not reading.read:
        none, verdicts = pa.table({}), rejected_parts(reading, batch)
        return JudgedBatch(none, verdicts, reading, _rows(0, Counter(), reading))
    unique = batch.source.unique
    lines = batch.streamed.lines(spark, reading.read)
    count = batch.streamed.placed.counted(reading) or count_lines(lines)
    are_few = count.lines <= FEW_ROWS and count.bytes <= _FEW_BYTES
    judged = judge_lines(with_position(lines) if unique else lines, batch.rules, batch.time_ms)
    if unique is None:
        judged = without_duplicates(judged, batch.origin)
        if are_few:
            return _collected(batch, judged, reading, count.lines)
        return _of_many(spark, batch, judged, reading, count.lines, repeated)
    judged = judged.persist()
    try:
        rows = _without_repeats(spark, batch, judged, reading, unique)
        if are_few:
            found = _collected(batch, rows, reading, count.lines)
        else:
            found = _of_many(spark, batch, rows, reading, count.lines, repeated)
    except BaseException:
        judged.unpersist()
        raise
    return replace(found, persisted=(judged, *found.persisted))


def _of_many(
    spark: SparkSession,
    batch: Batch,
    judged: DataFrame,
    reading: Reading,
    lines: int,
    repeated: bool,
) -> JudgedBatch:
    """Accepted rows are written by Spark's tasks; of the others there are few, as a rule."""
    if repeated:
        accepted = None
        accepted_number = accepted_rows(judged, batch).count()
    else:
        accepted, judged = _accepted_written(spark, batch, judged, lines)
        accepted_number = accepted.number
    verdicts = rejected_parts(reading, batch)
    if accepted_number == lines:
        counts = _rows(lines, Counter({None: lines}), reading)
        return JudgedBatch(accepted, verdicts, reading, counts)
    rejected = rejected_rows(judged, batch).persist()
    try:
        counted = (
            rejected.groupBy("reason").agg(F.count("*"), F.sum(F.octet_length("raw"))).collect()
        )
        by_reason: dict[str | None, int] = {reason: rows for reason, rows, _ in counted}
        counts = _rows(lines, Counter({None: accepted_number, **by_reason}), reading)
        size = sum(size or 0 for *_, size in counted)
        few = sum(by_reason.values()) <= FEW_ROWS and size <= _FEW_BYTES
        together = _with_parts(spark, rejected, few, verdicts)
    except BaseException:
        rejected.unpersist()
        raise
    return JudgedBatch(accepted, together, reading, counts, (rejected,))


def _accepted_written(
    spark: SparkSession, batch: Batch, judged: DataFrame, lines: int
) -> tuple[WrittenRows, DataFrame]:
    """The accepted rows in files, and judged rows that have all of the rejected ones.

    One pass over the lines: those that are rejected are written apart, as they are, and judged once
    more, which gives the same. Whether a row repeats another is not told by its line alone; then
    the rows were kept for that, and are asked a second time.
    """

    def few_files(rows: DataFrame) -> DataFrame:
        return rows.coalesce(1) if lines <= _ONE_FILE_ROWS else rows

    if batch.source.unique is not None:
        rows = few_files(accepted_rows(judged, batch))
        return write_rows(rows, batch.bronze, batch.number), judged
    rows = few_files(accepted_rows_and_lines(judged, batch))
    accepted, apart = write_apart(rows, REJECTED, batch.bronze, batch.number)
    if apart:
        lines_again = lines_apart(spark, apart, batch.origin)
        judged = judge_lines(lines_again, batch.rules, batch.time_ms)
        judged = without_duplicates(judged, batch.origin)
    return accepted, judged


def _with_parts(
    spark: SparkSession, rejected: DataFrame, few: bool, verdicts: pa.Table
) -> BatchRows:
    """Rejected lines with the verdicts on parts: in the driver where they are few."""
    if few:
        return _with_verdicts(rejected.toArrow(), verdicts)
    if verdicts.num_rows:
        # From Arrow: a list of rows would be read by Python workers, which take a second to start.
        rejected = rejected.unionByName(spark.createDataFrame(verdicts, rejected.schema))
    return rejected.coalesce(1)


def _collected(batch: Batch, judged: DataFrame, reading: Reading, lines: int) -> JudgedBatch:
    """Few rows, judged in one pass that brings them into the driver."""
    accepted, rejected = collected_rows(judged, batch)
    by_reason = Counter({None: accepted.num_rows, **Counter(rejected["reason"].to_pylist())})
    verdicts = rejected_parts(reading, batch)
    counts = _rows(lines, by_reason, reading)
    return JudgedBatch(accepted, _with_verdicts(rejected, verdicts), reading, counts)


def _with_verdicts(rejected: pa.Table, verdicts: pa.Table) -> pa.Table:
    return pa.concat_tables([rejected.cast(verdicts.schema), verdicts])


def _without_repeats(
    spark: SparkSession, batch: Batch, judged: DataFrame, reading: Reading, unique: Unique
) -> DataFrame:
    """The rows with duplicates rejected."""
    times = _times(judged, batch)
    duplicates = _duplicates(spark, batch, judged, reading, times, unique) if times else None
    if duplicates is None:
        return without_duplicates(judged, batch.origin)
    return reject_duplicates(judged, _small(duplicates, duplicates.count()), unique, batch.origin)


def _times(judged: DataFrame, batch: Batch) -> list[tuple[int, int]]:
    """The first and last event time of each date's accepted rows, in microseconds."""
    time = F.unix_micros(F.col(f"`{batch.source.event_time.column}`"))
    dates = judged.where(F.col("_reason").isNull()).groupBy("_event_date")
    found = dates.agg(F.min(time).alias("first"), F.max(time).alias("last"))
    return [(row["first"], row["last"]) for row in found.collect()]


def _duplicates(
    spark: SparkSession,
    batch: Batch,
    judged: DataFrame,
    reading: Reading,
    times: Sequence[tuple[int, int]],
    unique: Unique,
) -> DataFrame | None:
    """The batch's duplicates; None where no id is contested."""
    source, origin = batch.source, batch.origin
    dates = dates_within(times, horizon_micros(unique))
    bronze = spark.read.format("delta").load(spark_uri(batch.bronze.uri))
    not_read = [verdict.part for verdict in reading.verdicts]
    is_not_read = batch.streamed.is_from(not_read) if not_read else F.lit(False)
    before = accepted_before(bronze, batch.number, is_not_read, dates)
    accepted = accepted_rows_of(before, source, unique, origin)
    ids = contested_ids(judged, accepted, source, unique, origin)
    # Cut off from bronze: an append to a table makes Spark compute what is persisted and was
    # read from that table again, and the copies are never released.
    ids = ids.localCheckpoint()
    number = ids.count()
    if not number:
        return None
    return find_duplicates(judged, _small(ids, number), source, unique, origin).localCheckpoint()


def _small(rows: DataFrame, number: int) -> DataFrame:
    return F.broadcast(rows) if number <= _BROADCAST_ROWS else rows


def _rows(lines: int, by_reason: Counter[str | None], reading: Reading) -> Rows:
    rejected = Counter({reason: n for reason, n in by_reason.items() if reason is not None})
    rejected.update(verdict.reason for verdict in reading.verdicts)
    return Rows(
        read=lines + len(reading.verdicts),
        accepted=by_reason[None],
        rejected=dict(sorted(rejected.items())),
    )
