"""What is noted of a zone's rules, and which other rules bound the units of rows otherwise."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.time_zones import clocks
from tidemark.operators.calendars.grid import units
from tidemark.operators.calendars.rules import other_clocks, rules_of
from tidemark.pipeline.model import CalendarWindow

# Both changes of clocks, a change that came for good, a half hour, one within seconds of the day's
# end, four a year, and a week of summer time.
ZONES = (
    *("Europe/Vienna", "Asia/Almaty", "Australia/Lord_Howe", "America/St_Johns"),
    *("Africa/Casablanca", "America/Recife", "Pacific/Apia", "UTC"),
)
ALMATY = "Asia/Almaty"
# As the time zones of 2024a have it.
MOVED = datetime(2024, 2, 29, 18, tzinfo=UTC)


@settings(max_examples=200)
@given(
    st.sampled_from(ZONES),
    st.datetimes(datetime(1970, 1, 1), datetime(2099, 12, 31), timezones=st.just(UTC)),
)
def test_what_is_noted_of_a_zone_tells_its_clocks_at_each_instant(zone: str, at: datetime) -> None:
    noted = rules_of(zone)
    last = max(instant for instant in noted if instant <= at)
    assert at.astimezone(ZoneInfo(zone)).utcoffset() == timedelta(seconds=noted[last])


def test_each_move_of_the_clocks_is_noted_once_by_its_instant() -> None:
    moves = list(rules_of("Europe/Vienna"))
    assert datetime(2026, 3, 29, 1, tzinfo=UTC) in moves
    assert datetime(2026, 10, 25, 1, tzinfo=UTC) in moves
    assert len([one for one in moves if one.year == 2026]) == 2
    assert list(rules_of("UTC")) == [datetime(1970, 1, 1, tzinfo=UTC)]


@pytest.mark.parametrize(
    ("calendar", "first", "last", "differs"),
    [
        pytest.param("day", (2024, 3, 1), (2024, 3, 9), True, id="days after it"),
        pytest.param("day", (2023, 1, 1), (2024, 2, 26), False, id="days before it"),
        pytest.param("day", (2023, 1, 1), (2024, 2, 27), True, id="the day that ends with it"),
        pytest.param("month", (2023, 1, 1), (2024, 1, 30), False, id="months before it"),
        pytest.param("month", (2023, 1, 1), (2024, 1, 31), True, id="the month that ends with it"),
        pytest.param("month", (2024, 3, 9), (2024, 3, 9), True, id="the month that begins with it"),
        pytest.param("year", (2023, 1, 1), (2023, 12, 30), False, id="years before it"),
        pytest.param("year", (2024, 1, 5), (2024, 1, 9), True, id="the year that it is in"),
    ],
)
def test_clocks_that_move_for_good_bound_otherwise_what_is_not_over_by_then(
    tmp_path: Path, calendar: Any, first: Any, last: Any, differs: bool
) -> None:
    with clocks(tmp_path, ALMATY, 6, {}):
        noted = rules_of(ALMATY)
    with clocks(tmp_path, ALMATY, 6, {MOVED: 5}):
        window = CalendarWindow(zone=ALMATY, calendar=calendar)
        found = other_clocks(window, noted, rules_of(ALMATY), date(*first), date(*last))
    assert (found is not None) is differs
    if found is not None:
        assert (found.start, found.noted, found.known) == (
            MOVED, timedelta(hours=6), timedelta(hours=5),
        )  # fmt: skip


def test_clocks_that_were_others_within_a_month_bound_days_otherwise_and_no_month(
    tmp_path: Path,
) -> None:
    with clocks(tmp_path, ALMATY, 6, {}):
        noted = rules_of(ALMATY)
    moves = {datetime(2024, 5, 8, tzinfo=UTC): 5, datetime(2024, 5, 20, tzinfo=UTC): 6}
    with clocks(tmp_path, ALMATY, 6, moves):
        known, dates = rules_of(ALMATY), (date(2024, 1, 1), date(2024, 12, 31))
        months = CalendarWindow(zone=ALMATY, calendar="month")
        assert other_clocks(months, noted, known, *dates) is None
        days = CalendarWindow(zone=ALMATY)
        assert other_clocks(days, noted, known, *dates) is not None
        assert other_clocks(days, noted, known, date(2024, 5, 22), date(2024, 12, 31)) is None


INSTANTS = st.datetimes(datetime(2024, 1, 2), datetime(2024, 12, 30), timezones=st.just(UTC))


@pytest.mark.slow
@settings(max_examples=50)
@given(
    st.sampled_from(("day", "week", "month", "quarter", "year")),
    st.dictionaries(INSTANTS, st.integers(-11, 12), max_size=3),
    st.dictionaries(INSTANTS, st.integers(-11, 12), max_size=3),
    INSTANTS,
    INSTANTS,
)
def test_units_of_rows_are_the_same_wherever_no_other_clocks_are_told(
    tmp_path_factory: pytest.TempPathFactory,
    calendar: Any,
    one: dict[datetime, int],
    other: dict[datetime, int],
    at: datetime,
    to: datetime,
) -> None:
    folder, window = (
        tmp_path_factory.mktemp("zones"),
        CalendarWindow(zone=ALMATY, calendar=calendar),
    )
    first, last = sorted((at, to))
    found, noted = [], []
    for moves in (one, other):
        with clocks(folder, ALMATY, 6, dict(sorted(moves.items()))):
            found.append(list(units(window, first, last)))
            noted.append(rules_of(ALMATY))
            told = other_clocks(window, noted[0], noted[-1], first.date(), last.date())
    assert told is not None or found[0] == found[1]
