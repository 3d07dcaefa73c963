"""The audit finds what is wrong with gold, of every kind, and nothing where nothing is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.kit.running import Place, accept_changed_file, clicks, succeed
from tests.kit.windows import at
from tests.streaming.audits import audit, event, gold_of, nothing_written
from tidemark.operators.kinds import operator_of
from tidemark.recompute.audit_result import audit_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNTS = {"events": "count(*)", "amount": "sum(amount)", "mean": "avg(amount / 3)"}
SLIDING = {"length": "20 minutes", "slide": "10 minutes"}
MODES = {
    "updated": {"window": {"length": "10 minutes"}, "group_by": ["key"], "measures": COUNTS},
    "appended": {
        "window": SLIDING,
        "group_by": ["key"],
        "measures": COUNTS,
        "output_mode": "append",
    },
    "completed": {
        "window": SLIDING,
        "group_by": ["key"],
        "measures": COUNTS,
        "output_mode": "complete",
        "accept_unbounded_state": True,
    },
}


@pytest.fixture(scope="module")
def landed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Eight closed windows in 10:00-10:40, two open ones; a late row was repaired."""
    place = Place(tmp_path_factory.mktemp("audit") / "root")
    place.land("1.json", [event(10, m, key, m) for m in (0, 11, 22, 33, 51) for key in ("a", None)])
    succeed(spark, place, "run-1")
    place.land("2.json", [event(10, 5, "a", 7)])
    succeed(spark, place, "run-2")
    return place


@pytest.fixture
def copied(landed: Place, tmp_path: Path) -> Place:
    return landed.copied(tmp_path / "root")


@pytest.mark.long
@pytest.mark.parametrize("sealed", [False, True])
def test_gold_equals_bronze_in_every_output_mode_after_late_rows_and_a_seal(
    spark: SparkSession, tmp_path: Path, sealed: bool
) -> None:
    watermark = {"delay": "10 minutes", "seal_after_idle": "30 minutes"}
    place = Place(tmp_path, clicks(tables=MODES, watermark=watermark))
    place.land("1.json", [event(10, m, key, m) for m in (0, 12, 31, 58) for key in ("a", None)])
    succeed(spark, place, "run-1", scheduled=at(11))
    place.land("2.json", [event(10, 1, "late", 5), event(11, 30, "a", 3)])
    succeed(spark, place, "run-2", scheduled=at(12))
    if sealed:
        succeed(spark, place, "run-3", scheduled=at(15))
    result = audit(spark, place)
    assert result.outcome == "equal"
    compared = {name: table.found.equal for name, table in result.tables.items()}
    assert compared["completed"] > compared["updated"] > 8
    assert (compared["appended"] == compared["completed"]) is sealed


def test_the_audit_writes_nothing_but_its_result(spark: SparkSession, landed: Place) -> None:
    with nothing_written(landed.root):
        audit(spark, landed)


def change_a_value(place: Place) -> None:
    gold_of(place).update({"amount": "amount + 1"}, predicate="key = 'a' AND amount = 11")


def delete_a_window(place: Place) -> None:
    gold_of(place).delete("key IS NULL AND amount = 11")


def add_a_window(place: Place) -> None:
    row = gold_of(place).to_pyarrow_table().slice(0, 1)
    key = pa.array(["never seen"], row.schema.field("key").type)
    row = row.set_column(row.schema.names.index("key"), "key", key)
    write_deltalake(place.places.gold("per_10m"), row, mode="append")


def double_a_window(place: Place) -> None:
    row = gold_of(place).to_pyarrow_table().slice(0, 1)
    write_deltalake(place.places.gold("per_10m"), row, mode="append")


def lose_a_row(place: Place) -> None:
    DeltaTable(place.places.bronze).delete("key = 'a' AND amount = 7")


def lose_a_whole_window(place: Place) -> None:
    DeltaTable(place.places.bronze).delete("key IS NULL AND amount = 22")


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        pytest.param(change_a_value, "different", marks=pytest.mark.long),
        (delete_a_window, "only_in_bronze"),
        pytest.param(add_a_window, "only_in_gold", marks=pytest.mark.long),
        (double_a_window, "duplicated"),
        (lose_a_row, "different"),
        pytest.param(lose_a_whole_window, "only_in_gold", marks=pytest.mark.long),
    ],
)
def test_one_wrong_window_is_found_with_its_kind_and_both_values(
    spark: SparkSession, copied: Place, damage: Callable[[Place], None], kind: str
) -> None:
    damage(copied)
    result = audit(spark, copied)
    found = result.tables["per_10m"].found
    assert result.outcome == "different"
    # The wrong window is one of ten, or one more.
    equal = 10 if damage is add_a_window else 9
    assert (found.windows, getattr(found, kind), found.equal) == (1, 1, equal)
    [example] = found.examples[kind]
    assert (example.gold is None) == (kind == "only_in_bronze")
    assert (example.bronze is None) == (kind == "only_in_gold")


