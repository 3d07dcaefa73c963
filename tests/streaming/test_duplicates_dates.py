"""Which dates of bronze a batch is compared with."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

from tidemark.streaming.accepted_before import dates_within

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(*instant: int) -> int:
    return (datetime(*instant, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)  # type: ignore[misc,arg-type]


def of(*times: tuple[int, int], **within: float) -> list[tuple[date, date]]:
    return dates_within(times, timedelta(**within) // timedelta(microseconds=1))


def test_the_dates_reach_as_far_as_the_horizon_of_the_times_and_no_further() -> None:
    noon = micros(2026, 7, 10, 12), micros(2026, 7, 10, 13)
    assert of(noon, hours=10) == [(date(2026, 7, 10), date(2026, 7, 10))]
    assert of(noon, hours=11) == [(date(2026, 7, 10), date(2026, 7, 11))]
    assert of(noon, hours=12, microseconds=1) == [(date(2026, 7, 9), date(2026, 7, 11))]
    assert of(noon, days=7) == [(date(2026, 7, 3), date(2026, 7, 17))]


def test_what_lies_between_two_dates_far_apart_is_left_out() -> None:
    first, last = micros(2026, 1, 1, 12), micros(2026, 12, 31, 12)
    assert of((last, last), (first, first), days=1) == [
        (date(2025, 12, 31), date(2026, 1, 2)),
        (date(2026, 12, 30), date(2027, 1, 1)),
    ]


def test_ranges_that_meet_are_one() -> None:
    days = [(micros(2026, 7, n, 12),) * 2 for n in range(1, 31)]
    assert of(*days, hours=1) == [(date(2026, 7, 1), date(2026, 7, 30))]
    inside = (micros(2026, 7, 1), micros(2026, 7, 20)), (micros(2026, 7, 5), micros(2026, 7, 6))
    assert of(*inside, hours=1) == [(date(2026, 6, 30), date(2026, 7, 20))]


def test_very_many_ranges_are_joined_across_their_smallest_gaps() -> None:
    days = [(micros(2000 + n // 12, n % 12 + 1, 1, 12),) * 2 for n in range(240)]
    far = (micros(1980, 1, 1, 12),) * 2
    found = of(far, *days, hours=1)
    assert len(found) == 50
    assert found[0] == (date(1980, 1, 1), date(1980, 1, 1))
    assert all(before[1] < after[0] for before, after in pairwise(found))


def test_a_horizon_beyond_the_calendar_ends_with_it() -> None:
    time = (micros(2026, 7, 1),) * 2
    assert of(time, days=3_660_000) == [(date.min, date.max)]
    assert of() == []
