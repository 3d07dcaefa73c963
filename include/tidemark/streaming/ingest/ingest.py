"""Ingest: each row of the source is judged once, and goes to bronze or to rejects.

The life of a batch:
1. the engine plans it from what is new, and writes `offsets/N` (of files, which they are to
   `sources/0/N` before);
2. its rows are counted, and judged; the accepted ones, where they are many, are written to
   files of bronze that nobody sees yet;
3. bronze's commit adds the accepted rows, with the verdicts on whole parts in its metadata;
4. rejected rows are appended to rejects;
5. the engine writes `commits/N`.
Both appends carry the transaction (query, N), so that a repeat writes nothing twice. Where
there is nothing to append there is no commit, but one to rejects of a batch without any row.
Killed before 3, the batch is judged anew from the source as it is; between 3 and 4, its rejects
are judged again from the parts that have not changed; after 4, there is nothing to do.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession

from tidemark.checkpoint.log import Checkpoint
from tidemark.commit_point import commit_point
from tidemark.errors import LedgerUnbalanced, TidemarkError
from tidemark.judge.erased import KeyedDigests
from tidemark.judge.rules import rules_of
from tidemark.operators.operator import listed
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.storage_options import spark_uri
from tidemark.sources.committed import (
    Committed,
    check_new_checkpoint,
    commit_note,
    committed_before,
)
from tidemark.sources.kinds import row_origin
from tidemark.sources.source import Reading
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.notes import IngestNote
from tidemark.storage.delta.place import TablePlace, shared_handles
from tidemark.storage.delta.rows import Rows
from tidemark.storage.duckdb_in_utc import answers
from tidemark.streaming.ingest.batch import Batch
from tidemark.streaming.ingest.judged_batch import JudgedBatch, judge_batch
from tidemark.streaming.progress import Progress
from tidemark.streaming.run.append import WrittenRows, append
from tidemark.streaming.run.queries import Running, start_query
from tidemark.streaming.sources.streams import StreamedSource


@dataclass
class Ingest:
    """One run's reading of the source. `rows` adds up what its batches judged.

    `scheduled_ms` is the scheduled time of the run `run_id`, in milliseconds since 1970, UTC.
    `erased`: what erasures reject.
    """

    pipeline: Pipeline
    streamed: StreamedSource
    bronze: TablePlace
    rejects: TablePlace
    checkpoint: Checkpoint
    scheduled_ms: int
    run_id: str | None = None
    erased: KeyedDigests | None = None
    rows: Rows = field(default_factory=Rows)


def start_ingest(spark: SparkSession, ingest: Ingest, progress: Progress) -> Running:
    """Start the query; it ends by itself when what is there now has been read.

    Raises TableMismatch where the tables hold rows and the checkpoint is not there.
    """
    check_new_checkpoint(ingest.checkpoint, ingest.bronze, ingest.rejects)
    rules = rules_of(ingest.pipeline)
    stream = ingest.streamed.stream(spark, ingest.checkpoint)
    of_batches = _batches_ahead(ingest)
    done = count(1)

    def write(_: DataFrame, number: int) -> None:
        with progress.batch("ingest", number) as report:
            batch = Batch(
                ingest.pipeline,
                rules,
                ingest.streamed,
                ingest.checkpoint,
                ingest.bronze,
                ingest.rejects,
                number,
                ingest.checkpoint.offsets(number).batch_time_ms,
                ingest.streamed.placed.settings.max_line_bytes,
                erased=ingest.erased,
            )
            report.note, rows = _write_batch(spark, ingest, batch)
            if of_batches > 1:
                report.place = f"{next(done):,} of about {of_batches:,}"
            ingest.rows += rows
            report.rows, report.rejected = rows.read, rows.rejected

    writer = stream.writeStream.queryName(f"{ingest.pipeline.name}.ingest")
    return start_query(writer.option("checkpointLocation", spark_uri(ingest.checkpoint.uri)), write)


def _batches_ahead(ingest: Ingest) -> int:
    """Where batches have a limit, how many there will be: for people alone, so not to know it
    stops nothing."""
    limits = ingest.pipeline.advanced
    if not (
        limits.max_files_per_batch or limits.max_bytes_per_batch or limits.max_messages_per_batch
    ):
        return 1
    try:
        return ingest.streamed.batches_ahead(ingest.checkpoint)
    except TidemarkError:
        return 1


@shared_handles()
def _write_batch(spark: SparkSession, ingest: Ingest, batch: Batch) -> tuple[str, Rows]:
    """Commit what is not committed of the batch; a note of what was, and the batch's counts."""
    number = batch.number
    committed = committed_before(ingest.checkpoint, ingest.bronze, ingest.rejects, number)
    if committed and committed.is_complete:
        return "committed by an earlier try", committed.rows
    reading = _to_read(ingest, number, committed)
    if committed is not None:
        never_read = frozenset(one.part for one in committed.reading.verdicts)
        # A setting, which may have been changed since: a line would be in both tables, or in none.
        most, jump = committed.max_line_bytes, committed.jump_after_us
        batch = replace(batch, never_read=never_read, max_line_bytes=most, jump_after_us=jump)
    judged = judge_batch(spark, batch, reading, repeated=committed is not None)
    try:
        if committed is not None:
            _check_judged_alike(ingest, number, committed, judged)
            judged = _as_repeated(ingest, committed, judged)
        ingest.streamed.placed.confirm(ingest.checkpoint, number)
        note = _note(ingest, batch, judged, committed)
        _append_bronze(ingest, number, judged, note)
        _append_rejects(ingest, number, judged, note)
    finally:
        judged.release()
    return "accepted rows were committed by an earlier try" if committed else "", judged.counts


