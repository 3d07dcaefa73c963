"""Which days, weeks and months a zone has, against DuckDB's own calendar and by hand."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, timedelta
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemark.operators.calendars.grid import first_at_or_after, unit_at, units
from tidemark.pipeline.model import CalendarWindow

# Both changes of clocks, half and quarter hours, a change at midnight, and a day that was left out.
ZONES = (
    *("Europe/Vienna", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"),
    *("Asia/Kathmandu", "America/Sao_Paulo", "America/Havana", "Pacific/Apia", "UTC"),
)
KINDS = ("day", "week", "month", "quarter", "year")


def window(zone: str, calendar: Any = "day", **more: Any) -> CalendarWindow:
    return CalendarWindow(zone=zone, calendar=calendar, **more)


def hours(zone: str, year: int, month: int, day: int) -> float:
    found = unit_at(window(zone), datetime(year, month, day, 12, tzinfo=UTC))
    return (found.end - found.start) / timedelta(hours=1)


def test_days_on_which_clocks_change_have_23_25_or_other_hours() -> None:
    assert hours("Europe/Vienna", 2026, 3, 29) == 23
    assert hours("Europe/Vienna", 2026, 10, 25) == 25
    assert hours("Europe/Vienna", 2026, 7, 1) == 24
    assert hours("Australia/Lord_Howe", 2026, 4, 5) == 24.5
    assert hours("America/Sao_Paulo", 2018, 11, 4) == 23


def test_a_day_that_a_zone_left_out_is_none() -> None:
    before = unit_at(window("Pacific/Apia"), datetime(2011, 12, 30, 9, tzinfo=UTC))
    assert (before.local_date, before.end) == (
        date(2011, 12, 29), datetime(2011, 12, 30, 10, tzinfo=UTC),
    )  # fmt: skip
    after = unit_at(window("Pacific/Apia"), before.end)
    assert after.local_date == date(2011, 12, 31)


def test_a_day_whose_midnight_comes_twice_begins_with_the_first() -> None:
    # St. John's set its clocks back at 00:01.
    zone = window("America/St_Johns")
    first = datetime(2010, 11, 7, 2, 30, tzinfo=UTC)
    assert unit_at(zone, first).local_date == date(2010, 11, 7)
    assert unit_at(zone, first + timedelta(minutes=30)).local_date == date(2010, 11, 7)
    assert unit_at(zone, first - timedelta(microseconds=1)).end == first


def test_weeks_begin_on_the_day_that_is_said() -> None:
    at = datetime(2026, 7, 1, 12, tzinfo=UTC)
    found = [unit_at(window("UTC", "week", starts=day), at).local_date.day
             for day in ("monday", "wednesday", "thursday", "sunday")]  # fmt: skip
    assert found == [29, 1, 25, 28]


@settings(max_examples=60)
@given(
    st.sampled_from(ZONES),
    st.sampled_from(KINDS),
    st.datetimes(datetime(1970, 1, 2), datetime(2037, 12, 31), timezones=st.just(UTC)),
)
def test_a_unit_is_what_duckdbs_own_calendar_says(zone: str, kind: Any, at: datetime) -> None:
    found = unit_at(window(zone, kind), at)
    assert found.start <= at < found.end
    with duckdb.connect() as connection:
        ((day,),) = connection.execute(
            f"SELECT date_trunc('{kind}', timezone('{zone}', make_timestamptz({_us(at)})))::DATE"
        ).fetchall()
    assert found.local_date == day


@settings(max_examples=40)
@given(
    st.sampled_from(ZONES),
    st.sampled_from(KINDS),
    st.datetimes(datetime(1970, 1, 2), datetime(2037, 12, 31), timezones=st.just(UTC)),
)
def test_units_lie_one_behind_another(zone: str, kind: Any, at: datetime) -> None:
    asked = window(zone, kind)
    found = list(units(asked, at, at + timedelta(days=800)))
    assert found[0] == unit_at(asked, at)
    for one, following in itertools.pairwise(found):
        assert one.start < one.end == following.start
        assert unit_at(asked, one.end - timedelta(microseconds=1)) == one
        assert first_at_or_after(asked, one.start) == one.start
        assert first_at_or_after(asked, one.start + timedelta(microseconds=1)) == one.end


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_too_late_for_a_calendar_is_in_one_last_unit(kind: Any) -> None:
    last = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    found = unit_at(window("Pacific/Auckland", kind), last)
    assert found.local_date == date(9998, 1, 1)
    (*_, before, end) = units(
        window("Pacific/Auckland", kind), datetime(9997, 1, 1, tzinfo=UTC), last
    )
    assert end == found
    assert before.end == found.start


def _us(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
