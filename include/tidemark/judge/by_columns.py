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
class JudgedPortion:
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

    def judge(self, lines: Sequence[bytes]) -> JudgedPortion:
        """The verdicts on lines, of which there should be some hundred."""
        read = dict(enumerate(map(self._exact.read, lines)))
        rejected = {place: one for place, one in read.items() if isinstance(one, RejectedLine)}
        fields = {place: one for place, one in read.items() if isinstance(one, dict)}
        places = np.array(list(fields), np.int64)
        columns, wrong = self._columns(list(fields.values()))
        rejected |= self._rejected(fields, columns, wrong)
        good = np.array([place not in rejected for place in fields], np.bool_)
        extras = [self._exact.extra(fields[place]) for place in places[good].tolist()]
        rows = pa.table(columns).filter(pa.array(good))
        rows = rows.append_column("_extra", pa.array(extras, pa.string()))
        return JudgedPortion(rows, places[good], rejected)

    def _columns(self, fields: Sequence[Fields]) -> tuple[dict[str, Array], dict[int, ColumnRule]]:
        """Each column's values, and of lines with one of a wrong type the first such column."""
        columns: dict[str, Array] = {}
        wrong: dict[int, ColumnRule] = {}
        for column in self._rules.columns:
            parts = [one.get(column.name) for one in fields]
            try:
                columns[column.name] = self._readers[column.name](parts)
            except (Refused, pa.ArrowInvalid):
                columns[column.name] = self._one_by_one(column, parts, wrong)
        return columns, wrong

    def _one_by_one(
        self, column: ColumnRule, parts: Sequence[Any], wrong: dict[int, ColumnRule]
    ) -> Array:
        read = self._exact.readers[column.name]
        values = [None if part is None else read(part) for part in parts]
        for n, value in enumerate(values):
            if value is WRONG:
                wrong.setdefault(n, column)
                values[n] = None
        return pa.array(values, arrow_type(column.kind))

    def _rejected(
        self, fields: dict[int, Fields], columns: dict[str, Array], wrong: dict[int, ColumnRule]
    ) -> dict[int, RejectedLine]:
        """Lines that the exact tier rejects by their fields, by their places."""
        doubtful = np.flatnonzero(self._doubtful(columns, wrong))
        times = columns[self._rules.event_time.column].cast(pa.int64()).take(pa.array(doubtful))
        lines, rejected = list(fields.items()), {}
        for n, micros in zip(doubtful.tolist(), times.to_pylist(), strict=True):
            place, one = lines[n]
            if (why := self._exact.rejection(one, wrong.get(n), micros)) is not None:
                rejected[place] = why
        return rejected

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
