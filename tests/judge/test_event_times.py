"""Times of mail and HTTP are read as Python's own library writes them, and nothing else; parts of a
pattern that tell of the same have to agree."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.judge.event_time import PatternReader, text_reader
from tidemark.pipeline.model import EventTime

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
READ = text_reader(EventTime(column="at", format="rfc_1123"))
ZONES = st.integers(-17 * 60, 17 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=ZONES))
def test_what_the_library_writes_is_read(time: datetime) -> None:
    time = time.replace(microsecond=0)
    micros = (time - EPOCH) // timedelta(microseconds=1)
    assert READ(format_datetime(time)) == micros
    in_utc = format_datetime(time.astimezone(UTC), usegmt=True)
    assert READ(in_utc) == micros
    assert READ(in_utc.partition(", ")[2]) == micros


@pytest.mark.parametrize(
    "text",
    [
        "", "Mon, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 GMT",
        "Sun, 06 Nov 1994 08:49:60 GMT", "Sun, 31 Feb 1994 08:49:37 GMT", " 06 Nov 1994 08:49 GMT",
        "Sun, 06 Nov 1994 08:49:37 EST", "Sun, 06 Nov 1994 08:49:37 +1900",
        "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "06 Nov 94 08:49 GMT",
    ],
)  # fmt: skip
def test_what_is_no_such_time_or_of_another_day_is_none(text: str) -> None:
    assert READ(text) is None


@pytest.mark.parametrize(
    ("pattern", "text", "read"),
    [
        # DD is the day of the year, and HH the hour of the whole day.
        ("yyyy-MM-DD HH:mm", "2026-03-15 08:00", None),
        ("yyyy-MM-DD HH:mm", "2026-01-15 08:00", "2026-01-15T08:00"),
        ("MM/dd/yyyy HH:mm a", "03/15/2026 05:00 PM", None),
        ("MM/dd/yyyy HH:mm a", "03/15/2026 12:30 am", None),
        ("MM/dd/yyyy HH:mm a", "03/15/2026 17:00 pm", "2026-03-15T17:00"),
        ("yyyy-MM-dd DDD", "2026-04-01 091", "2026-04-01T00:00"),
        ("yyyy-MM-dd DDD", "2026-04-01 001", None),
        ("yyyy-MM[-dd] DDD", "2026-03 074", "2026-03-15T00:00"),
        ("yyyy-MM[-dd] DDD", "2026-02 074", None),
        ("yyyy-MM-dd MMM", "2026-04-01 apr", "2026-04-01T00:00"),
        ("yyyy-MM-dd MMM", "2026-04-01 Mar", None),
        ("yyyy yy-MM-dd", "2026 26-04-01", "2026-04-01T00:00"),
        ("yyyy yy-MM-dd", "2026 25-04-01", None),
        ("yyyy-MM-dd HH:mm k", "2026-04-01 00:05 24", "2026-04-01T00:05"),
        ("yyyy-MM-dd HH:mm k", "2026-04-01 05:00 7", None),
        ("yyyy-MM-dd kk:mm a", "2026-04-01 24:05 AM", "2026-04-01T00:05"),
        ("yyyy-MM-dd kk:mm a", "2026-04-01 24:05 PM", None),
        ("yyyy-MM-dd hh KK a", "2026-04-01 12 00 PM", "2026-04-01T12:00"),
        ("yyyy-MM-dd hh KK a", "2026-04-01 11 00 PM", None),
        ("yyyy-MM-dd HH:mm hh[ a]", "2026-04-01 17:00 05", "2026-04-01T17:00"),
        ("yyyy-MM-dd HH:mm hh[ a]", "2026-04-01 17:00 05 AM", None),
        ("yyyy-MM-dd HH:mm hh[ a]", "2026-04-01 17:00 00", None),
        ("yyyy-MM-dd HH:mm k", "2026-04-01 25:00 1", None),
        # An hour that is not told is none, and the first of its half day.
        ("yyyy-MM-dd a", "2026-04-01 PM", "2026-04-01T12:00"),
        ("yyyy-MM-dd mm a", "2026-04-01 05 AM", "2026-04-01T00:05"),
    ],
)
def test_parts_of_a_pattern_that_tell_of_the_same_have_to_agree(
    pattern: str, text: str, read: str | None
) -> None:
    found = PatternReader(pattern, ZoneInfo("UTC")).micros(text)
    time = None if found is None else EPOCH + timedelta(microseconds=found)
    assert time == (None if read is None else datetime.fromisoformat(f"{read}Z"))
