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

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import TableMismatch
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.source_files import SourceFiles
from tidemark.pipeline.storage_options import spark_uri
from tidemark.storage.files import stat_files
from tidemark.streaming.batch_files import (
    BatchFiles,
    FileVerdict,
    first_reading,
    repeated_reading,
)
from tidemark.streaming.judge import judge
from tidemark.streaming.progress import BatchReport, Progress
from tidemark.streaming.queries import Running, start_query
from tidemark.streaming.schemas import rejects_schema
from tidemark.streaming.source import find_unreadable, read_lines, stream_of_files
from tidemark.tables.create import open_table
from tidemark.tables.result import Rows

# Below this many rows a batch is written as one file for each date.
_ONE_FILE_ROWS = 200_000
_SEARCHED_COMMITS = 50


@dataclass
class Ingest:
    """One run's reading of the source. `rows` adds up what its batches judged."""

    pipeline: Pipeline
    source: SourceFiles
    bronze: str
    rejects: str
    checkpoint: Checkpoint
    rows: Rows = field(default_factory=Rows)

    @property
    def options(self) -> Mapping[str, str]:
        return self.checkpoint.options


def check_new_checkpoint(ingest: Ingest) -> None:
    """Refuse to begin a source anew over a bronze that already holds it.

    A lost or moved checkpoint would read every file again, and bronze would hold each row
    twice: the new query has an identity of its own, so its transactions hide nothing.
    """
    table = open_table(ingest.bronze, ingest.options)
    if table is None or ingest.checkpoint.query_id() is not None or table.version() == 0:
        return
    raise TableMismatch(
        f"{ingest.bronze} holds rows, but its checkpoint {ingest.checkpoint.uri} is not there. "
        "To begin anew would read every file a second time. Nothing was read. Restore the "
        "checkpoint, or move the pipeline's whole folder away to start from the source again."
    )


def start_ingest(spark: SparkSession, ingest: Ingest, progress: Progress) -> Running:
    """Start the query; it ends by itself when the files that are there now have been read."""
    stream = stream_of_files(spark, ingest.source, ingest.pipeline.advanced.max_files_per_batch)

    def write(_: DataFrame, batch: int) -> None:
        with progress.batch("ingest", batch) as report:
            _write_batch(spark, ingest, batch, report)

    writer = stream.writeStream.queryName(f"{ingest.pipeline.name}.ingest")
    return start_query(writer.option("checkpointLocation", spark_uri(ingest.checkpoint.uri)), write)


@dataclass(frozen=True)
class _Committed:
    """What an earlier try of a batch has committed; `files` with bronze."""

    bronze: bool
    rejects: bool
    rows: Rows
    files: BatchFiles


def _write_batch(spark: SparkSession, ingest: Ingest, batch: int, report: BatchReport) -> None:
    committed = _committed(ingest, batch)
    if committed and _is_complete(committed):
        report.note = "committed by an earlier try"
        return _count(ingest, report, committed.rows)
    files = _files_to_read(ingest, batch, committed)
    judged, files, rows = _judge_files(spark, ingest, batch, files)
    try:
        if committed is None:
            _append_bronze(ingest, batch, judged, files, rows)
            _count(ingest, report, rows)
        else:
            report.note = "accepted rows were committed by an earlier try"
            _count(ingest, report, _rows_of_repeat(committed.rows, rows))
        _append_rejects(spark, ingest, batch, judged, files, rows)
    finally:
        if judged is not None:
            judged.unpersist()
    return None


def _count(ingest: Ingest, report: BatchReport, rows: Rows) -> None:
    ingest.rows += rows
    report.rows, report.rejected = rows.read, rows.rejected


def _rows_of_repeat(first: Rows, repeat: Rows) -> Rows:
    """Accepted as committed, rejected as judged now (a changed file is one reject)."""
    read = first.accepted + sum(repeat.rejected.values())
    return Rows(read=read, accepted=first.accepted, rejected=repeat.rejected)


def _is_complete(committed: _Committed) -> bool:
    return committed.rejects or not sum(committed.rows.rejected.values())


def _committed(ingest: Ingest, batch: int) -> _Committed | None:
    """What the tables say of an earlier try of this batch; None: nothing is committed."""
    query = ingest.checkpoint.query_id()
    notes = {
        place: _commit_note(ingest, place, str(query), batch)
        for place in (ingest.rejects, ingest.bronze)
    }
    note = notes[ingest.rejects] or notes[ingest.bronze]
    if note is None:
        return None
    verdicts = tuple(FileVerdict(*entry) for entry in note["files"])
    return _Committed(
        bronze=notes[ingest.bronze] is not None,
        rejects=notes[ingest.rejects] is not None,
        rows=Rows(**note["rows"]),
        files=BatchFiles((), verdicts, note["seen_ms"]),
    )


def _commit_note(ingest: Ingest, place: str, query: str, batch: int) -> dict[str, Any] | None:
    table = open_table(place, ingest.options)
    done = table.transaction_version(query) if table is not None else None
    if table is None or done is None or done < batch:
        return None
    for commit in table.history(_SEARCHED_COMMITS):
        note = json.loads(commit.get("userMetadata") or "{}")
        if note.get("query") == query and note.get("batch") == batch:
            return dict(note)
    raise TableMismatch(
        f"{place} says that batch {batch} of query {query} is committed, but none of its last "
        f"{_SEARCHED_COMMITS} commits is that batch: the checkpoint is older than the table. "
        "Nothing was written. Restore the checkpoint and the table from the same moment."
    )


