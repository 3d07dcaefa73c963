"""Which stretches of time are the days, weeks, months, quarters or years of a time zone.

A unit begins when it is midnight there for the first time, and lasts until the next one begins: a
day on which clocks change has 23 or 25 hours, in some zones another length. A day that a zone left
out (Samoa's 30 December 2011) is none. The rules of zones are those of Python's `zoneinfo` alone:
both engines are given the boundaries, so that they cannot differ in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, get_args
from zoneinfo import ZoneInfo

import pyarrow as pa

from tidemark.pipeline.model import CalendarWindow, Weekday

_DAY = timedelta(days=1)
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
# What is later is in one last unit: what comes after it could not be told.
_LAST = date(9998, 1, 1)
_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Unit:
    """One of them: start <= event time < end, in UTC, and its first day there."""

    start: datetime
    end: datetime
    local_date: date


def unit_at(window: CalendarWindow, instant: datetime) -> Unit:
    """The unit that an instant is in."""
    zone = ZoneInfo(window.zone)
    last = _midnight(zone, _LAST)
    if instant >= last:
        return Unit(last, _NEVER, _LAST)
    first = _first_day(window, instant.astimezone(zone).date())
    # A clock that is set back over midnight shows the day before once more.
    while _midnight(zone, following := _next(window, first)) <= instant:
        first = following
    start = _midnight(zone, first)
    while (end := _midnight(zone, following)) == start:
        following = _next(window, following)
    return Unit(start, min(end, last), first)


def units(window: CalendarWindow, first: datetime, last: datetime) -> Iterator[Unit]:
    """All from the one that the first instant is in to the one that the last is in, in order."""
    unit = unit_at(window, first)
    yield unit
    while unit.end <= last and unit.end < _NEVER:
        unit = unit_at(window, unit.end)
        yield unit


def units_of(window: CalendarWindow, windows: pa.Table) -> list[Unit]:
    """Those that start at the instants of `window_start`."""
    starts: list[Any] = windows.column("window_start").unique().to_pylist()
    return [unit_at(window, start) for start in starts]


def first_at_or_after(window: CalendarWindow, instant: datetime) -> datetime:
    """The start of the first unit that starts then or later."""
    unit = unit_at(window, instant)
    return unit.start if unit.start == instant else unit.end


def dates_of(unit: Unit) -> Iterator[date]:
    """The dates of the event times in it, in UTC."""
    first = unit.start.date()
    for number in range(((unit.end - timedelta(microseconds=1)).date() - first).days + 1):
        yield first + timedelta(days=number)


def dated(found: Iterable[Unit]) -> pa.Table:
    """Units as rows, `start`, `end` and `local_date`, one for each date on which they have event
    times, in UTC (`on`): by it an event time finds the one or two that may be its own."""
    listed = [(one, day) for one in found for day in dates_of(one)]
    instants = pa.timestamp("us", "UTC")
    return pa.table(
        {
            "start": pa.array([one.start for one, _ in listed], instants),
            "end": pa.array([one.end for one, _ in listed], instants),
            "local_date": pa.array([one.local_date for one, _ in listed], pa.date32()),
            "on": pa.array([day for _, day in listed], pa.date32()),
        }
    )


def _first_day(window: CalendarWindow, day: date) -> date:
    if window.calendar == "day":
        return day
    if window.calendar == "week":
        return day - timedelta(days=(day.weekday() - get_args(Weekday).index(window.starts)) % 7)
    months = _MONTHS[window.calendar]
    return day.replace(month=(day.month - 1) // months * months + 1, day=1)


def _next(window: CalendarWindow, first: date) -> date:
    if window.calendar in ("day", "week"):
        return first + (_DAY if window.calendar == "day" else 7 * _DAY)
    months = first.month - 1 + _MONTHS[window.calendar]
    return first.replace(year=first.year + months // 12, month=months % 12 + 1)


def _midnight(zone: ZoneInfo, day: date) -> datetime:
    """The first instant that is midnight of a day there. Where clocks skip it, what it would be by
    the offset before: the end of the gap, which begins at midnight."""
    return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)
