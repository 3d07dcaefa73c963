"""Judge slices in Spark's tasks, which write the rows as files themselves.

What is committed are the files that tasks return when they succeed, never what a folder lists: a
task that ran twice, or died, leaves files that no commit names, and VACUUM removes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
from pyspark.sql import SparkSession

from tidemark.errors import TidemarkError
from tidemark.sources.source import PartUnreadable, Slice
from tidemark.storage.delta.written_files import WrittenFile, write_parquet
from tidemark.storage.file_place import FilePlace
from tidemark.streaming.ingest.judged_slices import (
    BatchRules,
    JudgedLines,
    JudgedParts,
    judged_slice,
)

# A task holds about so many bytes of judged rows before it writes them.
_HELD_BYTES = 256 * 1024 * 1024
# About as many bytes of lines are one task's work, where there are enough for all cores.
_TASK_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class FilesTo:
    """Where rows go as files: a folder below a place, and the columns of the files."""

    place: FilePlace
    folder: str
    schema: pa.Schema
    partition_by: tuple[str, ...] = ()

    def write(self, rows: Sequence[pa.Table]) -> list[WrittenFile]:
        """Write them now; nothing where there is no row."""
        table = pa.concat_tables(rows).unify_dictionaries() if rows else None
        if table is None or not table.num_rows:
            return []
        return write_parquet(table, self.place, self.folder, self.schema, self.partition_by)


@dataclass
class TaskFiles(JudgedParts[WrittenFile]):
    """What tasks return: files that no commit has added (of accepted rows none where these were
    only counted), and an error that is not a part's own fault."""

    error: TidemarkError | None = None

    def add(self, other: Self) -> None:
        super().add(other)
        self.error = self.error or other.error


def judge_in_tasks(
    spark: SparkSession,
    by: BatchRules,
    slices: Sequence[Slice],
    accepted_to: FilesTo | None,
    rejected_to: FilesTo,
) -> TaskFiles:
    """Judge the slices, each in one task. Without `accepted_to`, accepted rows are only counted.

    Raises what reading raises but of a part's own fault, and the engine's error where a task dies.
    """
    context = spark.sparkContext
    works = shared_out(slices, context.defaultParallelism)

    def run(own: Iterable[Sequence[Slice]]) -> Iterator[TaskFiles]:
        for one in own:
            yield write_judged(by, one, accepted_to, rejected_to)
            # Spark keeps its Python workers, idle, until long behind the batch.
            pa.default_memory_pool().release_unused()

    found = TaskFiles()
    for one in context.parallelize(works, len(works)).mapPartitions(run).collect():
        found.add(one)
    if found.error is not None:
        raise found.error
    return found


def shared_out(slices: Sequence[Slice], cores: int) -> list[list[Slice]]:
    """Slices in their order, in groups of about as many bytes; several for each core."""
    total = sum(one.estimated_bytes for one in slices)
    most = max(1, min(_TASK_BYTES, total // (2 * cores)))
    groups: list[list[Slice]] = []
    size = most
    for one in slices:
        if size >= most:
            groups.append([])
            size = 0
        groups[-1].append(one)
        size += one.estimated_bytes
    return groups


def write_judged(
    by: BatchRules, slices: Sequence[Slice], accepted_to: FilesTo | None, rejected_to: FilesTo
) -> TaskFiles:
    """One task's work: the rows of slices that are read to their end, in few files."""
    files, held = TaskFiles(), JudgedLines()

    def write(lines: JudgedLines) -> TaskFiles:
        accepted = accepted_to.write(lines.accepted) if accepted_to else []
        rejected = rejected_to.write(lines.rejected)
        return TaskFiles(accepted, rejected, lines.read, lines.counts, lines.by_reason)

    try:
        for one in slices:
            # Until its end is read, a slice's rows are kept apart: it may turn out unreadable.
            of_slice, written = JudgedLines(), TaskFiles()
            try:
                for piece in judged_slice(by, one):
                    of_slice.add(piece)
                    if of_slice.bytes > _HELD_BYTES:
                        written.add(write(of_slice))
                        of_slice = JudgedLines()
            except PartUnreadable as error:
                files.unreadable[error.part] = error.cause
                continue
            files.add(written)
            held.add(of_slice)
            if held.bytes > _HELD_BYTES:
                files.add(write(held))
                held = JudgedLines()
        files.add(write(held))
    except TidemarkError as error:
        files.error = error
    return files
