"""The lines of slices, judged, in the columns of bronze and rejects: without Spark, the same in the
driver and in tasks.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Generic, Self, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.judge.arrow import Array
from tidemark.judge.erased import KeyedDigests
from tidemark.judge.judge import Judge, rejected_rows
from tidemark.judge.records import RecordReader
from tidemark.judge.rules import TIMESTAMP, Rules
from tidemark.pipeline.reasons import ERASED
from tidemark.sources.source import (
    AS_READ,
    DETAIL,
    ELEMENT,
    REASON,
    OriginColumn,
    PartUnreadable,
    Slice,
    TypedRows,
)
from tidemark.storage.delta.rows import RecordCounts

# What is larger is named in the log before it is read, so that the log tells what ended a process.
_NAMED_BYTES = 1024**2
# The line itself, beside the columns of an accepted row.
LINE = "_value"
# Of the id of a reject.
ID_DIGITS = 32
Part = TypeVar("Part")


@dataclass(frozen=True)
class BatchRules:
    """What the lines of a batch are judged by: plain data, which can be sent to a task.

    `keeps_lines`: accepted rows have their line with them. `by_line`: by the exact tier alone.
    `erased`: what erasures reject.
    """

    rules: Rules
    origin: tuple[OriginColumn, ...]
    batch: int
    batch_time_ms: int
    max_line_bytes: int
    keeps_lines: bool
    by_line: bool
    erased: KeyedDigests | None = None


@dataclass
class JudgedParts(Generic[Part]):
    """Judged lines, as parts of rows, and how many records there were (`read`); `counts`: which of
    them are not judged, or became several lines. Of parts of the source in `unreadable`, with the
    cause, no line is among them."""

    accepted: list[Part] = field(default_factory=list)
    rejected: list[Part] = field(default_factory=list)
    read: int = 0
    counts: RecordCounts = field(default_factory=RecordCounts)
    by_reason: Counter[str] = field(default_factory=Counter)
    unreadable: dict[str, str] = field(default_factory=dict)

    def add(self, other: Self) -> None:
        """Take over what another one has."""
        self.accepted += other.accepted
        self.rejected += other.rejected
        self.read += other.read
        self.counts += other.counts
        self.by_reason += other.by_reason
        self.unreadable |= other.unreadable


@dataclass
class JudgedLines(JudgedParts[pa.Table]):
    """In memory: `accepted` has the declared columns, `_extra`, `_event_date`, where each row comes
    from, and the line where it is kept; `rejected` the columns of rejects but `repeats`."""

    @property
    def bytes(self) -> int:
        """About how much memory its rows take."""
        return sum(rows.nbytes for rows in (*self.accepted, *self.rejected))


def judged_slice(by: BatchRules, one: Slice) -> Iterator[JudgedLines]:
    """The slice's lines, piece by piece; raises what reading it raises."""
    if one.estimated_bytes > _NAMED_BYTES:
        print(f"reading {one.label}", file=sys.stderr, flush=True)
    rules = by.rules if one.numbers_in_text else by.rules.without_numbers_in_text()
    judge = Judge(rules, by.batch_time_ms, by.by_line, by.erased)
    rows_are_records = by.rules.when is None and by.rules.explode is None
    reader = None if rows_are_records else RecordReader(by.rules)
    # Rows that have types need no lines, unless these are kept or taken apart, or a try crashed.
    typed = None
    if rows_are_records and not by.keeps_lines and not by.by_line:
        typed = one.typed(by.max_line_bytes)
    if typed is not None:
        for rows in typed:
            yield from _of_typed_rows(by, judge, rows)
        return
    for piece in one.lines(by.max_line_bytes):
        yield from _of_piece(by, judge, reader, piece)


def _of_typed_rows(by: BatchRules, judge: Judge, given: TypedRows) -> Iterator[JudgedLines]:
    """Rows that their types say enough of, and the others as lines; those of a part in order."""
    read = judge.typed(given.rows, given.are_texts) if given.small.any() else None
    sure = np.zeros_like(given.small) if read is None else given.small & ~read.doubtful
    found = JudgedLines()
    if read is not None and sure.any():
        accepted = read.rows.filter(pa.array(sure))
        where = _where_from(by, given.origin, pa.array(np.flatnonzero(sure)))
        found.add(JudgedLines([_side_by_side(accepted, where)], [], len(accepted)))
    if not sure.all():
        places = pa.array(np.flatnonzero(~sure)) if sure.any() else None
        for one in _of_piece(by, judge, None, given.lines(places)):
            found.add(one)
    if len(found.accepted) > 1:
        keys = [one.name for one in by.origin if one.type != "string"]
        together = pa.concat_tables(found.accepted)
        found.accepted = [together.sort_by([(one, "ascending") for one in keys])]
    yield found


def _of_piece(
    by: BatchRules, judge: Judge, reader: RecordReader | None, piece: pa.Table
) -> Iterator[JudgedLines]:
    lines = piece
    if ELEMENT in by.origin:
        no_elements = pa.nulls(len(piece), pa.int32())
        lines = lines.append_column(ELEMENT.name, no_elements)
    if REASON in piece.column_names:
        own = pc.is_valid(piece[REASON])
        yield _rejected_by_kind(by, lines.filter(own))
        lines = lines.filter(pc.invert(own))
    if reader is None:
        yield _judged(by, judge, lines)
    else:
        yield from _of_records(by, judge, reader, lines)


