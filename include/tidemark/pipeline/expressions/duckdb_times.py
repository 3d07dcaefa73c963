"""Dates, timestamps and intervals in DuckDB as Spark has them."""

from __future__ import annotations

import re

from sqlglot import exp

from tidemark.pipeline.expressions.duckdb_values import (
    DATE,
    INT,
    INTERVAL,
    MONTHS,
    NULL,
    TEXT,
    TIMES,
    TIMESTAMP,
    UNKNOWN,
    Kind,
    Untranslated,
    Value,
    call,
    cast,
)

_DAY = r"\d{4}-\d{2}-\d{2}"
_DATE_TEXT = re.compile(_DAY)
_TIME_TEXT = re.compile(
    rf"{_DAY}([T ]\d{{2}}:\d{{2}}:\d{{2}}(\.\d{{1,6}})?(Z|[+-]\d{{2}}:\d{{2}})?)?"
)
_UNITS = {"SECOND": INTERVAL, "MINUTE": INTERVAL, "HOUR": INTERVAL, "DAY": INTERVAL}
_UNITS |= {"WEEK": INTERVAL, "MONTH": MONTHS, "YEAR": MONTHS}
_WHOLE = re.compile(r"[+-]?\d{1,9}")
_OF_TIME = (*TIMES, INTERVAL.name, MONTHS.name)


def alike(values: list[Value]) -> tuple[list[exp.Expr], Kind]:
    """Times that are compared, or of which one is chosen; text where it is written out."""
    stamped = any(value.kind == TIMESTAMP for value in values)
    kind = TIMESTAMP if stamped else DATE
    return [_as(kind, value) for value in values], kind


def _as(kind: Kind, value: Value) -> exp.Expr:
    if value.literal is not None:
        return text_as(kind, value.literal).sql
    if value.kind.name not in (*TIMES, NULL.name, UNKNOWN.name):
        raise Untranslated(f"{kind} and {value.kind} are compared in another way; cast one of them")
    return _to_timestamp(value.sql) if kind == TIMESTAMP and value.kind == DATE else value.sql


def _to_timestamp(value: exp.Expr) -> exp.Expr:
    return cast(value, "timestamptz")


def text_as(kind: Kind, text: str) -> Value:
    """A date or a timestamp as it is written; the engines read other spellings differently."""
    pattern = _DATE_TEXT if kind == DATE else _TIME_TEXT
    if not pattern.fullmatch(text):
        form = "2026-01-31" if kind == DATE else "2026-01-31 10:00:00Z"
        raise Untranslated(f"write the {kind} '{text}' as in '{form}'")
    to = "date" if kind == DATE else "timestamptz"
    return Value(cast(exp.Literal.string(text), to), kind)


def interval(node: exp.Expr) -> Value:
    """So many of one unit."""
    unit = str(node.args.get("unit")).upper().removesuffix("S")
    number = node.this.name if isinstance(node.this, exp.Literal) else ""
    if unit not in _UNITS or not _WHOLE.fullmatch(number):
        raise Untranslated("write an interval as in `interval 10 minutes`")
    name = "to_" + unit.lower() + "s"
    whole = cast(exp.Literal.string(number), "int")
    return Value(call(name, whole), _UNITS[unit], literal=None)


def is_of_time(left: Value, right: Value) -> bool:
    return left.kind.name in _OF_TIME or right.kind.name in _OF_TIME


def arithmetic(node: exp.Expr, left: Value, right: Value) -> Value:
    """A time and an interval or days, two times, two intervals."""
    adds, subtracts = isinstance(node, exp.Add), isinstance(node, exp.Sub)
    kinds = (left.kind, right.kind)
    if UNKNOWN in kinds or NULL in kinds:
        return Value(type(node)(this=left.sql, expression=right.sql), UNKNOWN)
    if adds and right.kind.name in TIMES:
        left, right = right, left
    pair = type(node)(this=exp.Paren(this=left.sql), expression=exp.Paren(this=right.sql))
    if subtracts and left.kind == right.kind == DATE:
        return Value(call("to_days", cast(pair, "int")), INTERVAL)
    if subtracts and {left.kind, right.kind} <= {DATE, TIMESTAMP}:
        sides = [_to_timestamp(exp.Paren(this=side.sql)) for side in (left, right)]
        return Value(exp.Paren(this=exp.Sub(this=sides[0], expression=sides[1])), INTERVAL)
    if (adds or subtracts) and left.kind == DATE and right.kind in (INT, MONTHS):
        return Value(cast(pair, "date"), DATE)
    if (adds or subtracts) and left.kind == DATE and right.kind == INTERVAL:
        if _is_of_days(right):
            return Value(cast(pair, "date"), DATE)
        raise Untranslated("a date and a part of a day; cast the date to timestamp")
    if (adds or subtracts) and left.kind == TIMESTAMP and right.kind in (INTERVAL, MONTHS):
        return Value(exp.Paren(this=pair), TIMESTAMP)
    if (adds or subtracts) and left.kind == right.kind == INTERVAL:
        return Value(exp.Paren(this=pair), INTERVAL)
    raise Untranslated(f"{left.kind} and {right.kind} go together in another way")


def _is_of_days(value: Value) -> bool:
    found = value.sql.this if isinstance(value.sql, exp.Paren) else value.sql
    return isinstance(found, exp.Anonymous) and str(found.this) in ("to_days", "to_weeks")


def part(node: exp.Expr, value: Value) -> Value:
    """The hour or the minute, in UTC."""
    if value.kind == TEXT:
        raise Untranslated("text is read as a time in another way; cast it")
    if value.kind not in (DATE, TIMESTAMP, NULL, UNKNOWN):
        raise Untranslated(f"{value.kind} is no time")
    return Value(cast(call(str(node.key), _to_timestamp(value.sql)), "int"), INT)
