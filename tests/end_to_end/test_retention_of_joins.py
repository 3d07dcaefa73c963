"""`keep` in two pipelines of which one joins with the other: dates go once neither needs them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.end_to_end.test_generations_of_joins import PLAIN_KIND, migrate
from tests.kit.running import Place, accept_changed_file, run_warm, succeed
from tests.operators.contract.joins import OTHER, join_table, joins, partner_pipeline
from tests.operators.contract.kinds import TABLE, Kind, KindPlace
from tests.streaming.audits import audit
from tidemark import commit_point
from tidemark.errors import MigrationRefused
from tidemark.gold.other_readers import OtherReader, note_reader, other_readers
from tidemark.gold.retention import given_up_ms, table_frozen_before_ms
from tidemark.pipeline.instants import epoch_ms
from tidemark.pipeline.model import Pipeline
from tidemark.recompute.gold_before import gold_before
from tidemark.recompute.rollback import plan_rollback
from tidemark.recompute.table_change import change_of
from tidemark.storage.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE, DAYS = timedelta(minutes=1), timedelta(days=1)
NOW = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)


@dataclass
class Kept(KindPlace):
    """The pipeline that joins."""

    days: int = 40
    kind: Kind = field(
        default_factory=lambda: Kind(
            "joins", join_table("left", before=1), joins(join_table("left", before=1))
        )
    )

    @property
    def pipeline(self) -> Pipeline:
        return super().pipeline.model_copy(update={"keep": timedelta(days=self.days)})


@dataclass
class OtherKept(Place):
    """The one that it joins with, whose own runs drop its dates."""

    name: str = OTHER
    days: int = 40

    @property
    def pipeline(self) -> Pipeline:
        return partner_pipeline().model_copy(update={"keep": timedelta(days=self.days)})


def at(days_ago: float, minutes: float = 0) -> datetime:
    return NOW - days_ago * DAYS + minutes * MINUTE


def left(days_ago: float, minutes: float = 1, amount: int = 1) -> dict[str, Any]:
    return {"at": at(days_ago, minutes).isoformat(), "key": "a", "amount": amount}


def right(days_ago: float, minutes: float = 2, cost: int = 3) -> dict[str, Any]:
    return {"ordered": at(days_ago, minutes).isoformat(), "id": "a", "cost": cost}


def dates(place: Place) -> set[str]:
    return {part["_event_date"] for part in DeltaTable(place.places.bronze).partitions()}


def day(days_ago: float) -> str:
    return str(at(days_ago).date())


def shorter(place: Any, days: int) -> Any:
    """The file says so, and somebody has accepted it."""
    found = replace(place, days=days)
    assert accept_changed_file(found) == ["keep"]
    return found


def window(place: Place, days_ago: float) -> dict[str, Any] | None:
    held = {row["window_start"]: row for row in place.gold(TABLE).to_pylist()}
    start = at(days_ago)
    return next((row for begun, row in held.items() if begun == start), None)


@pytest.fixture
def both(spark: SparkSession, tmp_path: Path) -> tuple[Kept, OtherKept]:
    """Both kept 40 days until now, with rows of 39, 35, 10, 3 and 1 days ago, which are closed but
    for the last."""
    place, other = Kept(tmp_path), OtherKept(tmp_path)
    ago = (39, 35, 10, 3, 1)
    other.land("1.json", [right(days) for days in ago], "landing_orders")
    succeed(spark, other, "first")
    place.land("1.json", [left(days) for days in ago])
    succeed(spark, place, "first")
    return place, other


def noted(other: OtherKept) -> datetime:
    (reader,) = other_readers(other.warehouse)
    assert reader.from_ms is not None
    return datetime.fromtimestamp(reader.from_ms / 1_000, UTC)


@pytest.mark.long
def test_dates_of_the_other_bronze_go_once_no_window_that_is_not_frozen_needs_them(
    spark: SparkSession, both: tuple[Kept, OtherKept]
) -> None:
    place, other = both
    assert abs(noted(other) - (datetime.now(UTC) - timedelta(days=40, minutes=1))) < 10 * MINUTE
    other = shorter(other, 30)
    succeed(spark, other, "second")
    assert {day(39), day(35)} <= dates(other)
    place = shorter(place, 37)
    succeed(spark, place, "second")
    assert day(39) not in dates(place)
    succeed(spark, other, "third")
    assert (day(39) in dates(other), day(35) in dates(other)) == (False, True)
    # The frozen window stays, and what is joined with the date that is kept can be mended.
    before = window(place, 39)
    assert before is not None
    place.land("late.json", [left(35, 1.5, amount=7)])
    succeed(spark, place, "late")
    mended = window(place, 35)
    assert mended is not None
    assert (mended["amount"], mended["matches"], mended["status"]) == (8, 2, "corrected")
    assert window(place, 39) == before
    assert audit(spark, place).outcome == "equal"


@pytest.mark.long
def test_a_late_row_of_the_other_side_for_a_frozen_window_is_counted_and_changes_nothing(
    spark: SparkSession, both: tuple[Kept, OtherKept]
) -> None:
    place, other = both
    place = shorter(place, 5)
    succeed(spark, place, "shorter")
    before = window(place, 10)
    # The first one matches a row that is gone from this bronze; the other one is no late row of a
    # frozen window.
    other.land("late.json", [right(10, 3, cost=50), right(3, 3, cost=60)], "landing_orders")
    succeed(spark, other, "late")
    result = succeed(spark, place, "late")
    assert result.tables[TABLE].late.frozen == 1
    assert window(place, 10) == before
    mended = window(place, 3)
    assert mended is not None
    assert (mended["cost"], mended["matches"]) == (63, 2)
    assert audit(spark, place).outcome == "equal"


@pytest.mark.long
def test_a_window_that_is_open_is_mended_though_keep_has_passed_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The other side stood still, so nothing closed; its rows are all there."""
    place, other = Kept(tmp_path), OtherKept(tmp_path)
    other.land("1.json", [right(10, 20)], "landing_orders")
    succeed(spark, other, "first")
    place.land("1.json", [left(10), left(1)])
    succeed(spark, place, "first")
    place = shorter(place, 5)
    # The engine drops this row for its time, and emits its match as unmatched later on.
    other.land("2.json", [right(10, 2, cost=7)], "landing_orders")
    succeed(spark, other, "late")
    succeed(spark, place, "late")
    assert window(place, 10) is None
    other.land("3.json", [right(1)], "landing_orders")
    succeed(spark, other, "on")
    succeed(spark, place, "on")
    found = window(place, 10)
    assert found is not None
    assert (found["cost"], found["matches"], found["status"]) == (7, 1, "final")


