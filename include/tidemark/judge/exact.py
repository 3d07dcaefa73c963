"""The exact tier: one line, read by Python, and its verdict. This is the definition.

Reasons are asked in this order, and the first that applies is the line's: malformed; a required
column that is missing or null, in the columns' order; a value of a wrong type, in the same order;
an unknown field, where these are rejected; an event time before 1970; one that is too old; one
in the future. docs/judging.md says each in words.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from tidemark.judge.event_time import event_time_reader, zone_question
from tidemark.judge.fields import (
    NoObject,
    names_left,
    put_within,
    take_out,
    text_reader,
    within_objects,
)
from tidemark.judge.instants import iso_micros, timestamp_text
from tidemark.judge.json_text import LineReader, NotAnObject, json_text
from tidemark.judge.kinds import SimpleKind
from tidemark.judge.limits import TimeLimits
from tidemark.judge.rules import ColumnRule, Key, Rules
from tidemark.judge.values import WRONG, ReadValue, unknown_finder, unknown_paths, value_reader
from tidemark.pipeline.reasons import (
    FUTURE,
    MALFORMED,
    MISSING_FIELD,
    SHOWN,
    TOO_OLD,
    UNKNOWN_FIELD,
    WRONG_TYPE,
)


# Tuples, for there may be one for each line: they cost half of what a frozen dataclass does.
class AcceptedLine(NamedTuple):
    """A value for each declared column, in their order, and the JSON of unknown fields."""

    values: tuple[Any, ...]
    extra: str | None


class RejectedLine(NamedTuple):
    """Why, and the event time where it could be read."""

    reason: str
    detail: str
    event_micros: int | None = None


Verdict = AcceptedLine | RejectedLine


class ExactJudge:
    """Judges lines one by one. Not to be shared by threads.

    `readers`: of each column a function from a part, which is not null, to its value or WRONG.
    `proven`: keys of columns that another tier has read: no fields that this one is given.
    """

    def __init__(
        self, rules: Rules, limits: TimeLimits, proven: Collection[Key] = frozenset()
    ) -> None:
        self._rules = rules
        self._limits = limits
        self._lines = LineReader()
        self._time = next(one for one in rules.columns if one.name == rules.event_time.column)
        times = [column.name for column in rules.columns if column.kind == SimpleKind("timestamp")]
        self._lacks_zone: dict[str, Callable[[Any], bool]] = dict.fromkeys(times, _is_local_time)
        self._lacks_zone[self._time.name] = zone_question(rules.event_time)
        self.readers: dict[str, ReadValue] = {
            column.name: value_reader(column.kind) for column in rules.columns
        } | {self._time.name: _time_reader(rules)}
        self._required = [one for one in rules.columns if one.required and one.key not in proven]
        self._keys = frozenset(column.key for column in rules.columns)
        self._within = within_objects(rules.columns)
        self._texts = [
            (column.key, text_reader(column)) for column in rules.columns if column.has_texts
        ]
        finders = [(column, unknown_finder(column.kind)) for column in rules.columns]
        self._nested = [(column, find) for column, find in finders if find is not None]

    def judge(self, line: bytes) -> Verdict:
        """The line's verdict; `line` is without its end."""
        fields = self.read(line)
        return fields if isinstance(fields, RejectedLine) else self.verdict(fields)

    def read(self, line: bytes) -> dict[Key, Any] | RejectedLine:
        """The line's fields by the columns' keys, unknown ones by their names; or that it is
        malformed."""
        try:
            return self.taken(self._lines.read(line))
        except NotAnObject as error:
            return RejectedLine(MALFORMED, str(error))

    def taken(self, fields: dict[Any, Any]) -> dict[Key, Any]:
        """A line's fields as `read` has them, from those by their names, which are changed."""
        if self._within:
            take_out(fields, self._within, fields)
        for key, read in self._texts:
            if type(part := fields.get(key)) is str:
                fields[key] = read(part)
        return fields

    def verdict(self, fields: Mapping[Key, Any]) -> Verdict:
        """That on a line which is not malformed."""
        time = self.value(self._time, fields)
        micros: int | None = None if time is WRONG else time
        values: list[Any] = []
        wrong: ColumnRule | None = None
        for column in self._rules.columns:
            value = time if column is self._time else self.value(column, fields)
            if value is WRONG:
                wrong = column
                break
            values.append(value)
        rejected = self.rejection(fields, wrong, micros)
        return rejected or AcceptedLine(tuple(values), self.extra(fields))

    def rejection(
        self, fields: Mapping[Key, Any], wrong: ColumnRule | None, micros: int | None
    ) -> RejectedLine | None:
        """Why a line is not accepted, by the first column with a value of a wrong type, and by the
        event time where it is one."""
        for column in self._required:
            if fields.get(column.key) is None:
                absent = "null" if column.key in fields else "missing"
                return RejectedLine(MISSING_FIELD, f"{column.label} is {absent}", micros)
        if wrong is not None:
            return RejectedLine(WRONG_TYPE, self._wrong_detail(wrong, fields[wrong.key]), micros)
        if self._rules.unknown_fields == "reject" and self._unknown(fields):
            names = ", ".join(self._unknown_names(fields))
            return RejectedLine(UNKNOWN_FIELD, f"unknown: {names[:SHOWN]}", micros)
        assert micros is not None
        outside = self._outside(micros)
        return None if outside is None else RejectedLine(*outside, micros)

    def extra(self, fields: Mapping[Key, Any]) -> str | None:
        """The JSON of an accepted line's unknown fields, where these are kept."""
        unknown = self._unknown(fields) if self._rules.unknown_fields == "keep" else None
        return json_text(unknown) if unknown else None

    def _unknown(self, fields: Mapping[Key, Any]) -> dict[str, Any]:
        """Unknown fields, and those within values, by the columns' names."""
        unknown: dict[str, Any] = {}
        if not fields.keys() <= self._keys:
            unknown = {str(name): part for name, part in fields.items() if name not in self._keys}
        for column, find in self._nested:
            part = fields.get(column.key)
            if part is not None and (rest := find(part)) is not None:
                put_within(unknown, column.path, rest)
        return unknown

    def value(self, column: ColumnRule, fields: Mapping[Key, Any]) -> Any:
        """A column's value among a line's fields: null where it has none, or WRONG."""
        part = fields.get(column.key)
        return None if part is None else self.readers[column.name](part)

    def _unknown_names(self, fields: Mapping[Key, Any]) -> list[str]:
        names = list(names_left(fields, self._keys, self._within))
        for column, _ in self._nested:
            names += unknown_paths(column.kind, fields.get(column.key), ".".join(column.path))
        return list(dict.fromkeys(names))

    def _wrong_detail(self, column: ColumnRule, part: Any) -> str:
        if isinstance(part, NoObject):
            found = f"{json_text(part.part)[:SHOWN]} in the place of an object with it"
            return f"{column.label} should be {column.type}, found {found}"
        detail = f"{column.label} should be {column.type}, found {json_text(part)[:SHOWN]}"
        lacks_zone = self._lacks_zone.get(column.name)
        return f"{detail}, which tells no zone" if lacks_zone and lacks_zone(part) else detail

    def _outside(self, micros: int) -> tuple[str, str] | None:
        limits = self._limits
        if micros < 0:
            return (
                WRONG_TYPE,
                f"{self._time.label} is before 1970-01-01, where the engine's watermark begins",
            )
        if micros < limits.oldest_micros:
            return TOO_OLD, f"{self._shown(micros)} {self._rules.keep} before the batch's time"
        if micros > limits.newest_micros:
            return FUTURE, f"{self._shown(micros)} {self._rules.max_future} after the batch's time"
        return None

    def _shown(self, micros: int) -> str:
        """No time of the batch in it: that of another run would make it another detail."""
        return f"{self._time.label} is {timestamp_text(micros)}, more than"


def _time_reader(rules: Rules) -> ReadValue:
    read = event_time_reader(rules.event_time, rules.numbers_in_text)

    def read_part(part: Any) -> Any:
        micros = read(part)
        return WRONG if micros is None else micros

    return read_part


def _is_local_time(part: Any) -> bool:
    return type(part) is str and iso_micros(part) is None and iso_micros(f"{part}Z") is not None
