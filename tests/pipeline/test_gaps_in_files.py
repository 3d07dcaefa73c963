"""A check of gaps in a pipeline's file: what is taken, and what is refused with the reason."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.pipeline.conftest import GOOD, Load, Problems
from tests.pipeline.test_checks import Told, told, with_checks
from tidemark.pipeline.checks import Check, Gaps, TableRule
from tidemark.pipeline.model import Pipeline

__all__ = ["told"]
SESSION = ("window: {length: 10 minutes, slide: 5 minutes}", "window: {session: 10 minutes}")


def test_gaps_are_taken_as_they_are_written(load: Load) -> None:
    asked = "gaps: {every: 1 hour, since: 2026-07-01T00:00:00Z, by: [slow]}"
    pipeline = load(with_checks(f"fail: {{{asked}}}", "warn: {gaps: {every: 15 minutes}}"))
    first, second = pipeline.tables["page_10m"].checks
    since = datetime(2026, 7, 1, tzinfo=UTC)
    assert first.asked == Gaps(every=timedelta(hours=1), since=since, by=("slow",))
    assert (first.severity, second.severity) == ("fail", "warn")
    assert second.warn == TableRule(gaps=Gaps(every=timedelta(minutes=15)))
    assert not pipeline.tables["page_10m"].names_expectations
    assert Pipeline.model_validate_json(pipeline.model_dump_json()) == pipeline


def test_a_date_is_its_midnight_in_utc() -> None:
    check = Check.model_validate({"warn": {"gaps": {"every": "1 day", "since": "2026-07-01"}}})
    assert isinstance(check.asked, Gaps)
    assert check.asked.since == datetime(2026, 7, 1, tzinfo=UTC)


REFUSED = {
    "{every: 7 minutes}": [
        ".every: `7 minutes`: is no multiple of 5 minutes, in which the table's windows begin."
    ],
    "{every: 5 minutes, since: 2026-07-01T00:03:00Z}": [
        ".since: `2026-07-01T00:03:00Z`: is no begin of a window: they begin every 5 minutes, from "
        "1970 on."
    ],
    "{every: 5 minutes, by: [pages, slow, slow]}": [
        ".by.0: `pages`: is no key of the table; keys: page, slow. Did you mean `page`?",
        ".by.2: `slow`: stands twice.",
    ],
    "{every: 5 minutes, since: soon}": [
        ".since: `soon`: 'soon' is no time; write it as in 2026-07-01T12:00:00Z, or a date alone "
        "for its midnight in UTC."
    ],
    "{every: 5 minutes, since: '2026-07-01T00:00:00'}": [
        ".since: `2026-07-01T00:00:00`: '2026-07-01T00:00:00' has no zone; write it as in "
        "2026-07-01T12:00:00Z, or a date alone for its midnight in UTC."
    ],
    "{every: 0 minutes, since: 2026-07-01T00:03:00Z}": [
        ".every: `0 minutes`: must be longer than zero.",
        ".since: `2026-07-01T00:03:00Z`: is no begin of a window: they begin every 5 minutes, from "
        "1970 on.",
    ],
    "{since: 2026-07-01T00:03:00Z}": [
        ".since: `2026-07-01T00:03:00Z`: is no begin of a window: they begin every 5 minutes, from "
        "1970 on."
    ],
    "{every: 5 minutes, sinse: 2026-07-01}": [
        ".sinse: is not a known key; allowed: every, since, by. Did you mean `since`?"
    ],
    "5 minutes": [
        ": `5 minutes`: should be a mapping with the keys every, since, by, as in "
        "`gaps: {every: 5 minutes}`."
    ],
}


@pytest.mark.parametrize("asked", REFUSED)
def test_what_gaps_cannot_be_is_refused_with_its_place(told: Told, asked: str) -> None:
    found = told(f"fail: {{gaps: {asked}}}")
    place = "tables.page_10m.checks.0.fail.gaps"
    assert [one.removeprefix(place) for one in found] == REFUSED[asked]


def test_tables_over_no_windows_have_no_gaps(problems: Problems) -> None:
    checks = with_checks("warn: {gaps: {every: 5 minutes, by: [page]}}")
    (found,) = problems(SESSION, text=checks)
    assert found.field == "tables.page_10m.checks.0.warn.gaps"
    assert found.message == (
        "is for tables over windows of a fixed length or of a calendar: it is known when these "
        "should be"
    )
    assert GOOD.count(SESSION[0]) == 1


def test_of_a_calendar_each_window_is_asked_for(load: Load, problems: Problems) -> None:
    days = (SESSION[0], "window: {calendar: week, zone: Europe/Vienna}")
    asked = "since: 2026-07-01T00:00:00+02:00, by: [page]"
    text = with_checks(f"warn: {{gaps: {{{asked}}}}}").replace(*days)
    (check,) = load(text).tables["page_10m"].checks
    assert check.asked == Gaps(since=datetime(2026, 6, 30, 22, tzinfo=UTC), by=("page",))
    found = problems(days, text=with_checks("warn: {gaps: {every: 7 days, by: [pages]}}"))
    place = "tables.page_10m.checks.0.warn.gaps"
    assert [one.text.removeprefix(place) for one in found] == [
        ".every: is for windows of a fixed length; of a calendar each window is asked for.",
        ".by.0: `pages`: is no key of the table; keys: page, slow. Did you mean `page`?",
    ]


def test_since_begins_a_day_of_the_zone(problems: Problems) -> None:
    days = (SESSION[0], "window: {length: 1 day, zone: Europe/Vienna}")
    (found,) = problems(days, text=with_checks("warn: {gaps: {since: 2026-07-01}}"))
    assert found.text == (
        "tables.page_10m.checks.0.warn.gaps.since: `2026-07-01T00:00:00Z`: is no begin of a day in "
        "Europe/Vienna: 2026-07-01 begins at 2026-07-01T00:00:00+02:00."
    )
    # Of Beirut's 28 March 2021 the first hour is left out.
    beirut = (SESSION[0], "window: {length: 1 day, zone: Asia/Beirut}")
    gaps = "warn: {gaps: {since: '2021-03-27T22:00:00Z'}}"
    assert not problems(beirut, text=with_checks(gaps))
