"""Instants as text: watermarks and close frontiers for people, and in the id of a run."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta

# The id of an act on a pipeline: a second in UTC.
STAMP = "%Y%m%dT%H%M%SZ"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MS, _LAST_MS = (
    (datetime.combine(day, time.max if day == date.max else time.min, UTC) - _EPOCH)
    // timedelta(milliseconds=1)
    for day in (date.min, date.max)
)
_LONGEST = timedelta.max // timedelta(milliseconds=1)
# What to write instead, in every error about a time that was given as text.
_FORM = "write it as in 2026-07-01T12:00:00Z, or a date alone for its midnight in UTC"


def instant_text(milliseconds: int) -> str:
    """Milliseconds since 1970 as ISO 8601 in UTC; the engine's 0 means that there is none yet."""
    if milliseconds == 0:
        return "none yet"
    try:
        instant = instant_of(milliseconds)
    except OverflowError:
        return f"{milliseconds:,} ms after 1970, in no year from 1 to 9999"
    exact = "milliseconds" if milliseconds % 1000 else "seconds"
    return instant.isoformat(timespec=exact).replace("+00:00", "Z")


def manual_run_id(now: datetime, kind: str = "manual") -> str:
    """The id of a run that nobody scheduled. Sortable, and a file's name as it is."""
    return f"{kind}__{now:%Y-%m-%dT%H-%M-%S.%fZ}"


def utc_instant(text: str) -> datetime:
    """An instant from ISO 8601 text; a date alone is its midnight in UTC.

    ValueError, which says what to write, where a time has no zone, or the text is no time.
    """
    with suppress(ValueError):
        return datetime.combine(date.fromisoformat(text), time(), UTC)
    try:
        instant = datetime.fromisoformat(text)
        if instant.tzinfo is not None:
            return instant.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is no time; {_FORM}") from None
    raise ValueError(f"{text!r} has no zone; {_FORM}")


def in_calendar(milliseconds: int) -> int:
    """The nearest of those that a datetime can have: a file's time may be any."""
    return min(max(milliseconds, _FIRST_MS), _LAST_MS)


def epoch_ms(instant: datetime) -> int:
    """Whole milliseconds since 1970, UTC."""
    return (instant - _EPOCH) // timedelta(milliseconds=1)


def epoch_us(instant: datetime) -> int:
    """Whole microseconds since 1970, UTC."""
    return (instant - _EPOCH) // timedelta(microseconds=1)


def length_of(milliseconds: int) -> timedelta:
    """A length of milliseconds, as far as Python knows lengths: 2.7 million years."""
    return timedelta(milliseconds=max(-_LONGEST, min(milliseconds, _LONGEST)))


def instant_of(milliseconds: int) -> datetime:
    """The instant of milliseconds since 1970, in UTC."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


def earlier(instant: datetime, length: timedelta) -> datetime:
    """The instant a length before one, in UTC: the first that there is where it would be none."""
    try:
        return instant - length
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def known_instant(milliseconds: object) -> datetime | None:
    """The instant of what others wrote as milliseconds since 1970, in UTC; None where that is no
    whole number, or lies in no year from 1 to 9999."""
    try:
        return instant_of(milliseconds) if type(milliseconds) is int else None
    except OverflowError:
        return None


def instant_of_us(microseconds: int) -> datetime:
    """The instant of microseconds since 1970, in UTC."""
    return _EPOCH + timedelta(microseconds=microseconds)
