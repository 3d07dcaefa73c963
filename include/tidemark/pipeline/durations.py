"""Durations as people write them: `10 minutes`, `1 hour 30 minutes`, `250 milliseconds`.

Only units of fixed length are known, because windows, delays and retention are compared with
each other and Spark counts event-time windows in fixed lengths.
"""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 7 * 86_400_000_000,
}
_SHORT = {"ms": "millisecond", "s": "second", "sec": "second", "min": "minute"}
_SHORT |= {"m": "minute", "h": "hour", "d": "day", "w": "week"}
_NOT_FIXED = ("month", "quarter", "year")
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_PART = re.compile(r"\s*(\d{1,18}(?:\.\d{1,6})?)\s*([A-Za-z]+)\s*,?")

ALLOWED = "a number and a unit, as in `10 minutes` or `1 hour 30 minutes`"
PATTERN = r"^\s*(\d+(\.\d+)?\s*[A-Za-z]+\s*,?\s*)+$"


def parse_duration(text: object) -> timedelta:
    """A positive or zero duration in whole milliseconds; ValueError says what is wrong."""
    if isinstance(text, timedelta):
        return text
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"is not a duration; write {ALLOWED}")
    return _in_whole_milliseconds(sum(_parts(text), Decimal(0)))


def duration_text(duration: timedelta) -> str:
    """A duration in the largest unit that divides it; Spark reads it as an interval."""
    microseconds = duration // timedelta(microseconds=1)
    for unit in ("day", "hour", "minute", "second", "millisecond"):
        number, rest = divmod(microseconds, _MICROSECONDS[unit])
        if not rest and number:
            return f"{number} {unit}" + ("s" if number != 1 else "")
    return "0 seconds"


def span_text(span: timedelta) -> str:
    """A length of time in its two largest units that are not 0; below 0 it is 0."""
    rest, parts = max(0, round(span.total_seconds())), []
    for unit, seconds in _UNITS:
        number, rest = divmod(rest, seconds)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2]) or "0 s"


def _parts(text: str) -> list[Decimal]:
    parts, position = [], 0
    while position < len(text.rstrip()):
        match = _PART.match(text, position)
        if match is None:
            raise ValueError(f"is not a duration; write {ALLOWED}")
        parts.append(Decimal(match[1]) * _MICROSECONDS[_unit(match[2])])
        position = match.end()
    return parts


def _unit(word: str) -> str:
    unit = word.lower()
    unit = _SHORT.get(unit) or (unit[:-1] if unit.endswith("s") and len(unit) > 1 else unit)
    if unit in _NOT_FIXED:
        raise ValueError(f"a {unit} has no fixed length; give days or weeks")
    if unit not in _MICROSECONDS:
        raise ValueError(f"`{word}` is not a unit of time; allowed: {', '.join(_MICROSECONDS)}")
    return unit


def _in_whole_milliseconds(microseconds: Decimal) -> timedelta:
    if microseconds % 1000:
        raise ValueError("is not a whole number of milliseconds, which is what Spark counts in")
    try:
        return timedelta(milliseconds=int(microseconds // 1000))
    except OverflowError:
        raise ValueError("is longer than any duration that can be computed with") from None


def _positive(duration: timedelta) -> timedelta:
    if duration <= timedelta(0):
        raise ValueError("must be longer than zero")
    return duration


def _json_schema(text: str) -> WithJsonSchema:
    schema: dict[str, Any] = {"type": "string", "pattern": PATTERN, "description": text}
    return WithJsonSchema(schema | {"examples": ["10 minutes", "1 hour 30 minutes", "7 days"]})


_TEXT = PlainSerializer(duration_text, return_type=str, when_used="json")
Duration = Annotated[
    timedelta, BeforeValidator(parse_duration), _TEXT, _json_schema("A duration of fixed length")
]
PositiveDuration = Annotated[
    timedelta,
    BeforeValidator(lambda text: _positive(parse_duration(text))),
    _TEXT,
    _json_schema("A duration of fixed length, longer than zero"),
]
