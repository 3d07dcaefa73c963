"""`keep` and another gap: what bronze has dropped is no beginning of a longer session."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.end_to_end.generations import changed, is_right, migrate, migrated, rolled_back, table
from tests.kit.running import Place, accept_changed_file, clicks, succeed
from tidemark.errors import MigrationRefused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long
NOW = datetime.now(UTC)
# What is kept ends about noon of the day that is the first one kept.
KEEP = timedelta(hours=30 * 24 + NOW.hour - 12)
FIRST_KEPT = (NOW - KEEP).replace(hour=0, minute=0, second=0, microsecond=0)
LONG, SHORT = {"window": {"session": "12 minutes"}}, {"window": {"session": "6 minutes"}}


def row(minute: float) -> dict[str, Any]:
    at = FIRST_KEPT + timedelta(minutes=minute)
    return {"at": at.isoformat(), "key": "a", "amount": 1}


# Eight minutes apart, from before midnight until after noon: one session, or one each.
CHAIN = [row(minute) for minute in range(-14, 15 * 60, 8)]


def started(spark: SparkSession, root: Path, window: dict[str, Any]) -> Place:
    place = Place(root, clicks(tables=table("append", **window), keep="60 days"))
    place.land("1.json", CHAIN)
    succeed(spark, place, "first")
    return place


def dropped(spark: SparkSession, place: Place) -> None:
    """The day before goes."""
    place.content = {**place.content, "keep": f"{KEEP // timedelta(hours=1)} hours"}
    assert accept_changed_file(place) == ["keep"]
    place.land("more.json", [row(15 * 60 + 2)])
    succeed(spark, place, "drops")
    days = {part["_event_date"] for part in DeltaTable(place.places.bronze).partitions()}
    assert days == {str(FIRST_KEPT.date())}


def test_a_migration_to_a_longer_gap_refuses_an_open_session_whose_beginning_is_gone(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = started(spark, tmp_path, SHORT)
    dropped(spark, place)
    error = migrate(spark, changed(place, **LONG)).error
    assert error is not None
    assert error.type == "MigrationRefused"
    assert f"bronze has rows from {FIRST_KEPT.date()} on only" in error.message
    # The former gap goes on.
    place.land("on.json", [row(15 * 60 + 40)])
    succeed(spark, place, "on")
    is_right(spark, place)


def test_there_is_no_way_back_to_a_longer_gap_whose_sessions_were_cut_since(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = started(spark, tmp_path, LONG)
    other = changed(place, **SHORT)
    migrated(spark, other)
    dropped(spark, other)
    with pytest.raises(MigrationRefused, match="were dropped since"):
        rolled_back(other)
