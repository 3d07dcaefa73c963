"""The rules of a time zone: what is noted of them, and where other ones bound units otherwise.

Rules come with the system, or with the package `tzdata`, and change with these: a country moves its
clocks, or is known to have moved them. Where the units of a calendar begin follows from them, so
that rows which were computed by some rules are not those of others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

from tidemark.operators.calendars.grid import first_at_or_after, unit_at
from tidemark.pipeline.model import CalendarWindow

# From which instants on a zone's clocks are how many seconds ahead of UTC.
Rules = Mapping[datetime, int]

_DAY = timedelta(days=1)
_DAY_SECONDS = 24 * 60 * 60
# Rules are noted from 1970 to then: what comes later repeats itself.
_LAST_SECOND = (date(2100, 1, 1) - date(1970, 1, 1)).days * _DAY_SECONDS
_END = datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class OtherClocks:
    """By two rules the clocks differ in start <= time < end: so far are they ahead of UTC."""

    start: datetime
    end: datetime
    noted: timedelta
    known: timedelta


def rules_of(zone: str) -> dict[datetime, int]:
    """A zone's rules as this process knows them."""
    return dict(_rules(ZoneInfo(zone)))


@cache
def _rules(zone: ZoneInfo) -> Rules:
    """Python's `zoneinfo` tells one instant at a time, so each day is asked for; no zone has moved
    its clocks there and back within one."""

    def ahead(second: int) -> int:
        offset = datetime.fromtimestamp(second, zone).utcoffset() or timedelta()
        return round(offset.total_seconds())

    found = {0: ahead(0)}
    before = found[0]
    for low in range(0, _LAST_SECOND, _DAY_SECONDS):
        high = low + _DAY_SECONDS
        after = ahead(high)
        if after != before:
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if ahead(middle) == before else (low, middle)
            found[high] = before = after
    return {datetime.fromtimestamp(second, UTC): offset for second, offset in found.items()}


def other_clocks(
    window: CalendarWindow, noted: Rules, known: Rules, first: date, last: date
) -> OtherClocks | None:
    """Where two rules first differ so that units which have event times of these dates (in UTC) may
    begin or end otherwise; None where they do not.

    Where a unit begins is decided by what clocks show within a day of it.
    """
    begin = unit_at(window, datetime.combine(first, time(), UTC)).start
    end = unit_at(window, datetime.combine(last, time.max, UTC)).end
    for found in _differing(noted, known):
        boundary = first_at_or_after(window, max(begin, found.start - _DAY))
        if boundary <= min(end, found.end + _DAY):
            return found
    return None


def _differing(noted: Rules, known: Rules) -> Iterator[OtherClocks]:
    one = other = 0
    for start, end in pairwise([*sorted({*noted, *known}), _END]):
        one, other = noted.get(start, one), known.get(start, other)
        if one != other:
            yield OtherClocks(start, end, timedelta(seconds=one), timedelta(seconds=other))
