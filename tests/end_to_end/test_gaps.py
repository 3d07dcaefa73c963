"""Gaps of tables that runs make are told once their windows are closed, and no more once a late row
has filled them, by a run and by a migration."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from tests.end_to_end.generations import migrated
from tests.kit.running import Place, clicks, run_warm, succeed
from tests.streaming.audits import event

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

GAPS = {"every": "10 minutes", "since": "2026-07-01T10:00:00Z", "by": ["key"]}


def tables(**measures: str) -> dict[str, Any]:
    table = {
        "window": {"length": "10 minutes"},
        "group_by": ["key"],
        "measures": {"events": "count(*)", **measures},
    }
    warned = table | {"checks": [{"warn": {"gaps": GAPS}}]}
    appended = table | {"output_mode": "append", "checks": [{"fail": {"gaps": GAPS}}]}
    return {"per_10m": warned, "appended": appended}


def told(place: Place, run: str) -> dict[str, str]:
    """What the checks of gaps said of a run, by table."""
    return {
        row["table"]: row["observed"]
        for row in place.table(place.places.quality).to_pylist()
        if row["run"] == run and row["check"].startswith("gaps every 10 minutes since")
    }


@pytest.mark.second
def test_a_gap_is_told_as_it_closes_and_a_late_row_fills_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path, clicks(tables=tables()))
    place.land("1.json", [event(10, minute) for minute in (1, 22, 34, 51)])
    error = run_warm(spark, place, "first").error
    gap = "1 of 4 closed stretches of 10 minutes have no row: 2026-07-01T10:10:00Z of key a"
    assert error is not None
    assert gap in error.message
    assert told(place, "first") == {"per_10m": gap, "appended": gap}
    assert place.gold().num_rows == 0
    place.land("2.json", [event(10, 12)])
    succeed(spark, place, "late")
    none = "none of 4 closed stretches of 10 minutes is without a row"
    assert told(place, "late") == {"per_10m": none, "appended": none}
    assert place.gold("appended").num_rows == 4
    place.content = {**place.content, "tables": {"per_10m": tables(most="max(amount)")["per_10m"]}}
    migrated(spark, place)
    assert told(place, "migrate") == {"per_10m": none}


DAY = timedelta(days=1)


@pytest.mark.second
@pytest.mark.parametrize(
    ("zone", "first"),
    [
        pytest.param("Europe/Vienna", date(2026, 10, 19), id="a day of 25 hours"),
        # Samoa has no 30 December 2011.
        pytest.param("Pacific/Apia", date(2011, 12, 19), id="a day that there is not"),
    ],
)
def test_days_and_weeks_of_a_zone_that_have_no_row_are_told_by_their_date(
    spark: SparkSession, tmp_path: Path, zone: str, first: date
) -> None:
    of_zone, chance = ZoneInfo(zone), Random(1)
    since = datetime(first.year, first.month, first.day, tzinfo=of_zone).astimezone(UTC)
    hours = sorted(chance.sample(range(24 * 21), 12))
    rows = [(since + timedelta(hours=hour), chance.choice("ab")) for hour in hours]
    rows.append((since + 24 * DAY, "c"))
    tables = {
        name: {
            "window": {"calendar": unit, "zone": zone},
            "group_by": ["key"],
            "measures": {"events": "count(*)"},
            "checks": [{"warn": {"gaps": asked}}],
        }
        for name, unit, asked in (
            ("days", "day", {"by": ["key"]}),
            ("all_days", "day", {"since": f"{since:%Y-%m-%dT%H:%M:%SZ}"}),
            # Not at a begin: the first week that is asked for is the next one.
            ("later_weeks", "week", {"since": f"{since + DAY:%Y-%m-%dT%H:%M:%SZ}"}),
            ("weeks", "week", {}),
        )
    }
    place = Place(tmp_path, clicks(tables=tables))
    place.land("1.json", [{"at": at.isoformat(), "key": key, "amount": 1} for at, key in rows])
    succeed(spark, place, "first")
    found = {
        row["table"]: row
        for row in place.table(place.places.quality).to_pylist()
        if row["check"].startswith("gaps")
    }
    closed = (since + 24 * DAY - timedelta(minutes=10)).astimezone(of_zone).date()
    # A day that there is not has no hour of its own.
    known = sorted(
        {(since + timedelta(hours=hour)).astimezone(of_zone).date() for hour in range(24 * 30)}
    )
    held = [(at.astimezone(of_zone).date(), key) for at, key in rows]

    def days(begin: date, of: set[date]) -> tuple[int, int, str]:
        asked = [day for day in known if begin <= day < closed]
        missing = [str(day) for day in asked if day not in of]
        return len(asked), len(missing), ", ".join(missing[:10])

    def of_check(name: str) -> tuple[int, int, str]:
        row = found[name]
        shown = row["observed"].partition("no row: ")[2].partition(" and ")[0]
        return row["rows"], row["unexpected"], shown

    every_day = {day for day, _ in held}
    assert of_check("all_days") == days(first, every_day)
    mondays = {day - timedelta(days=day.weekday()) for day in every_day}
    asked = [day for day in known if min(mondays) <= day and not day.weekday()]
    asked = [day for day in asked if day + 7 * DAY <= closed]
    assert found["weeks"]["rows"] == len(asked)
    assert found["weeks"]["unexpected"] == len([day for day in asked if day not in mondays])
    later = [day for day in asked if day > first]
    assert found["later_weeks"]["rows"] == len(later)
    assert found["later_weeks"]["unexpected"] == len([one for one in later if one not in mondays])
    of_keys = [
        days(min(day for day, of in held if of == key), {day for day, of in held if of == key})
        for key in "ab"
    ]
    assert found["days"]["rows"] == sum(number for number, _, _ in of_keys)
    assert found["days"]["unexpected"] == sum(number for _, number, _ in of_keys)
    assert " of key a" in found["days"]["observed"]