def _files_to_read(ingest: Ingest, batch: int, committed: _Committed | None) -> BatchFiles:
    files = ingest.checkpoint.source_files(batch)
    facts = stat_files([file.uri for file in files], ingest.options)
    if committed is None:
        return first_reading(files, facts)
    return repeated_reading(files, facts, committed.files)


def _judge_files(
    spark: SparkSession, ingest: Ingest, batch: int, files: BatchFiles
) -> tuple[DataFrame | None, BatchFiles, Rows]:
    """The judged rows, kept in memory or on disk, without the files that cannot be read."""
    batch_time_ms = ingest.checkpoint.offsets(batch).batch_time_ms
    try:
        return _judged(spark, ingest, batch_time_ms, files)
    except (PySparkException, Py4JJavaError):
        bad = find_unreadable(spark, files.read)
        if not bad:
            raise
        return _judged(spark, ingest, batch_time_ms, files.without(bad))


def _judged(
    spark: SparkSession, ingest: Ingest, batch_time_ms: int, files: BatchFiles
) -> tuple[DataFrame | None, BatchFiles, Rows]:
    by_reason: dict[str | None, int] = {}
    judged = None
    if files.read:
        lines = read_lines(spark, files.read)
        judged = judge(lines, ingest.pipeline, batch_time_ms).persist()
        try:
            by_reason = {row[0]: row[1] for row in judged.groupBy("reason").count().collect()}
        except BaseException:
            judged.unpersist()
            raise
    accepted = by_reason.pop(None, 0)
    for verdict in files.verdicts:
        by_reason[verdict.reason] = by_reason.get(verdict.reason, 0) + 1
    rejected = {str(reason): count for reason, count in sorted(by_reason.items(), key=str)}
    return (
        judged,
        files,
        Rows(read=accepted + sum(rejected.values()), accepted=accepted, rejected=rejected),
    )


def _append_bronze(
    ingest: Ingest, batch: int, judged: DataFrame | None, files: BatchFiles, rows: Rows
) -> None:
    if judged is None or not rows.accepted:
        return
    source = ingest.pipeline.source
    accepted = judged.where(F.col("reason").isNull()).select(
        *[F.col(f"`{name}`") for name in (*source.columns, *source.derive)],
        "_extra",
        "_file",
        *_batch_columns(ingest, batch),
        "_event_date",
    )
    if rows.accepted <= _ONE_FILE_ROWS:
        accepted = accepted.coalesce(1)
    _append(accepted, ingest, ingest.bronze, batch, files, rows)


def _append_rejects(
    spark: SparkSession,
    ingest: Ingest,
    batch: int,
    judged: DataFrame | None,
    files: BatchFiles,
    rows: Rows,
) -> None:
    if not sum(rows.rejected.values()):
        return
    rejected = _file_rejects(spark, ingest, batch, files)
    if judged is not None:
        rejected = _row_rejects(ingest, batch, judged).unionByName(rejected)
    _append(rejected.coalesce(1), ingest, ingest.rejects, batch, files, rows)


def _row_rejects(ingest: Ingest, batch: int, judged: DataFrame) -> DataFrame:
    time = F.col(f"`{ingest.pipeline.source.event_time.column}`")
    invalid = ~F.is_valid_utf8("value")
    return judged.where(F.col("reason").isNotNull()).select(
        "reason",
        "detail",
        F.make_valid_utf8("value").alias("raw"),
        F.when(invalid, F.col("value").cast("binary")).alias("raw_bytes"),
        time.alias("event_time"),
        "_file",
        *_batch_columns(ingest, batch),
    )


def _file_rejects(spark: SparkSession, ingest: Ingest, batch: int, files: BatchFiles) -> DataFrame:
    rows = [
        (verdict.reason, verdict.detail, None, None, None, verdict.uri)
        for verdict in files.verdicts
    ]
    columns = [field for field in rejects_schema().fields if field.name not in _BATCH_COLUMNS]
    verdicts = spark.createDataFrame(rows, type(rejects_schema())(columns))
    return verdicts.select("*", *_batch_columns(ingest, batch))


_BATCH_COLUMNS = ("_batch", "_batch_time")


def _batch_columns(ingest: Ingest, batch: int) -> list[Column]:
    time_ms = ingest.checkpoint.offsets(batch).batch_time_ms
    return [
        F.lit(batch).cast("bigint").alias("_batch"),
        F.timestamp_millis(F.lit(time_ms)).alias("_batch_time"),
    ]


def _append(
    rows: DataFrame, ingest: Ingest, place: str, batch: int, files: BatchFiles, counted: Rows
) -> None:
    query = str(ingest.checkpoint.query_id())
    note = {
        "query": query,
        "batch": batch,
        "rows": counted.model_dump(),
        "files": [[v.uri, v.reason, v.detail] for v in files.verdicts],
        "seen_ms": dict(files.seen_ms),
    }
    writer = rows.write.format("delta").mode("append").option("userMetadata", json.dumps(note))
    writer = writer.option("txnAppId", query).option("txnVersion", batch)
    writer.save(spark_uri(place))
