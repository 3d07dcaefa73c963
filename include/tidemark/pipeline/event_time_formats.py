"""How event time can be written: ISO 8601, RFC 1123, a count since 1970, or a Spark pattern."""

from __future__ import annotations

import re
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from tidemark.pipeline.datetime_patterns import datetime_pattern
from tidemark.pipeline.problems import nearest

EPOCHS = ("epoch_seconds", "epoch_millis", "epoch_micros")
# As mail and HTTP have it: Sun, 06 Nov 1994 08:49:37 GMT.
RFC_1123 = "rfc_1123"
KNOWN = ("iso8601", RFC_1123, *EPOCHS)
# Spark's own page: https://spark.apache.org/docs/latest/sql-ref-datetime-pattern.html
_PATTERN_LETTERS = frozenset("GyDMLdQqEFahKkHmsSVzOXxZ")
_QUOTED = re.compile(r"'(?:[^']|'')*'")


def check_format(text: str) -> None:
    """ValueError when `text` is neither a known format nor a plausible datetime pattern."""
    if text in KNOWN:
        return
    unquoted = _QUOTED.sub("", text)
    letters = {letter for letter in unquoted if letter.isalpha()}
    wrong = sorted(letters - _PATTERN_LETTERS)
    if wrong or "y" not in letters or "'" in unquoted:
        raise ValueError(_refusal(text, wrong, unquoted))
    if _depth(unquoted) != 0 or set(unquoted) & set("#{}"):
        raise ValueError("has characters that Spark's datetime patterns keep for themselves")
    _check_instant(letters)
    datetime_pattern(text)


def _check_instant(letters: set[str]) -> None:
    """A pattern must tell a day, or two rows of a year would be the same instant."""
    if not ({"D"} <= letters or ({"d"} <= letters and letters & {"M", "L"})):
        raise ValueError("does not tell the day: it needs a month (M) and a day (d), or D")
    if letters & {"h", "K"} and "a" not in letters:
        raise ValueError("has an hour of the half day (h or K) without `a`; use H for 0 to 23")


def _refusal(text: str, wrong: list[str], unquoted: str) -> str:
    near = nearest(text, KNOWN)
    allowed = f"allowed: {', '.join(KNOWN)}, or a Spark datetime pattern"
    if near:
        return f"is not a known format (nearest: `{near}`); {allowed}"
    if "'" in unquoted:
        return f"has a quote that does not end; {allowed}"
    if wrong:
        return f"has letters that Spark's patterns do not know ({', '.join(wrong)}); {allowed}"
    return f"tells no year (y), so it is no time; {allowed}"


def _depth(text: str) -> int:
    depth = 0
    for character in text:
        depth += {"[": 1, "]": -1}.get(character, 0)
        if depth < 0:
            return depth
    return depth


def check_zone(name: str) -> None:
    """ValueError unless `name` is UTC or a zone of the IANA database."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        near = nearest(name, _zones())
        hint = f" (nearest: `{near}`)" if near else ""
        raise ValueError(
            f"is not a zone of the IANA database{hint}; write it as in Europe/Vienna or UTC"
        ) from None


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())