def test_a_found_window_is_told_with_keys_and_values_and_what_to_do(
    spark: SparkSession, copied: Place
) -> None:
    change_a_value(copied)
    told = "\n".join(audit_lines(audit(spark, copied)))
    assert "per_10m: 1 windows differ" in told
    assert "2026-07-01T10:10:00Z key=a: gold (amount=12); bronze (amount=11)" in told
    assert "tidemark backfill clicks --table per_10m" in told
    assert "end after 2026-07-01T10:41:00Z are open" in told


@pytest.mark.long
def test_a_report_has_five_examples_however_many_windows_differ(
    spark: SparkSession, copied: Place
) -> None:
    gold_of(copied).update({"events": "events + 100"})
    result = audit(spark, copied)
    audited = result.tables["per_10m"]
    assert audited.found.different == 10
    assert len(audited.found.examples["different"]) == 5
    told = list(audit_lines(result))
    assert "    … and 5 more" in told
    assert len(told) < 15


@pytest.mark.long
def test_windows_are_compared_by_their_start_from_the_range_on_and_before_its_end(
    spark: SparkSession, copied: Place
) -> None:
    gold_of(copied).update({"events": "99"}, predicate="window_start = '2026-07-01T10:10:00Z'")

    def differing(start: datetime | None, end: datetime | None) -> int:
        return audit(spark, copied, start, end).tables["per_10m"].found.windows

    assert differing(at(10, 10), at(10, 20)) == 2
    assert differing(at(10, 11), None) == 0
    assert differing(None, at(10, 10)) == 0
    assert differing(None, at(10, 10) + timedelta(seconds=1)) == 2


@pytest.mark.long
def test_a_held_run_is_not_in_gold_and_not_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.land("1.json", [event(10, m) for m in (0, 11, 51)])
    succeed(spark, place, "run-1")
    place.land("2.json", [event(10, 5), event(10, 52), event(12, 0)])
    succeed(spark, place, "run-2", hold=True)
    audited = audit(spark, place)
    assert (audited.outcome, audited.tables["per_10m"].before_batch) == ("equal", 1)
    # What went from bronze since is seen beside it.
    DeltaTable(place.places.bronze).delete("at = '2026-07-01T10:11:00Z'")
    assert audit(spark, place).tables["per_10m"].found.only_in_gold == 1


@pytest.mark.long
def test_frozen_windows_are_left_out_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.land("1.json", [event(10, m) for m in (0, 11, 51)])
    succeed(spark, place, "run-1")
    kept = replace(place, content=clicks(keep="1 day"))
    assert accept_changed_file(kept) == ["keep"]
    kept.land("2.json", [{"at": datetime.now(UTC).isoformat(), "key": "a", "amount": 1}])
    succeed(spark, kept, "run-2")
    audited = audit(spark, kept)
    assert audited.outcome == "equal"
    assert (audited.tables["per_10m"].frozen, audited.tables["per_10m"].found.equal) == (3, 1)


@pytest.mark.long
def test_a_table_that_never_published_equals_bronze(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.land("1.json", [event(10, 0)])
    succeed(spark, place, "run-1", hold=True)
    assert audit(spark, place).tables["per_10m"].found.bronze_windows == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("gold", "bronze", "same"),
    [
        (1.0, 1.0 + 1e-12, True),
        (1.0, 1.0 + 1e-6, False),
        (float("nan"), float("nan"), True),
        (float("nan"), 1.0, False),
        (float("inf"), float("inf"), True),
        (float("inf"), 1e300, False),
        (float("inf"), float("-inf"), False),
        (0.0, 1e-300, False),
        (None, None, True),
        (None, 0.0, False),
    ],
)
def test_doubles_are_equal_within_a_relative_billionth(
    spark: SparkSession, gold: Any, bronze: Any, same: bool
) -> None:
    from tidemark.streaming.recompute.compare import compare_windows, window_differences

    place = replace(Place(Path("/unused")), content=clicks(tables={"t": MEANS}))
    operator = operator_of(place.pipeline, "t")
    columns = "window_start timestamp, window_end timestamp, key string, mean double, rows bigint"
    columns += ", _failure string"
    sides = [
        spark.createDataFrame([(at(10), at(11), None, value, 1, None)], columns)
        for value in (gold, bronze)
    ]
    found = window_differences(compare_windows(sides[0], sides[1], operator), operator)
    assert (found.equal, found.different) == ((1, 0) if same else (0, 1))


MEANS = {"window": {"length": "1 hour"}, "group_by": ["key"], "measures": {"mean": "avg(amount)"}}
