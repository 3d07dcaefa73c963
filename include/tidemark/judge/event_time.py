"""A row's event time from what its line holds, in microseconds since 1970, UTC."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from tidemark.judge.instants import (
    FIRST_MICROS,
    LAST_MICROS,
    epoch_micros,
    in_zone,
    iso_micros,
    offset_micros,
    utc_micros,
)
from tidemark.judge.json_text import Number
from tidemark.judge.numbers import is_quoted_number
from tidemark.pipeline.datetime_patterns import MONTHS, datetime_pattern
from tidemark.pipeline.event_time_formats import RFC_1123
from tidemark.pipeline.model import EventTime

_PER_FRACTION = 6
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY_MICROS = 86_400_000_000
# Of fields in one of these sets each says something of what the others say.
_OF_ONE_PART = (
    frozenset({"year", "year_of_2000"}),
    frozenset({"month", "month_name", "day_of_year"}),
    frozenset({"day", "day_of_year"}),
    frozenset({"hour", "hour_1_24", "hour_1_12", "hour_0_11"}),
    frozenset({"hour", "hour_1_24", "half_day"}),
)
# By format: how many powers of ten more microseconds there are.
EPOCH_POWERS = {"epoch_seconds": 6, "epoch_millis": 3, "epoch_micros": 0}
ISO = "iso8601"


class PatternReader:
    """Reads texts of one pattern; `zone` is that of text that tells none."""

    def __init__(self, pattern: str, zone: ZoneInfo | None) -> None:
        parsed = datetime_pattern(pattern)
        self._expression = re.compile(parsed.expression, re.IGNORECASE | re.ASCII)
        self._fields = parsed.fields
        self._tells_twice = any(len(one.intersection(parsed.fields)) > 1 for one in _OF_ONE_PART)
        self._zone = zone
        self._zones: dict[str, ZoneInfo | None] = {}

    def micros(self, text: str) -> int | None:
        """The instant; None where the text is no such time, or tells no zone and none is stated."""
        found = self._expression.fullmatch(text)
        if found is None:
            return None
        fields: dict[str, str] = {}
        for name, value in zip(self._fields, found.groups(), strict=True):
            if value is not None and fields.setdefault(name, value) != value:
                return None
        local = _local_micros(fields)
        if local is None or (self._tells_twice and not _agree(fields, local)):
            return None
        micros = self._instant(local, fields)
        return micros if micros is not None and FIRST_MICROS <= micros <= LAST_MICROS else None

    def _instant(self, local: int, fields: Mapping[str, str]) -> int | None:
        if "offset" in fields:
            offset = offset_micros(fields["offset"])
            return None if offset is None else local - offset
        zone = self._zone_of(fields["zone_id"]) if "zone_id" in fields else self._zone
        try:
            return None if zone is None else in_zone(local, zone)
        except OverflowError:
            return None

    def _zone_of(self, name: str) -> ZoneInfo | None:
        """Names of zones are read in either case, as all words are."""
        if name not in self._zones:
            known = _zones().get(name.lower())
            self._zones[name] = None if known is None else ZoneInfo(known)
        return self._zones[name]


@cache
def _zones() -> dict[str, str]:
    return {name.lower(): name for name in available_timezones()}


def _local_micros(fields: Mapping[str, str]) -> int | None:
    day, hour = _day(fields), _hour(fields)
    if day is None or hour is None:
        return None
    fraction = fields.get("fraction", "")[:_PER_FRACTION].ljust(_PER_FRACTION, "0")
    clock = hour, int(fields.get("minute", 0)), int(fields.get("second", 0))
    return utc_micros((day.year, day.month, day.day), clock, int(fraction))


def _agree(fields: Mapping[str, str], local: int) -> bool:
    """Does each field say what the local time has? Java holds them against each other too, so
    that `DD` for `dd`, or `HH` with `a`, reads no other day or hour than the text's."""
    time = _EPOCH + timedelta(microseconds=local)
    has = {
        "year": time.year,
        "year_of_2000": time.year - 2000,
        "month": time.month,
        "day": time.day,
        "day_of_year": time.timetuple().tm_yday,
        "hour": time.hour,
        "hour_1_24": time.hour or 24,
        "hour_1_12": time.hour % 12 or 12,
        "hour_0_11": time.hour % 12,
    }
    if any(int(value) != has[name] for name, value in fields.items() if name in has):
        return False
    half = "pm" if time.hour >= 12 else "am"
    if fields.get("half_day", half).lower() != half:
        return False
    return MONTHS[time.month - 1].startswith(fields.get("month_name", "").lower())


