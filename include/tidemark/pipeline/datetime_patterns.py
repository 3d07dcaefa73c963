"""Spark's datetime patterns, as far as a time can be read by them alike everywhere.

A pattern is that of Java's DateTimeFormatter as Spark builds it for parsing (classes
Iso8601TimestampFormatter and DateTimeFormatterHelper, and
https://spark.apache.org/docs/latest/sql-ref-datetime-pattern.html): strict, words in English and
in either case, a fraction of one digit up to as many as the pattern has, years of two digits
from 2000. It is turned into a regular expression with a group for each field; what the fields come
to is for the judge. Refused are the letters whose texts depend on Java's tables of names (`z`),
eras, quarters and the week of the month (`G`, `Q`, `q`, `F`), the day of the week, which Spark does
not read (`E`), and forms on which readers differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august"),
    *("september", "october", "november", "december"),
)

# By letter, and by how often it stands in the pattern: the field, and what its text looks like.
_FORMS: dict[str, dict[int, tuple[str, str]]] = {
    "y": {1: ("year", "[0-9]{1,9}"), 2: ("year_of_2000", "[0-9]{2}"), 4: ("year", "[0-9]{4}")},
    "M": {
        1: ("month", "[0-9]{1,9}"),
        2: ("month", "[0-9]{2}"),
        3: ("month_name", "|".join(name[:3] for name in MONTHS)),
        4: ("month_name", "|".join(MONTHS)),
    },
    "d": {1: ("day", "[0-9]{1,9}"), 2: ("day", "[0-9]{2}")},
    "D": {
        1: ("day_of_year", "[0-9]{1,9}"),
        2: ("day_of_year", "[0-9]{2,3}"),
        3: ("day_of_year", "[0-9]{3}"),
    },
    "a": {1: ("half_day", "am|pm")},
    "H": {1: ("hour", "[0-9]{1,9}"), 2: ("hour", "[0-9]{2}")},
    "k": {1: ("hour_1_24", "[0-9]{1,9}"), 2: ("hour_1_24", "[0-9]{2}")},
    "h": {1: ("hour_1_12", "[0-9]{1,9}"), 2: ("hour_1_12", "[0-9]{2}")},
    "K": {1: ("hour_0_11", "[0-9]{1,9}"), 2: ("hour_0_11", "[0-9]{2}")},
    "m": {1: ("minute", "[0-9]{1,9}"), 2: ("minute", "[0-9]{2}")},
    "s": {1: ("second", "[0-9]{1,9}"), 2: ("second", "[0-9]{2}")},
    "S": {n: ("fraction", f"[0-9]{{1,{n}}}") for n in range(1, 10)},
    "V": {2: ("zone_id", r"[A-Za-z][A-Za-z0-9_+\-]*(?:/[A-Za-z0-9_+\-]+)*")},
    "X": {
        1: ("offset", "z|[+-][0-9]{2}(?:[0-9]{2})?"),
        2: ("offset", "z|[+-][0-9]{4}"),
        3: ("offset", "z|[+-][0-9]{2}:[0-9]{2}"),
    },
    "x": {
        1: ("offset", "[+-][0-9]{2}(?:[0-9]{2})?"),
        2: ("offset", "[+-][0-9]{4}"),
        3: ("offset", "[+-][0-9]{2}:[0-9]{2}"),
    },
    "Z": {**dict.fromkeys((1, 2, 3), ("offset", "[+-][0-9]{4}"))},
}
_FORMS["L"] = _FORMS["M"]


@dataclass(frozen=True)
class DatetimePattern:
    """`expression` matches a whole text without regard to case; `fields` names its groups, in
    their order. `tells_zone`: has the text an offset or a zone of its own?"""

    expression: str
    fields: tuple[str, ...]
    tells_zone: bool


def datetime_pattern(pattern: str) -> DatetimePattern:
    """Take a pattern apart; ValueError says which part of it is not read."""
    parts, fields = [], []
    for piece in _pieces(pattern):
        if piece.startswith("'"):
            parts.append(re.escape(piece[1:]))
        elif piece in "[]":
            parts.append("(?:" if piece == "[" else ")?")
        else:
            field, form = _form(piece)
            fields.append(field)
            parts.append(f"({form})")
    zoned = any(field in ("offset", "zone_id") for field in fields)
    return DatetimePattern("".join(parts), tuple(fields), zoned)


def _form(letters: str) -> tuple[str, str]:
    forms = _FORMS.get(letters[0])
    if forms is None:
        hint = "; write an offset (Z, X, x) or a zone's name (VV)" if letters[0] in "zO" else ""
        raise ValueError(f"has the letter {letters[0]}, which is not read here{hint}")
    if len(letters) not in forms:
        allowed = ", ".join(letters[0] * number for number in sorted(forms))
        raise ValueError(f"has {letters}, which is not read here; allowed: {allowed}")
    return forms[len(letters)]


def _pieces(pattern: str) -> Iterator[str]:
    """Runs of one letter, `[`, `]`, and literal text with a quote before it."""
    position = 0
    while position < len(pattern):
        character = pattern[position]
        if character == "'":
            text, position = _quoted_text(pattern, position + 1)
            yield f"'{text}"
        elif character.isascii() and character.isalpha():
            run = next("".join(run) for _, run in groupby(pattern[position:]))
            position += len(run)
            yield run
        else:
            position += 1
            yield character if character in "[]" else f"'{character}"


def _quoted_text(pattern: str, start: int) -> tuple[str, int]:
    """The literal after a quote, and where the pattern goes on; two quotes stand for one."""
    if pattern.startswith("'", start):
        return "'", start + 1
    text: list[str] = []
    position = start
    while position < len(pattern):
        if pattern.startswith("''", position):
            text.append("'")
            position += 2
        elif pattern[position] == "'":
            return "".join(text), position + 1
        else:
            text.append(pattern[position])
            position += 1
    raise ValueError("has a quote that does not end")
