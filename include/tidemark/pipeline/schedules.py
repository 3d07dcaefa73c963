"""Schedules: five cron fields, or one of Airflow's presets."""

from __future__ import annotations

import importlib
import re
from datetime import UTC, datetime

from tidemark.pipeline.problems import nearest

PRESETS = ("@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")
_FIELDS = ("minute", "hour", "day of month", "month", "day of week")
_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_WORDS: tuple[dict[str, int], ...] = (
    *({}, {}, {}),
    {name: number for number, name in enumerate(_MONTHS, 1)},
    {name: number for number, name in enumerate(_DAYS)},
)
_ITEM = re.compile(r"^(?:\*|(\w+)(?:-(\w+))?)(?:/(\d+))?$")


def check_schedule(text: str) -> None:
    """ValueError unless Airflow can schedule by `text`."""
    if text.startswith("@"):
        if text not in PRESETS:
            near = nearest(text, PRESETS)
            hint = f" (nearest: `{near}`)" if near else ""
            raise ValueError(f"is not a preset{hint}; allowed: {', '.join(PRESETS)}")
        return
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise ValueError(f"has {len(fields)} fields; cron has five: {', '.join(_FIELDS)}")
    for position, field in enumerate(fields):
        for item in field.split(","):
            _check_item(position, item)
    _ask_croniter(text)


def last_but_one_time(schedule: str, now: datetime) -> datetime | None:
    """The time before the last one that a schedule names, both before `now`; in UTC.

    A run that began after it is not overdue, though the last one's may not have begun yet. None
    where nobody can tell: without Airflow, which brings croniter, or for a preset unknown to it.
    """
    try:
        croniter = importlib.import_module("croniter")
    except ImportError:
        return None
    try:
        times = croniter.croniter(schedule, now)
        times.get_prev(datetime)
        before: datetime = times.get_prev(datetime)
    except croniter.CroniterError:
        return None
    return before


def _check_item(position: int, item: str) -> None:
    low, high = _RANGES[position]
    match = _ITEM.match(item)
    if match is None:
        raise ValueError(f"`{item}` is not a {_FIELDS[position]}")
    numbers = [_number(position, word) for word in match.groups()[:2] if word]
    if any(not low <= number <= high for number in numbers):
        raise ValueError(f"`{item}` is not a {_FIELDS[position]}: those are {low} to {high}")
    if match[3] is not None and int(match[3]) == 0:
        raise ValueError(f"`{item}` steps by nothing")


def _number(position: int, word: str) -> int:
    if word.isdecimal():
        return int(word)
    number = _WORDS[position].get(word.lower())
    if number is None:
        raise ValueError(f"`{word}` is not a {_FIELDS[position]}")
    return number


def _ask_croniter(text: str) -> None:
    """Airflow brings croniter, which also knows days that never come (31 February).

    It is no dependency of this package: without Airflow there is no schedule to keep.
    """
    try:
        croniter = importlib.import_module("croniter")
    except ImportError:
        return
    try:
        croniter.croniter(text, datetime(2024, 1, 1, tzinfo=UTC)).get_next()
    except croniter.CroniterError as error:
        raise ValueError(f"is not a cron expression that ever comes: {error}") from None