def _of_records(
    by: BatchRules, judge: Judge, reader: RecordReader, records: pa.Table
) -> Iterator[JudgedLines]:
    """What becomes of records, of which not all are lines to judge."""
    for found in reader.read(_as_read(records)):
        lines = records.take(pa.array(found.records))
        if found.elements is not None:
            lines = lines.select([one.name for one in by.origin if one != ELEMENT])
            lines = lines.append_column(LINE, found.lines)
            lines = lines.append_column(ELEMENT.name, found.elements)
        judged = _judged(by, judge, lines)
        places = sorted(found.rejected)
        verdicts = rejected_rows([found.rejected[place] for place in places])
        rejects = _rejects(by, records.take(pa.array(places, pa.int64())), verdicts)
        judged.rejected.append(rejects)
        judged.by_reason += _by_reason(verdicts)
        judged.counts = found.counts
        judged.read += len(places) - found.counts.further
        yield judged


def _as_read(lines: pa.Table) -> Array:
    return lines[AS_READ if AS_READ in lines.column_names else LINE].combine_chunks()


def _judged(by: BatchRules, judge: Judge, lines: pa.Table) -> JudgedLines:
    judged = judge.judge(_as_read(lines))
    where = _where_from(by, lines, judged.accepted_at)
    if by.keeps_lines:
        where = where.append_column(LINE, lines[LINE].take(judged.accepted_at))
    rejects = _rejects(by, lines.take(judged.rejected_at), judged.rejected)
    reasons = _by_reason(judged.rejected)
    accepted = [_side_by_side(judged.accepted, where)]
    return JudgedLines(accepted, [rejects], len(lines), by_reason=reasons)


def _rejected_by_kind(by: BatchRules, lines: pa.Table) -> JudgedLines:
    """Lines that the source's kind rejects: nobody read an event time in them."""
    verdicts = lines.select([REASON, DETAIL]).rename_columns(["reason", "detail"])
    verdicts = verdicts.append_column("event_time", pa.nulls(len(lines), TIMESTAMP))
    rejects = _rejects(by, lines, verdicts)
    return JudgedLines([], [rejects], len(lines), by_reason=_by_reason(verdicts))


def _rejects(by: BatchRules, lines: pa.Table, verdicts: pa.Table) -> pa.Table:
    """These lines with the verdicts on them, in the columns of rejects but `repeats`; without its
    text what an erasure rejects."""
    given = lines[LINE].combine_chunks()
    if by.erased is not None:
        kept = pc.not_equal(verdicts["reason"].combine_chunks(), pa.scalar(ERASED))
        given = pc.if_else(kept, given, pa.scalar(None, given.type))
    text, no_text = _texts(given)
    columns = [verdicts["reason"], verdicts["detail"], text, no_text, verdicts["event_time"]]
    names = ["reason", "detail", "raw", "raw_bytes", "event_time"]
    where = _where_from(by, lines)
    rejects = _side_by_side(pa.table(columns, names=names), where)
    return rejects.append_column("id", reject_ids(where, by.origin))


def reject_ids(where: pa.Table, origin: Sequence[OriginColumn]) -> Array:
    """The ids of rejects by where they come from: the same each time that a record is read. The
    first 32 digits of the SHA-256 of the origin's columns as lines of text; null is an empty one
    (in Spark: `batch_rows.reject_id`)."""
    columns = [where[one.name].cast(pa.string()).to_pylist() for one in origin]
    texts = (
        "\n".join("" if one is None else one for one in row) for row in zip(*columns, strict=True)
    )
    return pa.array([sha256(text.encode()).hexdigest()[:ID_DIGITS] for text in texts], pa.string())


def _by_reason(verdicts: pa.Table) -> Counter[str]:
    return Counter(str(reason) for reason in verdicts["reason"].to_pylist())


def judge_slices(by: BatchRules, slices: Sequence[Slice], most: int) -> JudgedLines | None:
    """All of them, in memory; None where the rows take more than `most` bytes."""
    found = JudgedLines()
    for one in slices:
        try:
            of_slice = JudgedLines()
            for piece in judged_slice(by, one):
                of_slice.add(piece)
                if found.bytes + of_slice.bytes > most:
                    return None
            found.add(of_slice)
        except PartUnreadable as error:
            found.unreadable[error.part] = error.cause
    return found


def _where_from(by: BatchRules, lines: pa.Table, places: Array | None = None) -> pa.Table:
    where = lines.select([one.name for one in by.origin])
    where = where if places is None else where.take(places)
    number = len(where)
    where = where.append_column("_batch", pa.repeat(pa.scalar(by.batch, pa.int64()), number))
    time = pa.scalar(by.batch_time_ms * 1_000, TIMESTAMP)
    return where.append_column("_batch_time", pa.repeat(time, number))


def _side_by_side(left: pa.Table, right: pa.Table) -> pa.Table:
    return pa.table(
        [*left.columns, *right.columns], names=[*left.column_names, *right.column_names]
    )


def _texts(lines: Array) -> tuple[Array, Array]:
    """The lines as text, and their bytes where they are none; then U+FFFD stands in the text."""
    try:
        return lines.cast(pa.string()), pa.nulls(len(lines), pa.binary())
    except pa.ArrowInvalid:
        texts, odd = [], []
        for line in cast("list[bytes | None]", lines.to_pylist()):
            text = None if line is None else line.decode(errors="replace")
            texts.append(text)
            odd.append(None if text is None or text.encode() == line else line)
        return pa.array(texts, pa.string()), pa.array(odd, pa.binary())
