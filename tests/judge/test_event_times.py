"""Times of mail and HTTP are read as Python's own library writes them, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.judge.event_time import text_reader
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
