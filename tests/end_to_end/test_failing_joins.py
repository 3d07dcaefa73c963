"""A measure that fails on a joined row is a verdict on its window, and the others go on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.end_to_end.test_generations_of_joins import JoinedPlace, a_place, migrated
from tests.kit.running import run_warm, succeed
from tests.operators.contract.joins import OTHER, Row, join_table, sides
from tests.operators.contract.kinds import DAY, TABLE, Kind, event, of
from tests.streaming.audits import audit
from tidemark.gold.state import gold_state
from tidemark.ledger.rebuild import Ledgered, rebuilt_lines
from tidemark.pipeline.instants import instant_of
from tidemark.runs.status.pipeline_status import pipeline_status
from tidemark.storage.delta.history import FAILURE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A cost of 0 fails on the joined row; an amount of 13 on one that comes out as unmatched.
UNLUCKY = 13
TABLE_THAT_FAILS = join_table("left", before=1).model_copy(
    update={
        "measures": {
            "amount": "sum(amount)",
            "inverse": f"sum(12 / {OTHER}.cost)",
            "alone": f"sum(1 / if({OTHER}.cost is null and amount = {UNLUCKY}, 0, 1))",
        }
    }
)


def windows(rows: Sequence[Row]) -> dict[tuple[Any, ...], tuple[Any, ...] | None]:
    """What each window comes to by one batch; None where it fails."""
    join, length = TABLE_THAT_FAILS.join, TABLE_THAT_FAILS.window.length
    left, right = sides(rows)
    found: dict[tuple[Any, ...], list[tuple[int, int | None]]] = {}
    for row in left:
        costs: list[int | None] = [
            other["amount"]
            for other in right
            if row["key"] is not None
            and other["key"] == row["key"]
            and -join.within.before <= other["at"] - row["at"] <= join.within.after
        ]
        start = DAY + (row["at"] - DAY) // length * length
        pairs = [(row["amount"], cost) for cost in costs or [None]]
        found.setdefault((start, row["key"]), []).extend(pairs)
    return {window: values(pairs) for window, pairs in found.items()}


def values(pairs: Sequence[tuple[int, int | None]]) -> tuple[Any, ...] | None:
    if any(cost == 0 or (cost is None and amount == UNLUCKY) for amount, cost in pairs):
        return None
    costs = [cost for _, cost in pairs if cost is not None]
    inverse = pytest.approx(sum(12 / cost for cost in costs)) if costs else None
    total = sum(amount for amount, _ in pairs)
    return total, inverse, len(pairs), len(costs), len(pairs)


def check(place: JoinedPlace, rows: Sequence[Row]) -> int:
    """Gold has the closed windows that do not fail; how many that are closed do."""
    close = instant_of(gold_state(DeltaTable(place.places.gold(TABLE))).close_ms)
    length = TABLE_THAT_FAILS.window.length
    closed = {one: found for one, found in windows(rows).items() if one[0] + length <= close}
    shown = {
        (row["window_start"], row["key"]): tuple(
            row[name] for name in ("amount", "inverse", "alone", "matches", "rows")
        )
        for row in place.gold(TABLE).to_pylist()
    }
    assert shown == {one: found for one, found in closed.items() if found is not None}
    return len(closed) - len(shown)


def check_all(spark: SparkSession, place: JoinedPlace, rows: Sequence[Row]) -> None:
    failing = check(place, rows)
    found = audit(spark, place)
    assert found.outcome == "equal"
    assert found.tables[TABLE].found.failing == failing
    lines = rebuilt_lines(Ledgered(place.pipeline, place.warehouse))
    assert [line for line in lines if line.difference] == []
    status = pipeline_status(place.pipeline, place.settings, datetime.now(UTC))
    assert status.problem is None, status.problem
    assert status.tables[0].failing.windows >= failing


def landed(spark: SparkSession, place: JoinedPlace, rows: list[Row], name: str, *new: Row) -> int:
    place.land_rows(f"{name}.json", list(new))
    rows += new
    succeed(spark, place, name)
    return check(place, rows)


def the_place(tmp_path: Path) -> JoinedPlace:
    return a_place(tmp_path, Kind("failing", TABLE_THAT_FAILS, windows))  # type: ignore[arg-type]


GOOD = [*(event(minute, key) for minute in (1, 6, 12) for key in ("a", "b", None)), of(2)]


@pytest.mark.long
def test_windows_that_fail_on_a_joined_row_are_verdicts_and_the_others_go_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    place, rows = the_place(tmp_path), list[Row]()
    landed(spark, place, rows, "good", *GOOD)
    # The other side alone brings a row that fails with one of before; another window has both.
    landed(spark, place, rows, "match", of(7, "b", 0), event(13, "a", 5), of(13.5, "a", 0), of(14))
    landed(spark, place, rows, "more", event(7, "b"), event(22, "b", 4), of(23, "b", 2))
    assert landed(spark, place, rows, "closes", event(60, "z"), of(60, "z")) == 2
    # A closed window fails by a late match; what fails goes on to be computed.
    assert landed(spark, place, rows, "late", of(24, "b", 0), of(3, "b"), event(8, "b")) == 3
    succeed(spark, place, "sealed", scheduled=DAY + timedelta(days=2))
    check_all(spark, place, rows)
    before = place.changes(TABLE).num_rows
    landed(spark, place, rows, "last", event(200, "z"), of(200, "z"))
    assert place.changes(TABLE).num_rows <= before + 1


@pytest.mark.long
def test_a_row_that_fails_once_it_comes_out_as_unmatched_is_a_verdict_on_its_window(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It comes out when the watermark has passed its range, in a batch that reads nothing of it."""
    place, rows = the_place(tmp_path), list[Row]()
    landed(spark, place, rows, "good", *GOOD)
    landed(spark, place, rows, "unlucky", event(25, "a", UNLUCKY), event(26, "b", UNLUCKY), of(27))
    assert landed(spark, place, rows, "closes", event(60, "z"), of(60, "z")) == 1
    # A late match mends it.
    assert landed(spark, place, rows, "mends", of(26.5, "b"), event(62, "z")) == 0
    check_all(spark, place, rows)


