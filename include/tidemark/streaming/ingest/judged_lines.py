"""The lines of a batch, judged: few in the driver, many in Spark's tasks.

Arrow's JSON reader is native code: a line that makes it crash takes the process along, and would
do so at every try. So a mark says that a batch is being judged. Where a try finds the mark of its
own batch, one before it ended without a word (it crashed, or was killed), and the batch is judged
line by line, which needs no such reader.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemark.checkpoint.log import Checkpoint
from tidemark.commit_point import commit_point
from tidemark.errors import LedgerUnbalanced
from tidemark.sources.source import Slice
from tidemark.storage.delta.history import schema_of
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.delta.rows import RecordCounts
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import FileMissing, read_bytes, remove_files, write_bytes
from tidemark.streaming.ingest.batch import Batch
from tidemark.streaming.ingest.judged_slices import LINE, BatchRules, JudgedLines, judge_slices
from tidemark.streaming.ingest.task_files import FilesTo, TaskFiles, judge_in_tasks

# Lines of about so many bytes together are judged in the driver: its one thread takes less than
# a second for them, which is what the first task of a session costs.
FEW_BYTES = 32_000_000
# What a packed file turns out to hold may be more than was thought.
_MOST_BYTES = 512_000_000
_CRASHED = "Python worker exited unexpectedly"


@contextmanager
def judging(checkpoint: Checkpoint, batch: int) -> Iterator[bool]:
    """Leave the mark while a batch is judged; True where an earlier try has left it.

    The mark lies beside the checkpoint's folder, which is the engine's.
    """
    place = f"{checkpoint.uri}.judging.json"
    mark = json.dumps({"query": str(checkpoint.query_id()), "batch": batch}).encode()
    try:
        left = read_bytes(place, checkpoint.options) == mark
    except FileMissing:
        left = False
    _mark(place, mark, checkpoint)
    try:
        yield left
    finally:
        _unmark(place, checkpoint)


@commit_point(
    "batch being judged",
    after_a_kill="before: nothing; after: the next try judges the batch line by line, which comes "
    "to the same",
)
def _mark(place: str, mark: bytes, checkpoint: Checkpoint) -> None:
    write_bytes(place, mark, checkpoint.options)


@commit_point(
    "batch no longer judged",
    after_a_kill="before: the next try judges the batch line by line; after: as before its rows "
    "are committed",
)
def _unmark(place: str, checkpoint: Checkpoint) -> None:
    remove_files([place], checkpoint.options)


@dataclass(frozen=True)
class FewLines:
    """In the driver: accepted rows, and rejected ones in the columns of rejects."""

    accepted: pa.Table
    rejected: pa.Table
    read: int
    counts: RecordCounts
    unreadable: dict[str, str]

    @property
    def by_reason(self) -> Counter[str]:
        return Counter(str(reason) for reason in self.rejected["reason"].to_pylist())


def judge_lines(
    spark: SparkSession,
    batch: Batch,
    slices: Sequence[Slice],
    keeps_lines: bool,
    writes_accepted: bool,
) -> FewLines | TaskFiles:
    """Judge the lines of all slices.

    `keeps_lines`: accepted rows have their line with them, and their files are not bronze's yet.
    """
    by = BatchRules(
        batch.rules,
        batch.origin,
        batch.number,
        batch.time_ms,
        sys.maxsize if batch.max_line_bytes is None else batch.max_line_bytes,
        keeps_lines,
        by_line=False,
        erased=batch.erased,
    )
    with judging(batch.checkpoint, batch.number) as crashed:
        by = replace(by, by_line=crashed)
        if sum(one.estimated_bytes for one in slices) <= FEW_BYTES:
            few = judge_slices(by, slices, _MOST_BYTES)
            if few is not None:
                return _few(by, few)
        return _in_tasks(spark, batch, by, slices, writes_accepted)


def _few(by: BatchRules, found: JudgedLines) -> FewLines:
    accepted = _together(found.accepted, accepted_columns(by))
    rejected = _together(found.rejected, rejected_columns(by))
    few = FewLines(accepted, rejected, found.read, found.counts, found.unreadable)
    _check_all(few, accepted.num_rows)
    return few


def _in_tasks(
    spark: SparkSession,
    batch: Batch,
    by: BatchRules,
    slices: Sequence[Slice],
    writes_accepted: bool,
) -> TaskFiles:
    folder = f"{batch.number}-{uuid4()}"
    accepted_to = _accepted_to(batch, by, folder) if writes_accepted else None
    rejected_to = files_to(batch.rejects, folder)
    try:
        found = judge_in_tasks(spark, by, slices, accepted_to, rejected_to)
    except (Py4JJavaError, PySparkException) as error:
        if by.by_line or _CRASHED not in str(error):
            raise
        by = replace(by, by_line=True)
        found = judge_in_tasks(spark, by, slices, accepted_to, rejected_to)
    if writes_accepted and not found.unreadable:
        _check_all(found, sum(file.rows for file in found.accepted))
    return found


def _accepted_to(batch: Batch, by: BatchRules, folder: str) -> FilesTo:
    if not by.keeps_lines:
        return files_to(batch.bronze, folder)
    place = FilePlace(batch.bronze.uri, batch.bronze.options)
    return FilesTo(place, f"{folder}-lines", accepted_columns(by))


def files_to(table: TablePlace, folder: str) -> FilesTo:
    """Files that the table's next commit may add."""
    there = table.existing()
    partition_by = tuple(there.metadata().partition_columns)
    return FilesTo(FilePlace(table.uri, table.options), folder, schema_of(there), partition_by)


def accepted_columns(by: BatchRules) -> pa.Schema:
    """Of accepted rows before anything is derived."""
    line = [pa.field(LINE, pa.string())] if by.keeps_lines else []
    return pa.schema([*by.rules.accepted_schema, *_where_from(by), *line])


def rejected_columns(by: BatchRules) -> pa.Schema:
    """Of rejected lines, which repeat nothing."""
    text, time = pa.string(), pa.timestamp("us", "UTC")
    own = [("reason", text), ("detail", text), ("raw", text), ("raw_bytes", pa.binary())]
    fields = [pa.field(name, kind) for name, kind in (*own, ("event_time", time))]
    return pa.schema([*fields, *_where_from(by), pa.field("id", text)])


def _where_from(by: BatchRules) -> list[pa.Field[Any]]:
    types = {"string": pa.string(), "integer": pa.int32(), "long": pa.int64()}
    origin = [pa.field(one.name, types[one.type]) for one in by.origin]
    time = pa.timestamp("us", "UTC")
    return [*origin, pa.field("_batch", pa.int64()), pa.field("_batch_time", time)]


def _together(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    return pa.concat_tables([schema.empty_table(), *(table.cast(schema) for table in tables)])


def _check_all(found: FewLines | TaskFiles, accepted: int) -> None:
    rejected = sum(found.by_reason.values())
    if found.read + found.counts.further != accepted + rejected:
        more = f" ({found.counts.label})" if found.counts.label else ""
        raise LedgerUnbalanced(
            f"{found.read:,} lines were read, {accepted:,} of them accepted and {rejected:,} "
            f"rejected{more}. Nothing of the batch was committed. Report this as a defect."
        )
