"""Instants from ISO 8601 text and from counts since 1970, in microseconds since 1970, UTC.

None where the text is no such time; nothing depends on the day on which it runs. The rules are
Spark's `try_to_timestamp` of ANSI mode, without what it adds from today or from the session.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from tidemark.judge.numbers import floor_scaled

# Date and time of ISO 8601, extended format, of the years 1 to 9999; clocks have no 24:00.
_ISO = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ]((?:[01][0-9]|2[0-3]):[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?)"
    r"( ?(?:[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?))?)?"
)
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND, _MINUTE, _DAY = 1_000_000, 60_000_000, 86_400_000_000
_MICROSECOND = timedelta(microseconds=1)
# Java's ZoneOffset goes this far.
_FURTHEST_MINUTES = 18 * 60
# From the year 1 to the year 9999.
FIRST_MICROS, LAST_MICROS = -62_135_596_800_000_000, 253_402_300_799_999_999


def iso_micros(text: str, zone: ZoneInfo | None = None) -> int | None:
    """ISO 8601 text; text without a zone only where one is stated, and there a day alone too.

    Digits beyond microseconds are cut off.
    """
    found = _ISO.fullmatch(text)
    if found is None:
        return None
    day, clock, offset = found.groups()
    try:
        since = datetime.fromisoformat(f"{day}T{clock or '00:00'}Z") - _EPOCH
    except ValueError:
        return None
    local = since // _MICROSECOND
    if offset:
        distance = offset_micros(offset.strip())
        micros = None if distance is None else local - distance
    else:
        micros = None if zone is None else in_zone(local, zone)
    # On its first and last day an offset can lead out of the calendar.
    return micros if micros is not None and FIRST_MICROS <= micros <= LAST_MICROS else None


def in_zone(local_micros: int, zone: ZoneInfo) -> int:
    """The instant of a local time, given in microseconds as if it were UTC.

    Local time that the zone's clocks pass over is counted on (02:30 is an hour after 01:30);
    local time that they show twice is the earlier one.
    """
    local = (_EPOCH + timedelta(microseconds=local_micros)).replace(tzinfo=zone, fold=0)
    offset = local.utcoffset()
    assert offset is not None
    return local_micros - offset // _MICROSECOND


def epoch_micros(text: str, power: int) -> int | None:
    """A count since 1970 of which ten to `power` microseconds make one; rounded down."""
    micros = floor_scaled(text, power, LAST_MICROS)
    return micros if micros is not None and micros >= FIRST_MICROS else None


def iso_date(text: str) -> date | None:
    """A day of the calendar as `2026-03-01`."""
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    try:
        return date(int(found[1]), int(found[2]), int(found[3]))
    except ValueError:
        return None


def timestamp_text(micros: int) -> str:
    """An instant as Spark's cast to text has it: `2026-03-01 00:00:00.5`, in UTC."""
    instant = _EPOCH + timedelta(microseconds=micros)
    fraction = f".{instant.microsecond:06}".rstrip("0") if instant.microsecond else ""
    return f"{instant.year:04}{instant:-%m-%d %H:%M:%S}{fraction}"


def utc_micros(day: tuple[int, int, int], clock: tuple[int, int, int], micros: int) -> int | None:
    """Of a date and a time of day in UTC; None where the calendar or the clock has no such."""
    hour, minute, second = clock
    if hour > 23 or minute > 59 or second > 59:
        return None
    try:
        days = date(*day).toordinal() - _EPOCH_DAY
    except ValueError:
        return None
    return days * _DAY + ((hour * 60 + minute) * 60 + second) * _SECOND + micros


def offset_micros(offset: str) -> int | None:
    """How far before UTC's a clock of `Z`, `+01`, `+0100` or `+01:00` is; None beyond 18 hours."""
    if offset in "Zz":
        return 0
    digits = offset[1:].replace(":", "")
    hours, minutes = int(digits[:2]), int(digits[2:] or 0)
    total = hours * 60 + minutes
    if minutes > 59 or total > _FURTHEST_MINUTES:
        return None
    return (-total if offset[0] == "-" else total) * _MINUTE
