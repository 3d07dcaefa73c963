"""Which columns can be the event time, and how their values are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice
from typing import Any

from tidemark.cli.new.column_types import MOST
from tidemark.pipeline.datetime_patterns import datetime_pattern
from tidemark.pipeline.event_time_formats import RFC_1123
from tidemark.pipeline.model import EventTime

_ISO = re.compile(
    r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}(:?\d{2})?)?)?",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Counts are told apart by their size: from the year 2000 to the year 2100.
_FIRST, _LAST = 946_684_800, 4_102_444_800
_PER_SECOND = {"epoch_seconds": 1, "epoch_millis": 1_000, "epoch_micros": 1_000_000}
# Texts of times, by `format`. Of two that read the same texts the first is taken.
_MONTH_FIRST, _DAY_FIRST = (
    tuple(f"{day}{clock}" for clock in (" H:mm:ss", " h:mm:ss a", " H:mm", " h:mm a", ""))
    for day in ("M/d/yyyy", "d/M/yyyy")
)
_DAYS = (
    *("yyyy/MM/dd", "dd.MM.yyyy", "d.M.yyyy", "MMM d yyyy", "MMM d, yyyy", "d MMM yyyy"),
    *("d-MMM-yyyy", "MMMM d, yyyy", "d MMMM yyyy"),
)
_TEXTS = (
    *("dd/MMM/yyyy:HH:mm:ss Z", RFC_1123, "yyyyMMdd'T'HHmmssX", "yyyyMMdd'T'HHmmss"),
    *(f"{day}{clock}" for day in _DAYS for clock in (" HH:mm:ss", " HH:mm", "")),
    *(*_MONTH_FIRST, *_DAY_FIRST),
)
# Of so many values one has to be written so, or no more are looked at.
_FIRST_VALUES = 100
_LARGEST_OFFSET = timedelta(hours=18)


@dataclass(frozen=True)
class TimeFormat:
    """How times are written: `format` and `zone` of a pipeline's `event_time`.

    `times` has the instant of each value; None where the value is not such a time. `without_zone`
    values tell none: they are taken for UTC where there is a `zone`, and are no times where not.
    `unlikely` values are numbers that would be a time before 2000 or after 2100. As many values are
    times in the format `other`: the sample does not tell which of the two is meant.
    """

    format: str
    zone: str | None
    times: tuple[datetime | None, ...]
    without_zone: int
    unlikely: int
    other: str | None = None

    @property
    def fitting(self) -> int:
        """How many of the values are such times."""
        return sum(time is not None for time in self.times)


def time_format(values: Sequence[Any]) -> TimeFormat | None:
    """How at least MOST of these values are written as times; None where they are none.

    Of several formats the one that most values have. Text without a zone is taken as UTC, unless
    at least MOST of the times tell theirs.
    """
    first = list(islice((value for value in values if value is not None), _FIRST_VALUES))
    readers = {
        name: read
        for name, read in _readers().items()
        if any(read(value) is not None for value in first)
    }
    if not readers:
        return None
    found = {name: [read(value) for value in values] for name, read in readers.items()}
    name, times = max(found.items(), key=lambda one: _fitting(one[1]))
    present = sum(value is not None for value in values)
    if _fitting(times) < MOST * present:
        return None
    numbers = sum(_is_number(value) for value in values) if name in _PER_SECOND else 0
    twins = dict(zip(_MONTH_FIRST, _DAY_FIRST, strict=True))
    twin = twins.get(name, "")
    other = twin if _fitting(found.get(twin, [])) == _fitting(times) else None
    return replace(_format(name, times, numbers), other=other)


def is_instant(value: Any) -> bool:
    """Is it text of ISO 8601 that tells its zone, which is what a column `timestamp` takes?"""
    return (time := iso_time(value)) is not None and time.tzinfo is not None


def is_date(value: Any) -> bool:
    """Is it a date of ISO 8601, without a time of day?"""
    return isinstance(value, str) and len(value) == 10 and iso_time(value) is not None


def iso_time(value: Any) -> datetime | None:
    """The time in text of ISO 8601, with its zone where it tells one."""
    if not isinstance(value, str) or not _ISO.fullmatch(value):
        return None
    with suppress(ValueError, OverflowError):
        time = datetime.fromisoformat(value)
        if abs(time.utcoffset() or timedelta(0)) <= _LARGEST_OFFSET and 1 < time.year < 9999:
            return time
    return None


def _fitting(times: Sequence[datetime | None]) -> int:
    return sum(time is not None and _usable(time) is not None for time in times)


def _format(name: str, times: Sequence[datetime | None], numbers: int) -> TimeFormat:
    known = [time for time in times if time is not None]
    local = sum(time.tzinfo is None for time in known)
    zone = "UTC" if len(known) - local < MOST * len(known) else None
    taken = (time if time and (zone or time.tzinfo) else None for time in times)
    usable = tuple(time and _usable(time) for time in taken)
    return TimeFormat(name, zone, usable, local, max(0, numbers - len(known)))


def _usable(time: datetime) -> datetime | None:
    """In UTC; None for a time that the ingest rejects as too old for the engine."""
    time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    return time if time >= _EPOCH else None


def _by_text(written: str) -> Callable[[Any], datetime | None]:
    """A function from a value to the time that a run reads of it, None where that is none."""
    from tidemark.judge.event_time import text_reader

    tells_zone = written == RFC_1123 or datetime_pattern(written).tells_zone
    micros_of = text_reader(
        EventTime(column="time", format=written, zone=None if tells_zone else "UTC")
    )

    def read(value: Any) -> datetime | None:
        micros = micros_of(value) if isinstance(value, str) else None
        if micros is None:
            return None
        time = _EPOCH + timedelta(microseconds=micros)
        return time if tells_zone else time.replace(tzinfo=None)

    return read


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _by_count(per_second: int) -> Callable[[Any], datetime | None]:
    def read(value: Any) -> datetime | None:
        if not _is_number(value) or not _FIRST * per_second <= value <= _LAST * per_second:
            return None
        return _EPOCH + timedelta(microseconds=round(value * (1_000_000 // per_second)))

    return read


@cache
def _readers() -> dict[str, Callable[[Any], datetime | None]]:
    return {
        "iso8601": iso_time,
        **{written: _by_text(written) for written in _TEXTS},
        **{name: _by_count(per_second) for name, per_second in _PER_SECOND.items()},
    }
