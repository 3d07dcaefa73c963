"""Ingest: each row of the source is judged once, and goes to bronze or to rejects.

The life of a batch:
1. the engine lists new files and writes them to `sources/0/N`, then `offsets/N`;
2. its files are read and judged, and the verdicts counted;
3. accepted rows are appended to bronze, with the file verdicts in the commit's metadata;
4. rejected rows are appended to rejects;
5. the engine writes `commits/N`.
Both appends carry the transaction (query, N), so that a repeat writes nothing twice. Where
there is nothing to append there is no commit. Killed before 3, the batch is judged anew from
the files as they are; between 3 and 4, its rejects are judged again from the files that have
not changed; after 4, there is nothing to do.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidemark.checkpoint.log import Checkpoint
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.source_files import SourceFiles
from tidemark.pipeline.storage_options import spark_uri
from tidemark.storage.files import stat_files
from tidemark.streaming.batch_files import (
    BatchFiles,
    first_reading,
    no_longer_readable,
    repeated_reading,
)
from tidemark.streaming.batch_rows import accepted_rows, rejected_files, rejected_rows
from tidemark.streaming.committed import (
    Committed,
    check_new_checkpoint,
    commit_note,
    committed_before,
)
from tidemark.streaming.judge import judge
from tidemark.streaming.progress import BatchReport, Progress
from tidemark.streaming.queries import Running, start_query
from tidemark.streaming.source import find_unreadable, read_lines, stream_of_files
from tidemark.tables.result import Rows

# Below this many rows a batch is written as one file for each date.
_ONE_FILE_ROWS = 200_000


@dataclass
class Ingest:
    """One run's reading of the source. `rows` adds up what its batches judged."""

    pipeline: Pipeline
    source: SourceFiles
    bronze: str
    rejects: str
    checkpoint: Checkpoint
    rows: Rows = field(default_factory=Rows)


@dataclass(frozen=True)
class _Batch:
    """One batch of the source: its number, and its own time, the same when it is repeated."""

    ingest: Ingest
    number: int
    time_ms: int


@dataclass(frozen=True)
class _Judged:
    """The judged rows of a batch, kept while it is written; None where no file was read."""

    rows: DataFrame | None
    files: BatchFiles
    counts: Rows


def start_ingest(spark: SparkSession, ingest: Ingest, progress: Progress) -> Running:
    """Start the query; it ends by itself when the files that are there now have been read.

    Raises TableMismatch where the tables hold rows and the checkpoint is not there.
    """
    check_new_checkpoint(ingest.checkpoint, ingest.bronze, ingest.rejects)
    stream = stream_of_files(spark, ingest.source, ingest.pipeline.advanced.max_files_per_batch)

    def write(_: DataFrame, number: int) -> None:
        with progress.batch("ingest", number) as report:
            time_ms = ingest.checkpoint.offsets(number).batch_time_ms
            _write_batch(spark, _Batch(ingest, number, time_ms), report)

    writer = stream.writeStream.queryName(f"{ingest.pipeline.name}.ingest")
    return start_query(writer.option("checkpointLocation", spark_uri(ingest.checkpoint.uri)), write)


def _write_batch(spark: SparkSession, batch: _Batch, report: BatchReport) -> None:
    ingest = batch.ingest
    committed = committed_before(ingest.checkpoint, ingest.bronze, ingest.rejects, batch.number)
    if committed and committed.is_complete:
        report.note = "committed by an earlier try"
        _count(ingest, report, committed.rows)
        return
    files = _files_to_read(batch, committed)
    judged = _judge_files(spark, batch, files, repeated=committed is not None)
    try:
        if committed is None:
            _append_bronze(batch, judged)
            _count(ingest, report, judged.counts)
        else:
            report.note = "accepted rows were committed by an earlier try"
            judged = replace(judged, counts=_counts_of_repeat(committed.rows, judged.counts))
            _count(ingest, report, judged.counts)
        _append_rejects(spark, batch, judged)
    finally:
        if judged.rows is not None:
            judged.rows.unpersist()


def _count(ingest: Ingest, report: BatchReport, rows: Rows) -> None:
    ingest.rows += rows
    report.rows, report.rejected = rows.read, rows.rejected


def _counts_of_repeat(first: Rows, repeat: Rows) -> Rows:
    """Accepted as committed, rejected as judged now (a changed file is one reject)."""
    read = first.accepted + sum(repeat.rejected.values())
    return Rows(read=read, accepted=first.accepted, rejected=repeat.rejected)


def _files_to_read(batch: _Batch, committed: Committed | None) -> BatchFiles:
    checkpoint = batch.ingest.checkpoint
    files = checkpoint.source_files(batch.number)
    facts = stat_files([file.uri for file in files], checkpoint.options)
    if committed is None:
        return first_reading(files, facts)
    return repeated_reading(files, facts, committed.files)


def _judge_files(spark: SparkSession, batch: _Batch, files: BatchFiles, repeated: bool) -> _Judged:
    """The judged rows, without the files that cannot be read to their end."""
    try:
        return _judged(spark, batch, files)
    except (PySparkException, Py4JJavaError):
        bad = find_unreadable(spark, files.read)
        if not bad:
            raise
        verdicts = [no_longer_readable(verdict) for verdict in bad] if repeated else bad
        return _judged(spark, batch, files.without(verdicts))


def _judged(spark: SparkSession, batch: _Batch, files: BatchFiles) -> _Judged:
    if not files.read:
        return _Judged(None, files, _counted({}, files))
    lines = read_lines(spark, files.read)
    rows = judge(lines, batch.ingest.pipeline, batch.time_ms).persist()
    try:
        by_reason = {row[0]: row[1] for row in rows.groupBy("reason").count().collect()}
    except BaseException:
        rows.unpersist()
        raise
    return _Judged(rows, files, _counted(by_reason, files))


def _counted(by_reason: dict[str | None, int], files: BatchFiles) -> Rows:
    rejected = Counter({reason: n for reason, n in by_reason.items() if reason is not None})
    rejected.update(verdict.reason for verdict in files.verdicts)
    accepted = by_reason.get(None, 0)
    return Rows(
        read=accepted + rejected.total(), accepted=accepted, rejected=dict(sorted(rejected.items()))
    )


def _append_bronze(batch: _Batch, judged: _Judged) -> None:
    if judged.rows is None or not judged.counts.accepted:
        return
    rows = accepted_rows(judged.rows, batch.ingest.pipeline.source, batch.number, batch.time_ms)
    if judged.counts.accepted <= _ONE_FILE_ROWS:
        rows = rows.coalesce(1)
    _append(rows, batch, batch.ingest.bronze, judged)


def _append_rejects(spark: SparkSession, batch: _Batch, judged: _Judged) -> None:
    if not judged.counts.rejected:
        return
    rows = rejected_files(spark, judged.files, batch.number, batch.time_ms)
    if judged.rows is not None:
        source = batch.ingest.pipeline.source
        lines = rejected_rows(judged.rows, source, batch.number, batch.time_ms)
        rows = lines.unionByName(rows)
    _append(rows.coalesce(1), batch, batch.ingest.rejects, judged)


def _append(rows: DataFrame, batch: _Batch, place: str, judged: _Judged) -> None:
    query = str(batch.ingest.checkpoint.query_id())
    note = commit_note(query, batch.number, judged.counts, judged.files)
    writer = rows.write.format("delta").mode("append").option("userMetadata", note)
    writer = writer.option("txnAppId", query).option("txnVersion", batch.number)
    writer.save(spark_uri(place))
