"""A lone row that lies far ahead is a reject, and moves no watermark; a quiet night is no jump."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.end_to_end.test_row_rules import as_tasks
from tests.kit.running import Place, clicks, succeed
from tests.sources.contract.test_every_kind import EACH_POINT, fail_at
from tests.sources.contract.worlds import WORLDS, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST = timedelta(hours=2)
START = datetime.fromisoformat("2026-07-01T10:00:00+00:00")
GUARDED: dict[str, Any] = {"event_time": {"column": "at", "max_jump": "2 hours"}}
ONCE = {"unique": {"by": "key", "within": "20 minutes"}}


def row(hours: float, key: str | None = None) -> dict[str, Any]:
    at = START - timedelta(days=60) + timedelta(hours=hours)
    return {"at": at.isoformat(), "key": key, "amount": 1}


def hours_of(place: Place) -> list[float]:
    first = START - timedelta(days=60)
    times = place.bronze()["at"].to_pylist()
    return sorted((at - first) / timedelta(hours=1) for at in times)


def jumps(place: Place) -> list[str]:
    return sorted(r["detail"] for r in place.rejects().to_pylist() if r["reason"] == "jump")


def run(spark: SparkSession, world: World, number: int, *hours: float) -> Counter[str]:
    world.land(str(number), [row(one, f"{number}-{n}") for n, one in enumerate(hours)])
    return Counter(succeed(spark, world.place, f"run {number}").rows.rejected)


def test_up_to_two_rows_that_lie_far_ahead_are_rejects_and_three_confirm_each_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = WORLDS["files"](tmp_path, **GUARDED)
    assert run(spark, world, 0, 0, 1, 9) == {"jump": 1}
    assert jumps(world.place) == [
        "at is 2026-05-02 19:00:00, after a jump from 2026-05-02 11:00:00 that fewer than 3 rows "
        "of the batch confirm"
    ]
    # From the newest that was accepted on; what is older is no witness.
    assert run(spark, world, 1, 0.5, 2, 8, 30) == {"jump": 2}
    assert run(spark, world, 2, 3, 20, 20.5, 21) == {}
    # After a quiet night, with stragglers of the evening.
    assert run(spark, world, 3, 20.8, 20.9, 33) == {}
    # At most two hours are no jump.
    assert run(spark, world, 4, 34, 36, 38, 40.001) == {"jump": 1}
    assert hours_of(world.place) == [
        *(0, 0.5, 1, 2, 3, 20, 20.5, 20.8, 20.9, 21, 33, 34, 36, 38),
    ]
    # They close no window: what came behind them is late for none but 0.5 and 20.8.
    lines = world.place.table(world.place.places.ledger).to_pylist()
    assert sum(line["late_rows"] or 0 for line in lines) == 2


def test_without_a_guard_any_jump_is_taken(spark: SparkSession, tmp_path: Path) -> None:
    world = WORLDS["files"](tmp_path)
    assert run(spark, world, 0, 0, 1, 900) == {}


@pytest.mark.second
def test_copies_of_one_row_do_not_confirm_each_other(spark: SparkSession, tmp_path: Path) -> None:
    world = WORLDS["files"](tmp_path, **GUARDED, **ONCE)
    given = [row(0, "a"), row(1, "b"), *[row(9, "c")] * 5, row(9)]
    world.land("0", given)
    assert succeed(spark, world.place).rows.rejected == {"jump": 6}
    # Rows without an id do.
    world.land("0", [row(1.5, "a"), *[row(9)] * 3])
    assert succeed(spark, world.place, "next").rows.rejected == {}


@pytest.mark.second
def test_rows_of_one_id_that_lie_further_apart_confirm_each_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    within = {"unique": {"by": "key", "within": "1 minute"}}
    world = WORLDS["files"](tmp_path, **GUARDED, **within)
    # One sensor, whose clock jumps.
    world.land("0", [row(0, "a"), row(0.1, "a"), row(9, "a")])
    assert succeed(spark, world.place).rows.rejected == {"jump": 1}
    assert hours_of(world.place) == [0, 0.1]
    # Another one fell silent: it is no jump that this one goes on.
    world.land("0", [row(1, "b"), row(4, "a"), row(4.1, "a"), row(4.2, "a")])
    assert succeed(spark, world.place, "next").rows.rejected == {}


@pytest.mark.second
def test_what_a_rule_rejects_is_no_witness(spark: SparkSession, tmp_path: Path) -> None:
    rules = [{"name": "none", "reject": "amount = 0"}]
    world = WORLDS["files"](tmp_path, **GUARDED, rules=rules)
    nothing = {"amount": 0}
    world.land("0", [row(0), row(1), row(9), row(9) | nothing, row(9) | nothing])
    assert succeed(spark, world.place).rows.rejected == {"jump": 1, "none": 2}


def cut_by(newest: float, batch: list[float]) -> float | None:
    """The rule in plain Python."""
    newer = sorted((one for one in batch if one > newest), reverse=True)[:3]
    far = [low for high, low in pairwise(newer) if high - low > MOST / timedelta(hours=1)]
    return min(far, default=None)


@pytest.mark.second
@pytest.mark.parametrize(
    ("kind", "few"),
    [("files", True), ("delta", False)],
)
def test_random_batches_are_judged_as_the_rule_says(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, few: bool
) -> None:
    if not few:
        as_tasks(monkeypatch)
    chance = random.Random(11)
    world = WORLDS[kind](tmp_path, **GUARDED)
    accepted: list[float] = []
    rejected, at = 0, 0.0
    for number in range(6):
        ahead = [at + chance.random() * 6 for _ in range(chance.choice([1, 4, 12]))]
        far = [at + chance.choice([3, 9, 30]) for _ in range(chance.choice([0, 1, 2, 3]))]
        given = [round(one, 3) for one in (*ahead, *far)]
        cut = cut_by(max(accepted, default=-1.0), given)
        taken = [one for one in given if cut is None or one <= cut]
        found = run(spark, world, number % 2, *given)["jump"]
        assert found == len(given) - len(taken)
        accepted += taken
        rejected += found
        at = max(accepted) - 2
        assert [round(one, 3) for one in hours_of(world.place)] == sorted(accepted)
    assert rejected


@pytest.mark.second
@pytest.mark.parametrize("point", EACH_POINT)
def test_a_repeated_batch_rejects_the_same_jumps(
    spark: SparkSession, tmp_path: Path, point: tuple[str, str]
) -> None:
    world = WORLDS["files"](tmp_path, **GUARDED)
    run(spark, world, 0, 0, 1)
    world.land("1", [row(2), row(9), row(9.5), "not JSON"])
    fail_at(spark, world, point)
    # A setting that was changed since decides nothing of rows that are in bronze.
    later = clicks(source={**world.named(), **_common(world), "event_time": {"column": "at"}})
    if point == ("accepted rows", "after"):
        world.place.content = later
    assert succeed(spark, world.place, "again").rows.rejected == {"jump": 2, "malformed": 1}
    assert hours_of(world.place) == [0, 1, 2]


def _common(world: World) -> dict[str, Any]:
    source = dict(world.place.content["source"])
    return {name: one for name, one in source.items() if name not in world.named()}


def test_a_jump_stays_one_when_its_witness_vanished_before_the_batch_was_repeated(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its accepted rows are in bronze, so that the batch as it is now tells no jump any more."""
    world = WORLDS["files"](tmp_path, **GUARDED)
    world.land("0", [row(0), row(1)])
    world.land("1", [row(9)])
    fail_at(spark, world, ("accepted rows", "after"))
    world.lose("0")
    assert succeed(spark, world.place, "again").rows.rejected == {"changed file": 1, "jump": 1}
    assert hours_of(world.place) == [0, 1]
