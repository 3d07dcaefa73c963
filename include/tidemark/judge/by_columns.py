"""The tier of columns: lines that Python has read one by one, and their values column by column.

It takes the lines that the block tier cannot: those with unknown fields, with a map, with text in
another form. A column whose parts all have their fast form is read by Arrow; else each part by the
exact tier's own reader. Whether a line is rejected, the exact tier says of each that may be.
Nested values are laid out as Arrow has them: all items of all lists behind each other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from types import NoneType
from typing import Any

import numpy as np
import pyarrow as pa

from tidemark.judge.arrow import Array
from tidemark.judge.arrow import kernels as pc
from tidemark.judge.exact import ExactJudge, RejectedLine
from tidemark.judge.fast_forms import Refused, SimpleForm, event_time_form, simple_form
from tidemark.judge.kinds import ArrayKind, Kind, MapKind, StructKind, arrow_type
from tidemark.judge.limits import TimeLimits
from tidemark.judge.rules import ColumnRule, Key, Rules
from tidemark.judge.values import WRONG

ReadParts = Callable[[list[Any]], Array]
Fields = dict[Key, Any]


def parts_reader(kind: Kind) -> ReadParts:
    """A function from parts, null among them, to their values.

    It raises Refused or ArrowInvalid where a part is not of the kind, or not in its fast form.
    """
    match kind:
        case ArrayKind():
            return _lists(parts_reader(kind.item))
        case MapKind():
            return _maps(parts_reader(kind.value))
        case StructKind():
            return _structs({name: parts_reader(part) for name, part in kind.fields})
    return simple_parts_reader(simple_form(kind))


def simple_parts_reader(form: SimpleForm) -> ReadParts:
    """A function from values without parts, null among them, to those of the column."""
    held = pa.bool_() if form.read_as == pa.bool_() else pa.string()

    def read(parts: list[Any]) -> Array:
        _check_types(parts, form.types)
        array: Array = pa.array(parts, held)
        if form.text is not None:
            fits = pc.match_substring_regex(array, f"^(?:{form.text})$")
            if not pc.all(fits, min_count=0).as_py():
                raise Refused
        return form.whole(array.cast(form.read_as))

    return read


def _check_types(parts: list[Any], types: frozenset[type]) -> None:
    if not set(map(type, parts)) <= types | {NoneType}:
        raise Refused


def _lists(read_items: ReadParts) -> ReadParts:
    def read(parts: list[Any]) -> Array:
        _check_types(parts, frozenset({list}))
        items = read_items([item for part in parts if part for item in part])
        return pa.ListArray.from_arrays(_offsets(parts), items)

    return read


def _maps(read_values: ReadParts) -> ReadParts:
    def read(parts: list[Any]) -> Array:
        _check_types(parts, frozenset({dict}))
        keys = pa.array([key for part in parts if part for key in part], pa.string())
        values = read_values([value for part in parts if part for value in part.values()])
        return pa.MapArray.from_arrays(_offsets(parts), keys, values)

    return read


def _offsets(parts: list[Any]) -> Array:
    """Where each list or map begins, null where it is none, and where the last one ends."""
    ends = accumulate((len(part) if part else 0 for part in parts), initial=0)
    nulls = [part is None for part in parts]
    return pa.array(
        [None if null else end for end, null in zip(ends, [*nulls, False], strict=True)], pa.int32()
    )


def _structs(fields: dict[str, ReadParts]) -> ReadParts:
    def read(parts: list[Any]) -> Array:
        _check_types(parts, frozenset({dict}))
        columns = [
            read_field([None if part is None else part.get(name) for part in parts])
            for name, read_field in fields.items()
        ]
        nulls = pa.array([part is None for part in parts], pa.bool_())
        return pa.StructArray.from_arrays(columns, list(fields), mask=nulls)

    return read


@dataclass(frozen=True)
class JudgedPortion:
    """`rows` are accepted, in the declared columns and `_extra`; `places` say which lines these
    are. `rejected`: the other lines, by their places."""

    rows: pa.Table
    places: Any
    rejected: dict[int, RejectedLine]


class ColumnJudge:
    """Judges some lines together. Not to be shared by threads.

    `proven`: keys of columns that another tier reads, which hands them over.
    """

    def __init__(
        self, rules: Rules, limits: TimeLimits, proven: Collection[Key] = frozenset()
    ) -> None:
        self._rules = rules
        self._exact = ExactJudge(rules, limits, proven)
        self._limits = limits
        self._own = [column for column in rules.columns if column.key not in proven]
        self._readers = {
            column.name: simple_parts_reader(event_time_form(rules.event_time))
            if column.name == rules.event_time.column
            else parts_reader(column.kind)
            for column in self._own
        }

    def judge(self, lines: Sequence[bytes]) -> JudgedPortion:
        """The verdicts on lines, of which there should be some hundred."""
        read = [self._exact.read(line) for line in lines]
        malformed = {n: one for n, one in enumerate(read) if isinstance(one, RejectedLine)}
        places = np.array([n for n in range(len(read)) if n not in malformed], np.int64)
        judged = self._judged([one for one in read if isinstance(one, dict)], {})
        rejected = {int(places[n]): why for n, why in judged.rejected.items()}
        return JudgedPortion(judged.rows, places[judged.places], malformed | rejected)

    def judge_rest(self, fields: Iterable[dict[str, Any]], proven: pa.Table) -> JudgedPortion:
        """The verdicts on lines of which other columns are proven: by the fields that are left."""
        given = dict(zip(proven.column_names, proven.columns, strict=True))
        return self._judged([self._exact.taken(one) for one in fields], given)

    def _judged(self, fields: Sequence[Fields], given: Mapping[str, Any]) -> JudgedPortion:
        own, wrong = self._columns(fields)
        both = {**given, **own}
        columns = {column.name: both[column.name] for column in self._rules.columns}
        rejected = self._rejected(fields, columns, wrong)
        good = np.ones(len(fields), np.bool_)
        good[list(rejected)] = False
        places = np.flatnonzero(good)
        extras = [self._exact.extra(fields[place]) for place in places.tolist()]
        rows = pa.table(columns).filter(pa.array(good))
        rows = rows.append_column("_extra", pa.array(extras, pa.string()))
        return JudgedPortion(rows, places, rejected)

    def _columns(self, fields: Sequence[Fields]) -> tuple[dict[str, Array], dict[int, ColumnRule]]:
        """Each column's values, and of lines with one of a wrong type the first such column."""
        columns: dict[str, Array] = {}
        wrong: dict[int, ColumnRule] = {}
        for column in self._own:
            parts = [one.get(column.key) for one in fields]
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
        self, fields: Sequence[Fields], columns: Mapping[str, Any], wrong: dict[int, ColumnRule]
    ) -> dict[int, RejectedLine]:
        """Lines that the exact tier rejects by their fields, by their places."""
        doubtful = np.flatnonzero(self._doubtful(columns, wrong))
        times = columns[self._rules.event_time.column].cast(pa.int64()).take(pa.array(doubtful))
        rejected = {}
        for n, micros in zip(doubtful.tolist(), times.to_pylist(), strict=True):
            if (why := self._exact.rejection(fields[n], wrong.get(n), micros)) is not None:
                rejected[n] = why
        return rejected

    def _doubtful(self, columns: Mapping[str, Any], wrong: dict[int, ColumnRule]) -> Any:
        """Which lines may be rejected."""
        outside = self._limits.outside(columns[self._rules.event_time.column]).fill_null(True)
        doubtful = outside.to_numpy(zero_copy_only=False).copy()
        if self._rules.unknown_fields == "reject":
            doubtful[:] = True
        for column in self._own:
            if column.required and columns[column.name].null_count:
                doubtful |= columns[column.name].is_null().to_numpy(zero_copy_only=False)
        doubtful[list(wrong)] = True
        return doubtful
