"""Judge one batch of the source: its rows, its files, and how many there were to judge.

`read` is counted in the files themselves, apart from the verdicts: a row that judging lost or
doubled shows as a difference between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.pipeline.model import Pipeline, Unique
from tidemark.pipeline.storage_options import spark_uri
from tidemark.streaming.append import FEW_ROWS
from tidemark.streaming.ingest.accepted_before import accepted_before, dates_within
from tidemark.streaming.ingest.batch_files import BatchFiles, no_longer_readable
from tidemark.streaming.ingest.duplicates import (
    DUPLICATE,
    accepted_rows_of,
    contested_ids,
    find_duplicates,
    horizon_micros,
    reject_duplicates,
    with_position,
    without_duplicates,
)
from tidemark.streaming.ingest.judge import judge
from tidemark.streaming.ingest.source import find_unreadable, read_lines
from tidemark.tables.results.result import Rows

# Lines up to this size together pass through the driver.
_FEW_BYTES = 32_000_000
# Up to this many rows are sent to every task, instead of the batch being sorted to meet them.
_BROADCAST_ROWS = 200_000


@dataclass(frozen=True)
class Batch:
    """One batch of the source: its number, and its own time, the same when it is repeated."""

    pipeline: Pipeline
    bronze: str
    number: int
    time_ms: int


@dataclass(frozen=True)
class JudgedBatch:
    """The judged rows, with `_repeats`; None where no file was read. Release them in the end.

    `bytes` is the size of the lines that were judged.
    """

    rows: DataFrame | None
    files: BatchFiles
    counts: Rows
    bytes: int = 0
    persisted: DataFrame | None = None

    @property
    def are_few(self) -> bool:
        """Few enough to pass through the driver."""
        return self.counts.read <= FEW_ROWS and self.bytes <= _FEW_BYTES

    def release(self) -> None:
        if self.persisted is not None:
            self.persisted.unpersist()


def judge_batch(
    spark: SparkSession, batch: Batch, files: BatchFiles, repeated: bool
) -> JudgedBatch:
    """Judge the batch without the files that cannot be read to their end.

    `repeated`: bronze of the batch is committed, so such a file is one that changed since.
    """
    try:
        return _judged(spark, batch, files)
    except (PySparkException, Py4JJavaError):
        bad = find_unreadable(spark, files.read)
        if not bad:
            raise
        verdicts = [no_longer_readable(verdict) for verdict in bad] if repeated else bad
        return _judged(spark, batch, files.without(verdicts))


def _judged(spark: SparkSession, batch: Batch, files: BatchFiles) -> JudgedBatch:
    if not files.read:
        return JudgedBatch(None, files, _rows(0, Counter(), files))
    unique = batch.pipeline.source.unique
    lines = read_lines(spark, files.read)
    numbered = with_position(lines) if unique else lines
    judged = judge(numbered, batch.pipeline, batch.time_ms).persist()
    try:
        rows, by_reason = _without_repeats(spark, batch, judged, files)
        number, size = lines.agg(F.count("*"), F.sum(F.octet_length("_value"))).collect()[0]
        counts = _rows(number, by_reason, files)
    except BaseException:
        judged.unpersist()
        raise
    return JudgedBatch(rows, files, counts, size or 0, persisted=judged)


def _without_repeats(
    spark: SparkSession, batch: Batch, judged: DataFrame, files: BatchFiles
) -> tuple[DataFrame, Counter[str | None]]:
    """The rows with duplicates rejected, and how many there are by reason (None: accepted)."""
    unique = batch.pipeline.source.unique
    if unique is None:
        counts = judged.groupBy("_reason").count().collect()
        return without_duplicates(judged), Counter(dict(counts))
    by_reason, times = _counted(judged, batch)
    duplicates = _duplicates(spark, batch, judged, files, times, unique) if times else None
    if duplicates is None:
        return without_duplicates(judged), by_reason
    number = duplicates.count()
    by_reason.update({None: -number, DUPLICATE: number})
    return reject_duplicates(judged, _small(duplicates, number), unique), by_reason


def _counted(judged: DataFrame, batch: Batch) -> tuple[Counter[str | None], list[tuple[int, int]]]:
    """Rows by reason, and the first and last event time of each date, in microseconds."""
    time = F.unix_micros(F.col(f"`{batch.pipeline.source.event_time.column}`"))
    accepted_date = F.when(F.col("_reason").isNull(), F.col("_event_date"))
    found = judged.groupBy("_reason", accepted_date.alias("date"))
    rows = found.agg(F.count("*"), F.min(time), F.max(time)).collect()
    by_reason: Counter[str | None] = Counter()
    for reason, _, number, _, _ in rows:
        by_reason[reason] += number
    return by_reason, [(first, last) for reason, *_, first, last in rows if reason is None]


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
    bronze = spark.read.format("delta").load(spark_uri(batch.bronze))
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
