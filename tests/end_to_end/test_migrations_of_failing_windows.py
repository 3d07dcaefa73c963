"""A window that fails keeps no table from being migrated: gold lacks it, and says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.generations import (
    MODES,
    ThreeRuns,
    changed,
    first_of,
    goes_on,
    is_right,
    migrated,
)
from tests.kit.running import Place, succeed
from tests.streaming.audits import event
from tidemark.gold.failing import failing_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Fails on a row of amount 0, and with it any query that reads the row.
INVERSE = {"events": "count(*)", "inverse": "sum(1000 / amount)"}


def failing(place: Place, generation: int) -> set[tuple[int, int, str | None]]:
    operator = place.run("look").operator("per_10m")
    changes = place.warehouse.changes("per_10m", generation).existing()
    rows = failing_rows(changes, operator, generation).to_pylist()
    return {(r["window_start"].hour, r["window_start"].minute, r["key"]) for r in rows}


def in_gold(place: Place) -> set[tuple[int, int, str | None]]:
    rows = place.gold().to_pylist()
    return {(r["window_start"].hour, r["window_start"].minute, r["key"]) for r in rows}


@pytest.mark.long
@pytest.mark.parametrize("mode", first_of(MODES))
def test_windows_that_fail_the_query_are_left_out_of_the_generation(
    spark: SparkSession, three_runs: ThreeRuns, mode: str
) -> None:
    place = three_runs(mode)
    place.land("open.json", [event(11, 4, "z", 0), event(11, 4, "y", 8)])
    succeed(spark, place, "run-open")
    new = changed(place, measures=INVERSE)
    result = migrated(spark, new)
    assert result.found is not None
    closed, opened = {(10, 0, "a"), (10, 0, None)}, {(11, 0, "z")}
    assert failing(new, 2) == closed | opened
    assert not in_gold(new) & (closed | opened)
    assert result.found.failing == (2 if mode == "append" else 3)
    is_right(spark, new)
    # More rows of theirs, late and in time; and another window that fails, in the first batch.
    new.land("more.json", [event(10, 2, "a", 5), event(11, 5, "z", 5), event(11, 6, "x", 0)])
    succeed(spark, new, "more")
    assert failing(new, 2) == closed | opened | {(11, 0, "x")}
    is_right(spark, new)
    goes_on(spark, new)
    assert not in_gold(new) & (closed | opened | {(11, 0, "x")})


@pytest.mark.long
@pytest.mark.parametrize("mode", first_of(MODES))
def test_an_open_window_whose_measure_fails_when_it_is_evaluated_goes_on(
    spark: SparkSession, three_runs: ThreeRuns, mode: str
) -> None:
    """Each window of one row fails, and the stream says so again, and then mends it."""
    share = {"events": "count(*)", "share": "sum(amount) / (count(*) - 1)"}
    new = changed(three_runs(mode), measures=share)
    migrated(spark, new)
    new.land("mended.json", [event(11, 4, "a", 7), event(11, 5, "only", 7)])
    succeed(spark, new, "more")
    is_right(spark, new)
    if mode != "append":
        assert (11, 0, "a") in in_gold(new)
    assert (11, 0, "only") not in in_gold(new)


@pytest.mark.long
@pytest.mark.parametrize("mode", first_of(MODES))
def test_a_corrected_measure_brings_the_windows_back(
    spark: SparkSession, three_runs: ThreeRuns, mode: str
) -> None:
    place = changed(three_runs(mode), measures=INVERSE)
    migrated(spark, place)
    mended = {"events": "count(*)", "inverse": "sum(try_divide(1000, amount))"}
    place = changed(place, measures=mended)
    migrated(spark, place, "mended")
    assert {(10, 0, "a"), (10, 0, None)} <= in_gold(place)
    assert not failing(place, 3)
    is_right(spark, place)
    goes_on(spark, place)
