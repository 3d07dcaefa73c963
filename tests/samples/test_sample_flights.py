"""The report of flights by days of Vienna, against plain Python and through runs."""

from __future__ import annotations

import csv
import json
import shutil
from collections import defaultdict
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from tests.kit.running import SamplePlace, succeed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE = Path(__file__).parents[2] / "include" / "samples" / "vienna_flights"
VIENNA = ZoneInfo("Europe/Vienna")
# What lies there at each run: how many of the parts, and which file of airlines.
RUNS = ((1, "airlines.csv"), (2, "airlines.csv"), (3, "airlines.csv"), (3, "airlines-new.csv"))

Row = dict[str, Any]


def read(name: str) -> list[Row]:
    with (SAMPLE / name).open(newline="") as file:
        return list(csv.DictReader(file))


def percentile(values: list[int], share: float) -> float | None:
    """Between the two nearest, as Spark's `percentile`."""
    if not values:
        return None
    ordered, place = sorted(values), share * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return round(ordered[low] + (ordered[high] - ordered[low]) * (place - low), 6)


def report(parts: int, airlines: str) -> list[Row]:
    names = {row["code"]: row["name"] for row in read(airlines)}
    days: defaultdict[tuple[date, str | None], list[Row]] = defaultdict(list)
    for number in range(1, parts + 1):
        for row in read(f"part-{number}.csv"):
            if Decimal(row["fare"]) >= 0 and row["cancelled"] == "false":
                day = datetime.fromisoformat(row["departed_at"]).astimezone(VIENNA).date()
                days[day, names.get(row["carrier"])].append(row)
    return [
        {
            "local_date": str(day),
            "hours": hours(day),
            "airlines_name": name,
            "passengers": len({row["passenger"] for row in rows}),
            "flights": len({row["flight"] for row in rows}),
            "late_95": percentile([int(row["delay"]) for row in rows if row["delay"]], 0.95),
            "fares": str(sum(Decimal(row["fare"]) for row in rows)),
            "rows": len(rows),
        }
        for (day, name), rows in sorted(days.items(), key=lambda one: (one[0][0], one[0][1] or ""))
    ]


def hours(day: date) -> int:
    first, after = (
        datetime.combine(one, datetime.min.time(), VIENNA).timestamp()
        for one in (day, day + timedelta(days=1))
    )
    return round((after - first) / 3600)


def test_what_the_sample_says_to_expect_is_what_plain_python_gives() -> None:
    expected = json.loads((SAMPLE / "expected.json").read_text())
    assert expected == [report(*run) for run in RUNS]


def test_gold_is_that_after_each_run_and_changes_tell_why(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = SamplePlace(tmp_path, SAMPLE / "vienna_flights.yaml")
    landing, dims = tmp_path / "landing" / "vienna_flights", tmp_path / "dims"
    landing.mkdir(parents=True)
    dims.mkdir()
    expected = json.loads((SAMPLE / "expected.json").read_text())
    for number, ((parts, airlines), rows) in enumerate(zip(RUNS, expected, strict=True)):
        shutil.copy(SAMPLE / f"part-{parts}.csv", landing)
        shutil.copy(SAMPLE / airlines, dims / "airlines.csv")
        result = succeed(spark, place, f"run-{number}")
        assert told(place) == rows
        assert latest(place) == latest_of(rows)
        if number == 0:
            assert result.rows.rejected == {"negative fare": 1}
    causes = {(row["airlines_name"], row["cause"]) for row in place.changes("per_day").to_pylist()}
    assert {
        ("Austrian", "late"),
        ("Austrian Airlines", "lookup"),
        ("Danube Wings", "lookup"),
    } < causes
    assert ("Lufthansa", "lookup") not in causes


def latest(place: SamplePlace) -> list[tuple[str, str]]:
    rows = place.table(place.places.view("per_day", "latest")).to_pylist()
    return sorted((str(row["local_date"]), row["airlines_name"]) for row in rows)


def latest_of(rows: list[Row]) -> list[tuple[str, str]]:
    """Of each day the airline with the greatest percentile, of those with two flights."""
    found: dict[str, Row] = {}
    for row in rows:
        best = found.get(row["local_date"])
        if row["flights"] >= 2 and (best is None or row["late_95"] > best["late_95"]):
            found[row["local_date"]] = row
    return sorted((day, row["airlines_name"]) for day, row in found.items())


def told(place: SamplePlace) -> list[Row]:
    """Gold as the sample tells it."""
    rows = sorted(
        place.gold("per_day").to_pylist(),
        key=lambda row: (row["local_date"], row["airlines_name"] or ""),
    )
    for row in rows:
        assert row["a_flight"] == pytest.approx(float(row["fares"] / row["flights"]))
    return [
        {
            "local_date": str(row["local_date"]),
            "hours": (row["window_end"] - row["window_start"]) // timedelta(hours=1),
            "airlines_name": row["airlines_name"],
            "passengers": row["passengers"],
            "flights": row["flights"],
            "late_95": round(row["late_95"], 6),
            "fares": str(row["fares"]),
            "rows": row["rows"],
        }
        for row in rows
    ]


def test_the_page_shows_the_pipeline_as_it_is() -> None:
    page = (SAMPLE.parents[2] / "docs" / "a-report.md").read_text()
    shown = page.split("```yaml\n")[1].split("```")[0]
    assert shown in (SAMPLE / "vienna_flights.yaml").read_text()