def _day(fields: Mapping[str, str]) -> date | None:
    year = 2000 + int(fields["year_of_2000"]) if "year_of_2000" in fields else None
    year = int(fields.get("year", 1970)) if year is None else year
    try:
        if "day_of_year" not in fields:
            return date(year, _month(fields), int(fields.get("day", 1)))
        number = int(fields["day_of_year"])
        found = date(year, 1, 1) + timedelta(days=number - 1)
    except (ValueError, OverflowError):
        return None
    return found if found.year == year and number > 0 else None


def _month(fields: Mapping[str, str]) -> int:
    name = fields.get("month_name", "").lower()
    if not name:
        return int(fields.get("month", 1))
    return 1 + next(n for n, month in enumerate(MONTHS) if month.startswith(name))


def _hour(fields: Mapping[str, str]) -> int | None:
    """Of 0 to 23, from the first form of hours that the text has; a half day alone is its first
    hour, as Spark has it."""
    if "hour" in fields:
        return int(fields["hour"])
    if "hour_1_24" in fields:
        hour = int(fields["hour_1_24"])
        return hour % 24 if 1 <= hour <= 24 else None
    half = 12 if fields.get("half_day", "").lower() == "pm" else 0
    if "hour_1_12" not in fields and "hour_0_11" not in fields:
        return half
    lowest = 1 if "hour_1_12" in fields else 0
    hour = int(fields.get("hour_1_12", fields.get("hour_0_11", 0)))
    return hour % 12 + half if lowest <= hour <= lowest + 11 else None


class MailReader:
    """Reads times of mail and HTTP (RFC 1123, RFC 5322 3.3): `Sun, 06 Nov 1994 08:49:37 GMT`.

    The day of the week may be missing, and so may seconds; a day that is another one than the date
    has is none. Zones are offsets, GMT, UT and UTC: the other names are of no use (RFC 5322 4.3).
    """

    _EXPRESSION = re.compile(
        f"(?:({'|'.join(_WEEKDAYS)}), ?)?(.+) (?:([+-][0-9]{{4}})|GMT|UTC?)",
        re.IGNORECASE | re.ASCII,
    )

    def __init__(self) -> None:
        self._local = PatternReader("d MMM yyyy HH:mm[:ss]", ZoneInfo("UTC"))

    def micros(self, text: str) -> int | None:
        """The instant; None where the text is no such time."""
        found = self._EXPRESSION.fullmatch(text)
        local = self._local.micros(found[2]) if found else None
        if found is None or local is None:
            return None
        # 1970 began on a Thursday.
        if found[1] and _WEEKDAYS[(local // _DAY_MICROS + 3) % 7] != found[1].title():
            return None
        offset = offset_micros(found[3] or "Z")
        micros = None if offset is None else local - offset
        return micros if micros is not None and FIRST_MICROS <= micros <= LAST_MICROS else None


def stated_zone(event_time: EventTime) -> ZoneInfo | None:
    """The zone of text that has none, where the pipeline states one."""
    return None if event_time.zone is None else ZoneInfo(event_time.zone)


def text_reader(event_time: EventTime) -> Callable[[str], int | None]:
    """A function from an event time's text to its instant; None where it is no such time.

    Of an epoch: from the text of a number, in quotes or not.
    """
    if event_time.format in EPOCH_POWERS:
        power = EPOCH_POWERS[event_time.format]
        return lambda text: epoch_micros(text, power) if is_quoted_number(text) else None
    zone = stated_zone(event_time)
    if event_time.format == ISO:
        return lambda text: iso_micros(text, zone)
    if event_time.format == RFC_1123:
        return MailReader().micros
    return PatternReader(event_time.format, zone).micros


def event_time_reader(
    event_time: EventTime, numbers_in_text: bool = True
) -> Callable[[Any], int | None]:
    """A function from a part of a line to its instant, None where it is no such time: a number
    stands for an epoch only, and for one a text only with `numbers_in_text`."""
    read = text_reader(event_time)
    takes_numbers = event_time.format in EPOCH_POWERS
    takes_texts = numbers_in_text or not takes_numbers

    def read_part(part: Any) -> int | None:
        if takes_numbers and type(part) is Number:
            return read(part.decode())
        return read(part) if takes_texts and type(part) is str else None

    return read_part


def zone_question(event_time: EventTime) -> Callable[[Any], bool]:
    """A function that tells of a part which is no event time: would it be one, if the pipeline
    stated a zone?"""
    if event_time.format in EPOCH_POWERS or event_time.zone is not None:
        return lambda part: False
    read = text_reader(event_time.model_copy(update={"zone": "UTC"}))
    return lambda part: type(part) is str and read(part) is not None
