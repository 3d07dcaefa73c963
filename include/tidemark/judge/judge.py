"""Judge lines: accepted rows and rejected ones, as Arrow tables.

Three tiers with one verdict: the block tier takes what it can prove, a block that it refuses is
halved and tried again, what is left is read line by line and judged by columns; a line that is not
accepted so, and a few lines alone, go through the exact tier. The verdict on a line depends on
nothing but the line, the rules and the batch's own time, so a batch that runs again judges the
same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidemark.judge.arrow import Array
from tidemark.judge.arrow import kernels as pc
from tidemark.judge.block import block_reader
from tidemark.judge.by_columns import ColumnJudge
from tidemark.judge.exact import AcceptedLine, ExactJudge, RejectedLine, Verdict
from tidemark.judge.fast_forms import SimpleForm
from tidemark.judge.limits import time_limits
from tidemark.judge.rules import REJECTED_SCHEMA, TIMESTAMP, Rules
from tidemark.judge.usual_fields import usual_fields

# Fewer lines than this are not worth what a call of Arrow costs for each column.
_FEW_LINES = 128
# So many lines say which unknown fields lines usually have.
_SAMPLE_LINES = 100
# So many lines are held as Python's objects at a time.
_PORTION_LINES = 4_096
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

    `by_line`: by the exact tier alone, where a faster one made an earlier try crash.
    """

    def __init__(self, rules: Rules, batch_time_ms: int, by_line: bool = False) -> None:
        limits = time_limits(rules, batch_time_ms)
        self._rules = rules
        self._limits = limits
        self._usual: dict[str, SimpleForm] = {}
        self._exact = ExactJudge(rules, limits)
        self._by_columns = None if by_line else ColumnJudge(rules, self._exact, limits)
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
        left = [np.arange(len(lines))]
        if self._block is not None:
            promising = self._block.promising(lines).to_numpy(zero_copy_only=False)
            if self._learn(lines, np.flatnonzero(~promising)):
                promising = self._block.promising(lines).to_numpy(zero_copy_only=False)
            left = [np.flatnonzero(~promising)]
            self._together(lines, np.flatnonzero(promising), start, rows, left)
        self._line_by_line(lines, np.concatenate(left), start, rows)

    def _learn(self, lines: Array, places: Any) -> bool:
        """Let blocks take unknown fields of lines that they did not take; were there new ones?"""
        if len(places) < _FEW_LINES or self._rules.unknown_fields == "reject":
            return False
        sample = lines.take(pa.array(places[:: 1 + len(places) // _SAMPLE_LINES])).to_pylist()
        read = [one for one in map(self._exact.read, sample) if isinstance(one, dict)]
        usual = usual_fields(self._rules, self._usual, read)
        if len(usual) == len(self._usual):
            return False
        self._usual = usual
        self._block = block_reader(self._rules, self._limits, usual) or self._block
        return True

    def _together(
        self, lines: Array, places: Any, start: int, rows: _Rows, left: list[Any]
    ) -> None:
        """Places of promising lines: as a block, or in halves; those that no block takes are left.

        A block that is refused is tried again without lines in which a field may stand twice, which
        is what most refusals are for.
        """
        if len(places) < _FEW_LINES:
            left.append(places)
            return
        assert self._block is not None
        chosen = lines if len(places) == len(lines) else lines.take(pa.array(places))
        if (read := self._block.read(chosen)) is not None:
            doubtful = read.doubtful.to_numpy(zero_copy_only=False)
            rows.add_block(read.rows.filter(pc.invert(read.doubtful)), places[~doubtful] + start)
            left.append(places[doubtful])
            return
        twice = self._block.may_have_twice(chosen).to_numpy(zero_copy_only=False)
        if twice.any():
            left.append(places[twice])
            self._together(lines, places[~twice], start, rows, left)
        elif len(places) < 2 * _FEW_LINES:
            left.append(places)
        else:
            for half in np.array_split(places, 2):
                self._together(lines, half, start, rows, left)

    def _line_by_line(self, lines: Array, places: Any, start: int, rows: _Rows) -> None:
        """Places of lines that no block takes."""
        for first in range(0, len(places), _PORTION_LINES):
            portion = places[first : first + _PORTION_LINES]
            texts = lines.take(pa.array(portion)).to_pylist()
            if self._by_columns is None or len(texts) < _FEW_LINES:
                for place, line in zip(portion.tolist(), texts, strict=True):
                    rows.add_line(self._exact.judge(line), place + start)
                continue
            judged = self._by_columns.judge(texts)
            rows.add_block(judged.rows, portion[judged.places] + start)
            for n, verdict in judged.rejected.items():
                rows.add_line(verdict, int(portion[n]) + start)


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

    def add_line(self, verdict: Verdict, place: int) -> None:
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
        return rows.append_column("_event_date", times.cast(pa.date32()))

    def _of_lines(self, schema: pa.Schema) -> pa.Table:
        columns = list(zip(*(line.values for line in self._accepted), strict=True))
        arrays = [pa.array(column, schema.field(n).type) for n, column in enumerate(columns)]
        times = pa.array([line.event_micros for line in self._accepted], TIMESTAMP)
        extra = pa.array([line.extra for line in self._accepted], pa.string())
        return pa.table([*arrays, extra, times.cast(pa.date32())], schema=schema)


def _rejected_table(lines: list[RejectedLine]) -> pa.Table:
    if not lines:
        return REJECTED_SCHEMA.empty_table()
    columns = zip(REJECTED_SCHEMA, zip(*lines, strict=True), strict=True)
    arrays = [pa.array(column, field.type) for field, column in columns]
    return pa.table(arrays, schema=REJECTED_SCHEMA)


def _in_order(rows: pa.Table, places: Any) -> tuple[pa.Table, Array]:
    """Rows in the order of their lines."""
    if (places[1:] < places[:-1]).any():
        order: Any = np.argsort(places)
        rows, places = rows.take(order), places[order]
    return rows, pa.array(places, pa.int64())
