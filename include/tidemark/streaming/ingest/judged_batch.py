"""Judge one batch of the source: its rows, its parts, and how many rows there were to judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import SparkSession

from tidemark.errors import InputNeeded
from tidemark.sources.source import Reading
from tidemark.storage.delta.rows import RecordCounts, Rows, by_name
from tidemark.storage.delta.written_files import WrittenFile
from tidemark.streaming.ingest.batch import Batch
from tidemark.streaming.ingest.batch_rows import rejected_parts, with_rejects_columns
from tidemark.streaming.ingest.judged_lines import FewLines, files_to, judge_lines
from tidemark.streaming.ingest.spark_rows import FurtherRows, judge_further
from tidemark.streaming.ingest.task_files import TaskFiles
from tidemark.streaming.run.append import WrittenRows, write_rows


@dataclass(frozen=True)
class JudgedBatch:
    """A batch's rows in the columns of bronze and of rejects, verdicts on parts among these.

    `counts` says how many there are of each. `accepted` is None where the rows are committed
    already. Rows after the event time `jump_after_us` are a jump; None: there is none. Call
    `release` in the end.
    """

    accepted: pa.Table | WrittenRows | None
    rejected: pa.Table | WrittenRows
    reading: Reading
    counts: Rows
    release: Callable[[], None] = lambda: None
    jump_after_us: int | None = None


def judge_batch(spark: SparkSession, batch: Batch, reading: Reading, repeated: bool) -> JudgedBatch:
    """Judge the batch without the parts that cannot be read to their end.

    `repeated`: bronze of the batch is committed, so such a part is one that changed since.
    """
    source, further = batch.streamed.placed, _needs_spark(batch)
    provided: set[str] = set()
    while reading.read:
        try:
            slices = source.slices(batch.checkpoint, batch.number, reading)
            lines = judge_lines(spark, batch, slices, further, further or not repeated)
        except InputNeeded as error:
            # Asked for once: what is still needed then would be needed for ever.
            if provided.intersection(error.needed):
                raise
            provided.update(error.needed)
            source.provide(batch.checkpoint, batch.number, error.needed)
            continue
        if not lines.unreadable:
            # What a repeat finds was counted when bronze was committed.
            offsets = None if repeated else source.offsets_read(reading, lines.read)
            if further:
                judged = _with_further(spark, batch, reading, lines, repeated)
            else:
                judged = _plain(batch, reading, lines, repeated)
            return replace(judged, counts=judged.counts.at_offsets(offsets, lines.read))
        # Rows of such a part may be among the others: all are judged once more without it.
        reading = source.left_out(
            batch.checkpoint, batch.number, reading, lines.unreadable, repeated
        )
    verdicts = rejected_parts(reading, batch)
    offsets = None if repeated else source.offsets_read(reading, 0)
    counts = _rows(TaskFiles(), 0, Counter(), Counter(), reading).at_offsets(offsets, 0)
    return JudgedBatch(pa.table({}), verdicts, reading, counts)


def _needs_spark(batch: Batch) -> bool:
    """Does a row's verdict, or a value of it, need more than its line?"""
    jumps = batch.source.event_time.max_jump or batch.jump_after_us is not None
    return bool(batch.source.derive or batch.source.rules or batch.source.unique or jumps)


def _plain(
    batch: Batch, reading: Reading, lines: FewLines | TaskFiles, repeated: bool
) -> JudgedBatch:
    accepted_number = lines.read + lines.counts.further - sum(lines.by_reason.values())
    counts = _rows(lines, accepted_number, lines.by_reason, Counter(), reading)
    verdicts = rejected_parts(reading, batch)
    if isinstance(lines, FewLines):
        accepted = None if repeated else lines.accepted
        return JudgedBatch(accepted, _with_verdicts(batch, lines, verdicts), reading, counts)
    files = [*lines.rejected, *_as_files(batch, verdicts)]
    written = None if repeated else WrittenRows(lines.accepted)
    return JudgedBatch(written, WrittenRows(files), reading, counts)


def _with_further(
    spark: SparkSession,
    batch: Batch,
    reading: Reading,
    lines: FewLines | TaskFiles,
    repeated: bool,
) -> JudgedBatch:
    further = judge_further(spark, batch, reading, lines, repeated)
    try:
        by_reason = lines.by_reason + further.by_reason
        counts = _rows(lines, further.accepted_number, by_reason, further.counted, reading)
        verdicts = rejected_parts(reading, batch)
        rejected = _rejected_of_both(batch, lines, further, verdicts)
    except BaseException:
        further.release()
        raise
    accepted = None if repeated else further.accepted
    return JudgedBatch(accepted, rejected, reading, counts, further.release, further.jump_after_us)


def _rejected_of_both(
    batch: Batch, lines: FewLines | TaskFiles, further: FurtherRows, verdicts: pa.Table
) -> pa.Table | WrittenRows:
    if isinstance(lines, FewLines) and isinstance(further.rejected, pa.Table):
        first = _with_verdicts(batch, lines, verdicts)
        return pa.concat_tables([first, with_rejects_columns(further.rejected, batch)])
    files = [*_as_files(batch, verdicts)]
    files += _as_files(batch, lines.rejected) if isinstance(lines, FewLines) else lines.rejected
    if isinstance(further.rejected, pa.Table):
        files += _as_files(batch, further.rejected)
    else:
        files += write_rows(further.rejected, batch.rejects, batch.number).files
    return WrittenRows(files)


def _with_verdicts(batch: Batch, lines: FewLines, verdicts: pa.Table) -> pa.Table:
    return pa.concat_tables([with_rejects_columns(lines.rejected, batch), verdicts])


def _as_files(batch: Batch, rejected: pa.Table) -> Sequence[WrittenFile]:
    return files_to(batch.rejects, f"{batch.number}-{uuid4()}").write([rejected])


def _rows(
    lines: FewLines | TaskFiles,
    accepted: int,
    by_reason: Counter[str],
    counted: Counter[str],
    reading: Reading,
) -> Rows:
    rejected = by_reason + Counter(verdict.reason for verdict in reading.verdicts)
    return Rows(
        read=lines.read + len(reading.verdicts),
        accepted=accepted,
        rejected=by_name(rejected),
        counted=by_name(counted),
        records=lines.counts if lines.counts != RecordCounts() else None,
    )
