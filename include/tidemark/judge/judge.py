"""Judge lines: accepted rows and rejected ones, as Arrow tables.

Three tiers with one verdict: the block tier takes what it can prove, a block that it refuses is
halved and tried again, and what is left goes through the exact tier, line by line. The verdict on a
line depends on nothing but the line, the rules and the batch's own time, so a batch that runs
again judges the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidemark.judge.arrow import Array
from tidemark.judge.arrow import kernels as pc
from tidemark.judge.block import block_reader
from tidemark.judge.exact import AcceptedLine, ExactJudge, RejectedLine
from tidemark.judge.limits import time_limits
from tidemark.judge.rules import REJECTED_SCHEMA, TIMESTAMP, Rules

# Fewer lines than this are not worth another call of the reader.
_FEW_LINES = 32
# So many lines are read by one call; their texts stay far below Arrow's 2 GiB.
_BLOCK_LINES = 65_536
_BLOCK_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class Judged:
    """Rows of lines: `accepted` in `Rules.accepted_schema`, `rejected` in REJECTED_SCHEMA.

    `accepted_at` and `rejected_at` (int64, ascending) say which lines these are, from 0; each
    line is in one of the two.
    """

    accepted: pa.Table
    accepted_at: Array
    rejected: pa.Table
    rejected_at: Array


class Judge:
    """Judges the lines of one batch. Not to be shared by threads.

    `by_line`: without the block tier, where it made an earlier try crash.
    """

    def __init__(self, rules: Rules, batch_time_ms: int, by_line: bool = False) -> None:
        limits = time_limits(rules, batch_time_ms)
        self._rules = rules
        self._exact = ExactJudge(rules, limits)
        self._block = None if by_line else block_reader(rules, limits)

    def judge(self, lines: Array) -> Judged:
        """Judge lines (binary, without their ends, none null)."""
        rows = _Rows(self._rules)
        start = 0
        while start < len(lines):
            number = _block_size(lines, start)
            self._judge_block(lines.slice(start, number), start, rows)
            start += number
        return rows.judged()

    def _judge_block(self, lines: Array, start: int, rows: _Rows) -> None:
        if self._block is None:
            self._one_by_one(lines, np.arange(len(lines)), start, rows)
            return
        promising = self._block.promising(lines).to_numpy(zero_copy_only=False)
        self._one_by_one(lines, np.flatnonzero(~promising), start, rows)
        self._together(lines, np.flatnonzero(promising), start, rows)

    def _together(self, lines: Array, places: Any, start: int, rows: _Rows) -> None:
        """Places of promising lines: as a block, in halves, or one by one."""
        if len(places) < _FEW_LINES:
            self._one_by_one(lines, places, start, rows)
            return
        assert self._block is not None
        chosen = lines if len(places) == len(lines) else lines.take(pa.array(places))
        if (read := self._block.read(chosen)) is None:
            self._apart(lines, places, chosen, start, rows)
            return
        doubtful = read.doubtful.to_numpy(zero_copy_only=False)
        if doubtful.any():
            good = read.rows.filter(pc.invert(read.doubtful))
            rows.add_block(good, places[~doubtful] + start)
            self._one_by_one(lines, places[doubtful], start, rows)
        else:
            rows.add_block(read.rows, places + start)

    def _apart(self, lines: Array, places: Any, chosen: Array, start: int, rows: _Rows) -> None:
        """What a block that was refused comes to: without lines in which a field may stand twice,
        which is what most refusals are for, else in halves."""
        assert self._block is not None
        twice = self._block.may_have_twice(chosen).to_numpy(zero_copy_only=False)
        if twice.any():
            self._one_by_one(lines, places[twice], start, rows)
            self._together(lines, places[~twice], start, rows)
            return
        half = len(places) // 2
        if half < _FEW_LINES:
            self._one_by_one(lines, places, start, rows)
            return
        self._together(lines, places[:half], start, rows)
        self._together(lines, places[half:], start, rows)

    def _one_by_one(self, lines: Array, places: Any, start: int, rows: _Rows) -> None:
        texts = lines if len(places) == len(lines) else lines.take(pa.array(places, pa.int64()))
        for place, line in zip(places.tolist(), texts.to_pylist(), strict=True):
            rows.add_line(self._exact.judge(line), place + start)


def _block_size(lines: Array, start: int) -> int:
    """How many of the lines from `start` make one block; at least one."""
    number = min(_BLOCK_LINES, len(lines) - start)
    while number > 1 and lines.slice(start, number).nbytes > _BLOCK_BYTES:
        number = (number + 1) // 2
    return number


class _Rows:
    """Collects verdicts, in whatever order they come."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._blocks: list[pa.Table] = []
        self._blocks_at: list[Any] = []
        self._accepted: list[AcceptedLine] = []
        self._accepted_at: list[int] = []
        self._rejected: list[RejectedLine] = []
        self._rejected_at: list[int] = []

    def add_block(self, rows: pa.Table, places: Any) -> None:
        self._blocks.append(rows)
        self._blocks_at.append(places)

    def add_line(self, verdict: AcceptedLine | RejectedLine, place: int) -> None:
        if isinstance(verdict, AcceptedLine):
            self._accepted.append(verdict)
            self._accepted_at.append(place)
        else:
            self._rejected.append(verdict)
            self._rejected_at.append(place)

    def judged(self) -> Judged:
        schema = self._rules.accepted_schema
        tables = [self._of_block(rows).cast(schema) for rows in self._blocks]
        places = self._blocks_at
        if self._accepted:
            tables.append(self._of_lines(schema))
            places = [*places, np.array(self._accepted_at, np.int64)]
        accepted, accepted_at = _in_order(
            pa.concat_tables(tables) if tables else schema.empty_table(),
            np.concatenate(places) if places else np.array([], np.int64),
        )
        rejected, rejected_at = _in_order(
            _rejected_table(self._rejected), np.array(self._rejected_at, np.int64)
        )
        return Judged(accepted, accepted_at, rejected, rejected_at)

    def _of_block(self, rows: pa.Table) -> pa.Table:
        times = rows.column(self._rules.event_time.column)
        extra = pa.nulls(rows.num_rows, pa.string())
        rows = rows.append_column("_extra", extra)
        return rows.append_column("_event_date", times.cast(pa.date32()))

    def _of_lines(self, schema: pa.Schema) -> pa.Table:
        columns = list(zip(*(line.values for line in self._accepted), strict=True))
        arrays = [pa.array(column, schema.field(n).type) for n, column in enumerate(columns)]
        times = pa.array([line.event_micros for line in self._accepted], TIMESTAMP)
        extra = pa.array([line.extra for line in self._accepted], pa.string())
        return pa.table([*arrays, extra, times.cast(pa.date32())], schema=schema)


def _rejected_table(lines: list[RejectedLine]) -> pa.Table:
    columns: list[list[Any]] = [
        [line.reason for line in lines],
        [line.detail for line in lines],
        [line.event_micros for line in lines],
    ]
    arrays = [
        pa.array(column, field.type) for column, field in zip(columns, REJECTED_SCHEMA, strict=True)
    ]
    return pa.table(arrays, schema=REJECTED_SCHEMA)


def _in_order(rows: pa.Table, places: Any) -> tuple[pa.Table, Array]:
    """Rows in the order of their lines."""
    if (places[1:] < places[:-1]).any():
        order: Any = np.argsort(places)
        rows, places = rows.take(order), places[order]
    return rows, pa.array(places, pa.int64())
