"""`keep`: too old rows are rejected, old windows stay as they are, and bronze forgets old dates."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.kit.running import Place, accept_changed_file, clicks, query, sorted_rows, succeed
from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import PipelineChanged
from tidemark.gold.retention import (
    first_kept_date,
    frozen_before_ms,
    frozen_rows_before_ms,
)
from tidemark.operators.kinds import operator_of
from tidemark.pipeline.instants import epoch_ms
from tidemark.pipeline.model import Pipeline
from tidemark.runs.contract.check import admit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAILY = {"window": {"length": "1 day"}, "group_by": ["key"], "measures": {"events": "count(*)"}}


def kept(days: int, **changes: Any) -> dict[str, Any]:
    tables = {"per_1d": DAILY, "per_10m": clicks()["tables"]["per_10m"]}
    return clicks(keep=f"{days} days", tables=tables) | changes


def row(days_ago: float, key: str = "a") -> dict[str, Any]:
    """A row of some days before now: the batch's time is the wall clock's."""
    at = datetime.now(UTC) - timedelta(days=days_ago)
    return {"at": at.isoformat().replace("+00:00", "Z"), "key": key, "amount": 1}


@pytest.fixture
def unread(tmp_path: Path) -> DeltaTable:
    """Bronze, which windows need not look at: their length tells how far back they reach."""
    return DeltaTable.create(
        str(tmp_path / "unread"), pa.schema([("at", pa.timestamp("us", "UTC"))])
    )


def test_only_rows_that_are_closed_are_frozen(unread: DeltaTable) -> None:
    pipeline = Place(Path("/unused")).pipeline
    operator = operator_of(pipeline, "per_10m")
    ten = epoch_ms(datetime(2026, 7, 1, 10, tzinfo=UTC))
    hour, minute = 3_600_000, 60_000
    assert frozen_rows_before_ms(operator, None, ten, unread) is None
    assert frozen_rows_before_ms(operator, ten - hour, ten, unread) == ten - hour
    # The window that ends at the frontier is closed, and the next one is not.
    assert frozen_rows_before_ms(operator, ten + hour, ten, unread) == ten
    assert frozen_rows_before_ms(operator, ten + hour, ten - minute, unread) == ten - 10 * minute


def dates(place: Place) -> set[str]:
    return {part["_event_date"] for part in DeltaTable(place.places.bronze).partitions()}


def day(days_ago: float) -> str:
    return str((datetime.now(UTC) - timedelta(days=days_ago)).date())


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Place:
    """A pipeline that kept 40 days until now, with rows of 39, 35 and 1 days ago."""
    place = Place(tmp_path, kept(40))
    place.land("1.json", [row(39), row(35), row(1)])
    succeed(spark, place, "first")
    assert dates(place) == {day(39), day(35), day(1)}
    place.content = kept(30)
    with pytest.raises(PipelineChanged, match="keep: 40 days → 30 days: needs to be acc") as told:
        admit(place.pipeline, place.settings)
    assert f"2 rows of 2 dates from {day(39)} to {day(35)} would go from bronze" in str(told.value)
    assert accept_changed_file(place) == ["keep"]
    return place


def test_dates_that_nothing_needs_leave_bronze_and_gold_stays(
    spark: SparkSession, place: Place
) -> None:
    before = {name: sorted_rows(place.gold(name)) for name in place.pipeline.tables}
    place.land("2.json", [row(34), row(29), row(0.01)])
    result = succeed(spark, place, "second")
    assert result.rows.rejected == {"too old": 1}
    assert dates(place) == {day(29), day(1), day(0.01)}
    for name, rows in before.items():
        starts = {old[0] for old in rows}
        now = sorted_rows(place.gold(name))
        assert [old for old in now if old[0] in starts and old[0].date().isoformat() < day(2)] == [
            old for old in rows if old[0].date().isoformat() < day(2)
        ]


@pytest.mark.long
def test_the_stream_reads_on_after_its_table_lost_dates(spark: SparkSession, place: Place) -> None:
    place.land("2.json", [row(0.02)])
    succeed(spark, place, "second")
    assert day(39) not in dates(place)
    place.land("3.json", [row(0.02, "b"), row(20, "late")])
    result = succeed(spark, place, "third")
    late = result.tables["per_10m"].late
    assert (late.corrected, late.first_seen) == (0, 1)
    found = query("SELECT key, events FROM gold ORDER BY ALL", gold=place.gold("per_1d"))
    assert ("late", 1) in found
    assert ("b", 1) in found
    result = succeed(spark, place, "nothing new")
    assert result.rows.read == 0
    assert DeltaTable(place.places.bronze).history(1)[0]["operation"] != "DELETE"


@pytest.mark.long
def test_late_rows_leave_windows_that_begin_before_what_is_kept_as_they_are(
    spark: SparkSession, place: Place
) -> None:
    place.land("2.json", [row(0.02)])
    succeed(spark, place, "second")
    # Accepted, and yet its day began before what is kept.
    place.land("3.json", [row(30 - 1 / 1440, "edge")])
    result = succeed(spark, place, "third")
    assert result.rows.accepted == 1
    late = result.tables["per_1d"].late
    assert (late.rows, late.assigned, late.frozen, late.recomputed) == (1, 1, 1, 0)
    assert query("SELECT key FROM gold WHERE key = 'edge'", gold=place.gold("per_1d")) == []
    ((frozen, difference),) = query(
        "SELECT frozen_assigned, difference FROM lines WHERE kind = 'stream' "
        "AND \"table\" = 'per_1d' AND late_assigned = 1",
        lines=place.table(place.places.ledger),
    )
    assert (frozen, difference) == (1, 0)


def test_dates_of_open_windows_and_of_possible_duplicates_are_kept(unread: DeltaTable) -> None:
    now = datetime(2026, 7, 31, 12, tzinfo=UTC)
    frozen = epoch_ms(now - timedelta(days=10))
    pipeline = Place(Path("/unused"), kept(10)).pipeline
    closed = dict.fromkeys(pipeline.tables, epoch_ms(now))
    assert str(first_kept_date(pipeline, frozen, closed, unread)) == "2026-07-21"
    open_since = closed | {"per_1d": epoch_ms(now - timedelta(days=20))}
    assert str(first_kept_date(pipeline, frozen, open_since, unread)) == "2026-07-10"
    assert str(first_kept_date(_with_horizon(3), frozen, closed, unread)) == "2026-07-18"
    assert str(first_kept_date(pipeline, frozen, dict.fromkeys(closed, 0), unread)) == "1969-12-31"


def _with_horizon(days: int) -> Pipeline:
    source = clicks()["source"] | {"unique": {"by": "key", "within": f"{days} days"}}
    return Place(Path("/unused"), kept(10, source=source)).pipeline


def test_without_keep_and_before_the_first_batch_nothing_is_frozen(tmp_path: Path) -> None:
    nothing = Checkpoint(str(tmp_path / "none"), {})
    assert frozen_before_ms(Place(tmp_path).pipeline, nothing) is None
    assert frozen_before_ms(Place(tmp_path, kept(10)).pipeline, nothing) is None


def test_a_horizon_longer_than_there_are_dates_keeps_them_all(unread: DeltaTable) -> None:
    pipeline = _with_horizon(3_000_000)
    assert first_kept_date(pipeline, 0, dict.fromkeys(pipeline.tables, 0), unread) == date.min