def _note(
    ingest: Ingest, batch: Batch, judged: JudgedBatch, committed: Committed | None
) -> IngestNote:
    """One scheduled time for both commits of a batch: that of the run that made the first."""
    first = committed.scheduled_ms if committed else None
    scheduled_ms = ingest.scheduled_ms if first is None else first
    query = str(ingest.checkpoint.query_id())
    return commit_note(
        query,
        batch.number,
        judged.counts,
        judged.reading,
        batch.max_line_bytes,
        scheduled_ms,
        judged.jump_after_us,
        ingest.run_id,
    )


def _check_judged_alike(
    ingest: Ingest, number: int, committed: Committed, judged: JudgedBatch
) -> None:
    """LedgerUnbalanced where a batch that bronze has is judged otherwise now: its rows would be in
    bronze and in rejects, or in neither, and read would be what both hold. Nothing is appended.

    Of parts that have not changed as many rows are accepted as before, and none that is rejected is
    in bronze: so each is in one of them. Compaction may have taken messages since.
    """
    if not _same_verdicts(committed, judged):
        return
    before = (committed.rows.read, committed.rows.accepted)
    now = (judged.counts.read, judged.counts.accepted)
    fewer = committed.rows.offsets is not None and now[0] < before[0]
    both = 0 if fewer else _in_bronze(ingest, number, judged.rejected)
    if both or (now != before and not fewer):
        raise LedgerUnbalanced(
            f"Batch {number} of {ingest.pipeline.name} was begun by a run that accepted "
            f"{before[1]:,} of {before[0]:,} rows, which bronze has. The same parts of the source "
            f"are judged otherwise now: {now[1]:,} of {now[0]:,} are accepted, and {both:,} of the "
            "others are in bronze. Nothing was appended, and no retry will help. Was Tidemark, "
            "Spark or a setting changed since? Run the pipeline once as it was, then with the "
            "new one. Was a file written again under its former time? Put the former one back."
        )


def _in_bronze(ingest: Ingest, number: int, rejected: pa.Table | WrittenRows) -> int:
    """How many rejects come from where a row of bronze's batch comes from. Those that Spark wrote,
    for they are many, are not looked at."""
    if not isinstance(rejected, pa.Table) or not rejected.num_rows:
        return 0
    origin = [one.name for one in row_origin(ingest.pipeline)]
    bronze = dataset_of(ingest.bronze.existing())
    rows = bronze.to_table(columns=origin, filter=ds.field("_batch") == number)
    sql = f"SELECT count(*) FROM rejected SEMI JOIN accepted USING ({listed(origin)})"
    ((found,),) = answers(sql, accepted=rows, rejected=rejected.select(origin))
    return int(found)


def _as_repeated(ingest: Ingest, committed: Committed, judged: JudgedBatch) -> JudgedBatch:
    """With offsets, but where a part was lost since: bronze has rows of it."""
    counts = _counts_of_repeat(committed, judged)
    if _same_verdicts(committed, judged):
        lines = counts.read - len(judged.reading.verdicts)
        offsets = ingest.streamed.placed.offsets_read(judged.reading, lines)
        counts = counts.at_offsets(offsets, lines)
    return replace(judged, counts=counts)


def _counts_of_repeat(committed: Committed, judged: JudgedBatch) -> Rows:
    """Accepted and counted as committed, rejected as judged now.

    How many rows a part had that changed since is not known: it is one reject, and what is
    read is then the sum; likewise where compaction took messages since.
    """
    accepted, rejected = committed.rows.accepted, judged.counts.rejected
    before = (committed.rows.read, accepted)
    if _same_verdicts(committed, judged) and (judged.counts.read, judged.counts.accepted) == before:
        return committed.rows.model_copy(update={"rejected": rejected})
    records = judged.counts.records
    counted = committed.rows.counted
    repeated = Rows(accepted=accepted, rejected=rejected, records=records, counted=counted)
    read = repeated.judged - (records.further if records else 0)
    return repeated.model_copy(update={"read": read})


def _same_verdicts(committed: Committed, judged: JudgedBatch) -> bool:
    return set(judged.reading.verdicts) == set(committed.reading.verdicts)


def _to_read(ingest: Ingest, number: int, committed: Committed | None) -> Reading:
    source = ingest.streamed.placed
    before = None if committed is None else committed.reading
    return source.reading(ingest.checkpoint, number, before)


@commit_point(
    "accepted rows",
    after_a_kill="before: the batch is judged anew, from the source as it is; after: its "
    "rejects are judged again from the parts that have not changed",
)
def _append_bronze(ingest: Ingest, number: int, judged: JudgedBatch, note: IngestNote) -> None:
    if judged.accepted is not None and judged.counts.accepted:
        append(judged.accepted, ingest.bronze, note.query, number, note)


@commit_point(
    "rejected rows",
    after_a_kill="before: as after the accepted rows; after: the batch is known as committed",
)
def _append_rejects(ingest: Ingest, number: int, judged: JudgedBatch, note: IngestNote) -> None:
    # Each batch leaves a commit, one without any row too: so one that is lost is missed.
    if judged.counts.rejected or not judged.counts.accepted:
        append(judged.rejected, ingest.rejects, note.query, number, note)
