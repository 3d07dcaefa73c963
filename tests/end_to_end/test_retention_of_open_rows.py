"""`keep`: what is open is not frozen, however long nothing came that would have closed it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.end_to_end.test_folds import GAP
from tests.end_to_end.test_folds import place_at as fold_at
from tests.kit.running import Place, accept_changed_file, clicks, succeed
from tests.operators.contract.folded import folded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Rows lie up to an hour before this one, 35 days later: none is in the future, whatever the time.
OLD = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(days=35)


def row(minute: float, key: str = "a", amount: int = 1) -> dict[str, Any]:
    return {"at": OLD + timedelta(minutes=minute), "key": key, "amount": amount}


def land(place: Place, name: str, *rows: dict[str, Any]) -> None:
    place.land(f"{name}.json", [{**one, "at": one["at"].isoformat()} for one in rows])


def closed_long_after(spark: SparkSession, place: Place, then: list[dict[str, Any]]) -> None:
    """What was open when the file kept 40 days closes when it keeps 30: as if all of that time had
    passed in silence."""
    land(place, "then", *then)
    succeed(spark, place, "then")
    place.content = {**place.content, "keep": "30 days"}
    assert accept_changed_file(place) == ["keep"]
    land(place, "now", row(35 * 24 * 60 - 60, "clock"))
    succeed(spark, place, "now")


FIRST = [*(row(minute) for minute in (0, 5, 10, 15, 20)), row(30, "clock")]
# The engine drops it, and goes on with the session or episode that it is in.
LATE = [row(3, amount=7)]


@pytest.mark.long
def test_a_late_row_of_an_open_session_is_in_it_when_that_closes(
    spark: SparkSession, tmp_path: Path
) -> None:
    sessions = {"window": {"session": "6 minutes"}, "group_by": ["key"]}
    table = {**sessions, "measures": {"amount": "sum(amount)"}, "output_mode": "append"}
    place = Place(tmp_path, clicks(tables={"per_10m": table}, keep="40 days"))
    land(place, "first", *FIRST)
    succeed(spark, place, "first")
    closed_long_after(spark, place, LATE)
    (found,) = [one for one in place.gold().to_pylist() if one["key"] == "a"]
    shown = (found["window_start"], found["rows"], found["amount"], found["status"])
    assert shown == (OLD, 6, 12, "final")


@pytest.mark.long
def test_a_late_row_of_an_open_episode_is_in_what_it_puts_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = fold_at(tmp_path)
    place.content = {**place.content, "keep": "40 days"}
    land(place, "first", *FIRST)
    succeed(spark, place, "first")
    closed_long_after(spark, place, LATE)
    outputs = {which: found for which, found in place.known().items() if which[1] == "a"}
    assert outputs == folded([*FIRST[:-1], *LATE], GAP)


@pytest.mark.long
def test_the_verdict_on_an_open_window_counts_its_rows_in_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A window of ten days goes on, though it began before what is kept."""
    epoch, length = datetime(1970, 1, 1, tzinfo=UTC), timedelta(days=10)
    start = epoch + (datetime.now(UTC) - timedelta(days=30) - epoch) // length * length
    last = length // timedelta(minutes=1) - 1

    def of(minute: float, key: str = "a", amount: int = 1) -> dict[str, Any]:
        return {"at": start + timedelta(minutes=minute), "key": key, "amount": amount}

    window = {"window": {"length": "10 days"}, "group_by": ["key"]}
    table = {**window, "measures": {"inverse": "sum(100 / amount)"}, "output_mode": "update"}
    place = Place(tmp_path, clicks(tables={"per_10m": table}, keep="60 days"))
    land(place, "first", of(0, "b"))
    succeed(spark, place, "first")
    land(place, "aside", of(1), of(2, amount=0))
    succeed(spark, place, "aside")
    place.content = {**place.content, "keep": "30 days"}
    assert accept_changed_file(place) == ["keep"]
    land(place, "more", of(last))
    succeed(spark, place, "more")
    told = [one["rows"] for one in place.changes().to_pylist() if one["_failure"] is not None]
    assert max(told) == 3
