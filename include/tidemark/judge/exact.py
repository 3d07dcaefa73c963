"""The exact tier: one line, read by Python, and its verdict. This is the definition.

Reasons are asked in this order, and the first that applies is the line's: malformed; a required
column that is missing or null, in the columns' order; a value of a wrong type, in the same order;
an unknown field, where these are rejected; an event time before 1970; one that is too old; one
in the future. docs/judging.md says each in words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidemark.judge.event_time import event_time_reader, lacks_zone
from tidemark.judge.instants import iso_micros, timestamp_text
from tidemark.judge.json_text import LineReader, NotAnObject, json_text
from tidemark.judge.kinds import SimpleKind
from tidemark.judge.limits import TimeLimits
from tidemark.judge.reasons import (
    FUTURE,
    MALFORMED,
    MISSING_FIELD,
    SHOWN,
    TOO_OLD,
    UNKNOWN_FIELD,
    WRONG_TYPE,
)
from tidemark.judge.rules import ColumnRule, Rules
from tidemark.judge.values import WRONG, has_structs, unknown_parts, unknown_paths, value_reader


@dataclass(frozen=True)
class AcceptedLine:
    """A value for each declared column, in their order, and the JSON of unknown fields.

    `event_micros` is the event time, which is also among the values.
    """

    values: tuple[Any, ...]
    extra: str | None
    event_micros: int


@dataclass(frozen=True)
class RejectedLine:
    """Why, and the event time where it could be read."""

    reason: str
    detail: str
    event_micros: int | None = None


class ExactJudge:
    """Judges lines one by one. Not to be shared by threads."""

    def __init__(self, rules: Rules, limits: TimeLimits) -> None:
        self._rules = rules
        self._limits = limits
        self._lines = LineReader()
        time = rules.event_time.column
        self._read_time = event_time_reader(rules.event_time)
        self._time_place = next(n for n, one in enumerate(rules.columns) if one.name == time)
        self._readers = [
            (column, self._time_value if column.name == time else value_reader(column.kind))
            for column in rules.columns
        ]
        self._required = [column.name for column in rules.columns if column.required]
        self._names = frozenset(column.name for column in rules.columns)
        self._nested = [
            (column.name, column.kind) for column in rules.columns if has_structs(column.kind)
        ]

    def judge(self, line: bytes) -> AcceptedLine | RejectedLine:
        """The line's verdict; `line` is without its end."""
        try:
            fields = self._lines.read(line)
        except NotAnObject as error:
            return RejectedLine(MALFORMED, str(error))
        values: list[Any] = []
        wrong: ColumnRule | None = None
        for column, read in self._readers:
            part = fields.get(column.name)
            value = None if part is None else read(part)
            if value is WRONG:
                wrong, value = wrong or column, None
            values.append(value)
        micros: int | None = values[self._time_place]
        unknown = self._unknown(fields) if wrong is None else {}
        rejected = self._rejected(fields, wrong, unknown, micros)
        if rejected is not None:
            return RejectedLine(*rejected, micros)
        assert micros is not None
        keeps = unknown and self._rules.unknown_fields == "keep"
        return AcceptedLine(tuple(values), json_text(unknown) if keeps else None, micros)

    def _time_value(self, part: Any) -> Any:
        micros = self._read_time(part)
        return WRONG if micros is None else micros

    def _unknown(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Unknown fields, and those within values, by the columns' names."""
        unknown: dict[str, Any] = {}
        if len(fields) > len(self._names) or not fields.keys() <= self._names:
            unknown = {name: part for name, part in fields.items() if name not in self._names}
        for name, kind in self._nested:
            if (parts := unknown_parts(kind, fields.get(name))) is not None:
                unknown[name] = parts
        return unknown

    def _rejected(
        self,
        fields: Mapping[str, Any],
        wrong: ColumnRule | None,
        unknown: Mapping[str, Any],
        micros: int | None,
    ) -> tuple[str, str] | None:
        for name in self._required:
            if fields.get(name) is None:
                absent = "null" if name in fields else "missing"
                return MISSING_FIELD, f"{name} is {absent}"
        if wrong is not None:
            return WRONG_TYPE, self._wrong_detail(wrong, fields[wrong.name])
        if unknown and self._rules.unknown_fields == "reject":
            names = ", ".join(self._unknown_names(fields))
            return UNKNOWN_FIELD, f"unknown: {names[:SHOWN]}"
        assert micros is not None
        return self._outside(micros)

    def _unknown_names(self, fields: Mapping[str, Any]) -> list[str]:
        names = [name for name in fields if name not in self._names]
        for name, kind in self._nested:
            names += unknown_paths(kind, fields.get(name), name)
        return list(dict.fromkeys(names))

    def _wrong_detail(self, column: ColumnRule, part: Any) -> str:
        detail = f"{column.name} should be {column.type}, found {json_text(part)[:SHOWN]}"
        return f"{detail}, which tells no zone" if self._lacks_zone(column, part) else detail

    def _lacks_zone(self, column: ColumnRule, part: Any) -> bool:
        if column.name == self._rules.event_time.column:
            return lacks_zone(part, self._rules.event_time)
        return column.kind == SimpleKind("timestamp") and _is_local_time(part)

    def _outside(self, micros: int) -> tuple[str, str] | None:
        name, limits = self._rules.event_time.column, self._limits
        if micros < 0:
            return (
                WRONG_TYPE,
                f"{name} is before 1970-01-01, where the engine's watermark begins",
            )
        if micros < limits.oldest_micros:
            return TOO_OLD, f"{self._shown(micros)} {self._rules.keep} before the batch's time"
        if micros > limits.newest_micros:
            return FUTURE, f"{self._shown(micros)} {self._rules.max_future} after the batch's time"
        return None

    def _shown(self, micros: int) -> str:
        """No time of the batch in it: that of another run would make it another detail."""
        return f"{self._rules.event_time.column} is {timestamp_text(micros)}, more than"


def _is_local_time(part: Any) -> bool:
    return type(part) is str and iso_micros(part) is None and iso_micros(f"{part}Z") is not None