def test_what_fails_in_the_very_first_batch_ends_the_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = the_place(tmp_path)
    place.land_rows("bad.json", [event(1), of(2, "a", 0)])
    error = run_warm(spark, place, "first").error
    assert error is not None
    assert error.type == "ExpressionFailed"


@pytest.mark.long
def test_what_fails_is_left_out_of_the_next_generation_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    place, rows = the_place(tmp_path), list[Row]()
    landed(spark, place, rows, "good", *GOOD)
    landed(spark, place, rows, "bad", of(7, "b", 0), event(25, "a"), of(26, "a", 0))
    landed(spark, place, rows, "closes", event(43, "z"), of(43, "z"))
    migrated(spark, place, rebuild=True)
    check_all(spark, place, rows)
    landed(spark, place, rows, "on", event(26.5, "a"), event(60, "z"), of(60, "z"), of(44, "z", 0))
    failed = [row for row in place.changes(TABLE).to_pylist() if row[FAILURE]]
    assert failed
    check_all(spark, place, rows)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_random_joined_rows_that_fail_are_verdicts(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    draw, place, rows = Random(seed), the_place(tmp_path), list[Row]()
    for run in range(5):
        new: list[Row] = []
        for _ in range(draw.randint(4, 10)):
            minute = draw.uniform(max(0, 30 * run - 40), 30 * run + 30)
            key = draw.choice(["a", "b", None])
            # What fails in the very first batch stops the run.
            new.append(event(minute, key, draw.choice([1, 2, UNLUCKY]) if run else 1))
            cost = draw.choice([0, 2, 3]) if run else 3
            near = minute + draw.uniform(-2, 8)
            new.append(of(near, draw.choice(["a", "b"]), cost))
        landed(spark, place, rows, f"run-{run}", *new)
    succeed(spark, place, "sealed", scheduled=DAY + timedelta(days=2))
    check_all(spark, place, rows)
