"""Schedules: five cron fields, or one of Airflow's presets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tidemark.pipeline.problems import nearest

PRESETS = ("@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")
# As Airflow has it; croniter does not know it.
_AS_CRON = {"@quarterly": "0 0 1 */3 *"}
# Behind it a second can be added still.
_LAST = datetime(9999, 12, 31, 23, 59, 58, tzinfo=UTC)
_FIELDS = ("minute", "hour", "day of month", "month", "day of week")


def check_schedule(text: str) -> None:
    """ValueError unless Airflow can schedule by `text`, which croniter tells it, too."""
    if text.startswith("@"):
        if text not in PRESETS:
            near = nearest(text, PRESETS)
            hint = f" (nearest: `{near}`)" if near else ""
            raise ValueError(f"is not a preset{hint}; allowed: {', '.join(PRESETS)}")
        return
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise ValueError(f"has {len(fields)} fields; cron has five: {', '.join(_FIELDS)}")
    # Not loaded for a file without a schedule.
    from croniter import CroniterError, croniter

    try:
        croniter(text, datetime(2024, 1, 1, tzinfo=UTC)).get_next()
    except CroniterError as error:
        raise ValueError(f"is not a cron expression that ever comes: {error}") from None


def last_time(schedule: str, now: datetime) -> datetime:
    """The last time that a schedule names, `now` or before it; in UTC."""
    from croniter import croniter

    # What it gives is always before what it is asked for; a schedule names whole minutes.
    after = min(now.replace(microsecond=0), _LAST) + timedelta(seconds=1)
    times = croniter(_AS_CRON.get(schedule, schedule), after)
    found: datetime = times.get_prev(datetime)
    return found


def last_but_one_time(schedule: str, now: datetime) -> datetime | None:
    """The time before the last one that a schedule names, both before `now`; in UTC.

    A run that began after it is not overdue, though the last one's may not have begun yet. None
    for what croniter does not know, as another version may have recorded it.
    """
    from croniter import CroniterError, croniter

    try:
        times = croniter(_AS_CRON.get(schedule, schedule), now)
        times.get_prev(datetime)
        before: datetime = times.get_prev(datetime)
    except CroniterError:
        return None
    return before
