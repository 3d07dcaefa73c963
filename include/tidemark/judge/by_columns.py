"""The tier of columns: lines that Python has read one by one, and their values column by column.

It takes the lines that the block tier cannot: those with unknown fields, with a map, with text in
another form. A column whose parts all have their fast form is read by Arrow; else each part by the
exact tier's own reader. Whether a line is rejected, the exact tier says of each that may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidemark.judge.arrow import Array
from tidemark.judge.exact import ExactJudge, RejectedLine
from tidemark.judge.fast_forms import Refused, event_time_form
from tidemark.judge.kinds import arrow_type
from tidemark.judge.limits import TimeLimits
from tidemark.judge.parts import parts_reader, simple_parts_reader
from tidemark.judge.rules import ColumnRule, Rules
from tidemark.judge.values import WRONG

Fields = dict[str, Any]


@dataclass(frozen=True)
class JudgedLines:
    """`rows` are accepted, in the declared columns and `_extra`; `places` say which lines these
    are. `rejected`: the other lines, by their places."""

    rows: pa.Table
    places: Any
    rejected: dict[int, RejectedLine]


class ColumnJudge:
    """Judges some lines together. Not to be shared by threads."""

    def __init__(self, rules: Rules, exact: ExactJudge, limits: TimeLimits) -> None:
        self._rules = rules
        self._exact = exact
        self._limits = limits
        self._readers = {
            column.name: simple_parts_reader(event_time_form(rules.event_time))
            if column.name == rules.event_time.column
            else parts_reader(column.kind)
            for column in rules.columns
        }

    def judge(self, lines: Sequence[bytes]) -> JudgedLines:
        """The verdicts on lines, of which there should be some hundred."""
        fields: list[Fields] = []
        places: list[int] = []
        rejected: dict[int, RejectedLine] = {}
        for place, line in enumerate(lines):
            read = self._exact.read(line)
            if isinstance(read, RejectedLine):
                rejected[place] = read
            else:
                fields.append(read)
                places.append(place)
        columns, wrong = self._columns(fields)
        good = np.ones(len(fields), np.bool_)
        doubtful = np.flatnonzero(self._doubtful(columns, wrong))
        times = columns[self._rules.event_time.column].cast(pa.int64()).take(pa.array(doubtful))
        for n, micros in zip(doubtful.tolist(), times.to_pylist(), strict=True):
            why = self._exact.rejection(fields[n], wrong.get(n), micros)
            if why is not None:
                rejected[places[n]] = why
                good[n] = False
        accepted = [one for one, is_good in zip(fields, good.tolist(), strict=True) if is_good]
        rows = pa.table(columns).filter(pa.array(good))
        extras = pa.array([self._exact.extra(one) for one in accepted], pa.string())
        rows = rows.append_column("_extra", extras)
        return JudgedLines(rows, np.array(places, np.int64)[good], rejected)

    def _columns(self, fields: Sequence[Fields]) -> tuple[dict[str, Array], dict[int, ColumnRule]]:
        """Each column's values, and of lines with one of a wrong type the first such column."""
        columns: dict[str, Array] = {}
        wrong: dict[int, ColumnRule] = {}
        for column in self._rules.columns:
            parts = [one.get(column.name) for one in fields]
            try:
                columns[column.name] = self._readers[column.name](parts)
            except (Refused, pa.ArrowInvalid):
                read = self._exact.readers[column.name]
                values = [None if part is None else read(part) for part in parts]
                for n, value in enumerate(values):
                    if value is WRONG:
                        wrong.setdefault(n, column)
                        values[n] = None
                columns[column.name] = pa.array(values, arrow_type(column.kind))
        return columns, wrong

    def _doubtful(self, columns: dict[str, Array], wrong: dict[int, ColumnRule]) -> Any:
        """Which lines may be rejected."""
        outside = self._limits.outside(columns[self._rules.event_time.column]).fill_null(True)
        doubtful = outside.to_numpy(zero_copy_only=False).copy()
        if self._rules.unknown_fields == "reject":
            doubtful[:] = True
        for column in self._rules.columns:
            if column.required and columns[column.name].null_count:
                doubtful |= columns[column.name].is_null().to_numpy(zero_copy_only=False)
        doubtful[list(wrong)] = True
        return doubtful
