"""Ingest: each row of the source is judged once, and goes to bronze or to rejects.

The life of a batch:
1. the engine lists new files and writes them to `sources/0/N`, then `offsets/N`;
2. its lines are counted, and judged; the accepted ones, where they are many, are written to
   files of bronze that nobody sees yet;
3. bronze's commit adds the accepted rows, with the file verdicts in its metadata;
4. rejected rows are appended to rejects;
5. the engine writes `commits/N`.
Both appends carry the transaction (query, N), so that a repeat writes nothing twice. Where
there is nothing to append there is no commit. Killed before 3, the batch is judged anew from
the files as they are; between 3 and 4, its rejects are judged again from the files that have
not changed; after 4, there is nothing to do.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession

from tidemark.checkpoint.log import Checkpoint
from tidemark.commit_point import commit_point
from tidemark.errors import SourceChanging
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.storage_options import spark_uri
from tidemark.pipeline.source_files import SourceFiles
from tidemark.sources.files.batch_files import BatchFiles, first_reading, repeated_reading
from tidemark.sources.files.committed import (
    Committed,
    check_new_checkpoint,
    commit_note,
    committed_before,
)
from tidemark.storage.delta.notes import IngestNote
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.delta.rows import Rows
from tidemark.storage.files import stat_files
from tidemark.streaming.ingest.judge import rules_of
from tidemark.streaming.ingest.judged_batch import Batch, JudgedBatch, judge_batch
from tidemark.streaming.progress import Progress
from tidemark.streaming.run.append import Append, append
from tidemark.streaming.run.queries import Running, start_query
from tidemark.streaming.sources.files import stream_of_files


@dataclass
class Ingest:
    """One run's reading of the source. `rows` adds up what its batches judged.

    `scheduled_ms` is the scheduled time of the run, in milliseconds since 1970, UTC.
    """

    pipeline: Pipeline
    source: SourceFiles
    bronze: TablePlace
    rejects: TablePlace
    checkpoint: Checkpoint
    scheduled_ms: int
    rows: Rows = field(default_factory=Rows)


def start_ingest(spark: SparkSession, ingest: Ingest, progress: Progress) -> Running:
    """Start the query; it ends by itself when the files that are there now have been read.

    Raises TableMismatch where the tables hold rows and the checkpoint is not there.
    """
    check_new_checkpoint(ingest.checkpoint, ingest.bronze, ingest.rejects)
    # They are built while the engine lists the source and plans its first batch.
    pool = ThreadPoolExecutor(1)
    rules = pool.submit(rules_of, ingest.pipeline)
    pool.shutdown(wait=False)
    stream = stream_of_files(spark, ingest.source, ingest.pipeline.advanced.max_files_per_batch)

    def write(_: DataFrame, number: int) -> None:
        with progress.batch("ingest", number) as report:
            time_ms = ingest.checkpoint.offsets(number).batch_time_ms
            batch = Batch(ingest.pipeline, rules.result(), ingest.bronze, number, time_ms)
            report.note, rows = _write_batch(spark, ingest, batch)
            ingest.rows += rows
            report.rows, report.rejected = rows.read, rows.rejected

    writer = stream.writeStream.queryName(f"{ingest.pipeline.name}.ingest")
    return start_query(writer.option("checkpointLocation", spark_uri(ingest.checkpoint.uri)), write)


def _write_batch(spark: SparkSession, ingest: Ingest, batch: Batch) -> tuple[str, Rows]:
    """Commit what is not committed of the batch; a note of what was, and the batch's counts."""
    number = batch.number
    committed = committed_before(ingest.checkpoint, ingest.bronze, ingest.rejects, number)
    if committed and committed.is_complete:
        return "committed by an earlier try", committed.rows
    files = _files_to_read(ingest, number, committed)
    judged = judge_batch(spark, batch, files, repeated=committed is not None)
    try:
        _check_steady(ingest, number, judged)
        if committed is not None:
            judged = replace(judged, counts=_counts_of_repeat(committed, judged))
        note = _note(ingest, number, judged, committed)
        _append_bronze(ingest, number, judged, note)
        _append_rejects(ingest, number, judged, note)
    finally:
        judged.release()
    return "accepted rows were committed by an earlier try" if committed else "", judged.counts


def _check_steady(ingest: Ingest, number: int, judged: JudgedBatch) -> None:
    """Raise SourceChanging where a file changed between counting its lines and judging them."""
    if judged.counts.read == judged.counts.accepted + sum(judged.counts.rejected.values()):
        return
    files = ingest.checkpoint.source_files(number)
    facts = stat_files([file.uri for file in files], ingest.checkpoint.options)
    now = repeated_reading(files, facts, judged.files)
    if changed := sorted(set(judged.files.read) - set(now.read)):
        raise SourceChanging(
            f"{len(changed)} files of batch {number} changed while they were read, among them "
            f"{', '.join(changed[:5])}. Nothing of it was committed in this try. Land files "
            "whole: write them elsewhere, then rename them. The next run reads the batch again."
        )


def _note(
    ingest: Ingest, number: int, judged: JudgedBatch, committed: Committed | None
) -> IngestNote:
    """One scheduled time for both commits of a batch: that of the run that made the first."""
    first = committed.scheduled_ms if committed else None
    scheduled_ms = ingest.scheduled_ms if first is None else first
    query = str(ingest.checkpoint.query_id())
    return commit_note(query, number, judged.counts, judged.files, scheduled_ms)


def _counts_of_repeat(committed: Committed, judged: JudgedBatch) -> Rows:
    """Accepted as committed, rejected as judged now.

    How many lines a file had that changed since is not known: it is one reject, and what is
    read is then the sum.
    """
    accepted, rejected = committed.rows.accepted, judged.counts.rejected
    unchanged = set(judged.files.verdicts) == set(committed.files.verdicts)
    read = committed.rows.read if unchanged else accepted + sum(rejected.values())
    return Rows(read=read, accepted=accepted, rejected=rejected)


def _files_to_read(ingest: Ingest, number: int, committed: Committed | None) -> BatchFiles:
    files = ingest.checkpoint.source_files(number)
    facts = stat_files([file.uri for file in files], ingest.checkpoint.options)
    if committed is None:
        return first_reading(files, facts)
    return repeated_reading(files, facts, committed.files)


@commit_point(
    "accepted rows",
    after_a_kill="before: the batch is judged anew, from the files as they are; after: its "
    "rejects are judged again from the files that have not changed",
)
def _append_bronze(ingest: Ingest, number: int, judged: JudgedBatch, note: IngestNote) -> None:
    if judged.accepted is not None and judged.counts.accepted:
        append(judged.accepted, _append(ingest, number, ingest.bronze, note))


@commit_point(
    "rejected rows",
    after_a_kill="before: as after the accepted rows; after: the batch is known as committed",
)
def _append_rejects(ingest: Ingest, number: int, judged: JudgedBatch, note: IngestNote) -> None:
    if judged.counts.rejected:
        append(judged.rejected, _append(ingest, number, ingest.rejects, note))


def _append(ingest: Ingest, number: int, place: TablePlace, note: IngestNote) -> Append:
    return Append(place, str(ingest.checkpoint.query_id()), number, note)