@pytest.mark.long
def test_what_is_needed_is_noted_behind_the_publish_and_a_kill_keeps_more(
    spark: SparkSession, both: tuple[Kept, OtherKept], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, other = both
    first = noted(other)
    place = shorter(place, 5)
    for when in ("before", "after"):

        def reached(name: str, at: str, given: tuple[object, ...], when: str = when) -> None:
            if (name, at) == ("reader of another bronze noted", when):
                raise RuntimeError(f"ended {when}")

        monkeypatch.setattr(commit_point, "on_reach", reached)
        assert run_warm(spark, place, f"killed-{when}").error is not None
        monkeypatch.setattr(commit_point, "on_reach", None)
        assert (noted(other) == first) == (when == "before")
    assert noted(other) > first + 30 * DAYS
    succeed(spark, place, "again")
    assert audit(spark, place).outcome == "equal"


@pytest.mark.long
def test_what_was_given_up_stays_so_whatever_the_next_generation_reaches_for(
    spark: SparkSession, both: tuple[Kept, OtherKept]
) -> None:
    """A range of two days more to before: windows of these days may lack rows."""
    place, other = both
    place = shorter(place, 9)
    succeed(spark, place, "shorter")
    given_up = noted(other)
    other = shorter(other, 5)
    succeed(spark, other, "drops")
    assert day(10) not in dates(other)
    longer = join_table("left", before=2 * 24 * 60)
    place = replace(place, kind=Kind("joins", longer, joins(longer)))
    result = migrate(spark, place)
    assert result.error is None, result.error
    first = given_up_ms(place.warehouse, TABLE, place.kind.operator)
    assert first == epoch_ms(given_up + 2 * DAYS)
    # Nor by tables that came back from a backup, whose frontier is an earlier one.
    bronze, earlier = place.warehouse.bronze.existing(), epoch_ms(NOW - 30 * DAYS)
    asked = (place.pipeline, place.warehouse, TABLE, place.kind.operator, bronze, earlier)
    assert table_frozen_before_ms(*asked) == first
    assert all(epoch_ms(row["window_start"]) >= first for row in place.gold(TABLE).to_pylist())
    succeed(spark, place, "on")
    assert audit(spark, place).outcome == "equal"
    # Where what is open would lack rows, there is no such generation.
    note_reader(
        other.warehouse, OtherReader(pipeline=place.name, table=TABLE, from_ms=epoch_ms(NOW))
    )
    change = change_of(place.pipeline, place.settings, TABLE, rebuild=True)
    with pytest.raises(MigrationRefused, match="needs no row of the other bronze"):
        gold_before(place.run("look"), TABLE, place.kind.operator, change)


@pytest.mark.long
def test_there_is_no_way_back_to_a_join_whose_rows_were_dropped_meanwhile(
    spark: SparkSession, both: tuple[Kept, OtherKept]
) -> None:
    """Without its note nothing kept them."""
    place, other = both
    plain = replace(place, kind=PLAIN_KIND)
    result = migrate(spark, plain)
    assert result.error is None, result.error
    assert other_readers(other.warehouse) == ()
    assert plan_rollback(plain.pipeline, plain.warehouse, TABLE)
    other = shorter(other, 5)
    succeed(spark, other, "drops")
    with pytest.raises(MigrationRefused, match="were dropped since"):
        plan_rollback(plain.pipeline, plain.warehouse, TABLE)


def test_a_note_never_goes_back(tmp_path: Path) -> None:
    other: Warehouse = OtherKept(tmp_path).warehouse
    for asked, held in ((None, None), (5, 5), (9, 9), (7, 9), (None, 9)):
        note_reader(other, OtherReader(pipeline="p", table="t", from_ms=asked))
        (found,) = other_readers(other)
        assert found.from_ms == held
