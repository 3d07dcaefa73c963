"""A seal that was not published says nothing once rows come: what it closed is open again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.end_to_end import test_failing_sessions as failing
from tests.end_to_end.test_failing_measures import DAY, LARGEST, land, row
from tests.end_to_end.test_folds import FAILS, GAP, ticks
from tests.end_to_end.test_folds import place_at as fold_at
from tests.kit.killed import killed
from tests.kit.running import Place, run_warm, succeed
from tests.operators.contract.folded import SOURCE, Known, folded
from tests.operators.contract.kinds import MINUTE, as_json, event
from tests.streaming.audits import audit
from tidemark.runs.status.pipeline_status import pipeline_status

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]
# A run without a row seals up to so long before the time that it is scheduled for.
IDLE = timedelta(hours=1, minutes=10)
FAILING = SOURCE.replace(
    "        state.rows += 1\n",
    "        state.rows += 1\n        assert row['amount'], 'nothing'\n",
).replace("        return [{", "        assert state.rows > 1, 'too short'\n        return [{")


def seal_unpublished(spark: SparkSession, place: Place, to_minute: float, how: str) -> None:
    """A run that finds its source idle, and is held, or dies before it publishes."""
    scheduled, before = DAY + to_minute * MINUTE + IDLE, place.gold(*place.pipeline.tables)
    if how == "held":
        succeed(spark, place, f"held-{to_minute}", hold=True, scheduled=scheduled)
    else:
        with killed("before", "gold"):
            assert run_warm(spark, place, f"killed-{to_minute}", scheduled=scheduled).error
    assert place.gold(*place.pipeline.tables).equals(before)


@pytest.mark.long
@pytest.mark.parametrize("how", ["held", "killed"])
def test_outputs_stay_where_the_verdict_on_their_episode_was_not_published(
    spark: SparkSession, tmp_path: Path, how: str
) -> None:
    """Its verdict and what goes by it are one: both wait until the episode really ends."""
    place = fold_at(tmp_path, FAILS)
    place.land("1.json", as_json([event(minute) for minute in (1, 2, 3)] + ticks(13)))
    succeed(spark, place, "first", scheduled=DAY)
    before = place.known()
    assert {which[1:] for which in before} == {("a", 1)}
    place.land("2.json", as_json([event(4, "a", 0)]))
    succeed(spark, place, "second", scheduled=DAY)
    seal_unpublished(spark, place, 60, how)
    place.land("3.json", as_json(ticks(13.5)))
    succeed(spark, place, "third", scheduled=DAY)
    assert place.known() == before
    status = pipeline_status(place.pipeline, place.settings, datetime.now(UTC))
    assert status.tables[0].failing.windows == 0
    place.land("4.json", as_json(ticks(100)))
    succeed(spark, place, "fourth", scheduled=DAY)
    assert [which for which in place.known() if which[1] == "a"] == []
    found = audit(spark, place)
    assert (found.outcome, found.tables["thirds"].found.failing) == ("equal", 1)
    assert (
        pipeline_status(place.pipeline, place.settings, datetime.now(UTC)).tables[0].failing.windows
        == 1
    )


@pytest.mark.long
def test_a_verdict_that_was_not_published_goes_where_its_episode_grew_and_puts_nothing_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Nothing that the engine emits would have it held against bronze."""
    start = FAILING.index("        return [{")
    place = fold_at(tmp_path, FAILING[:start] + "        return []\n")
    place.land("1.json", as_json([event(1), *ticks(13)]))
    succeed(spark, place, "first", scheduled=DAY)
    seal_unpublished(spark, place, 60, "held")
    for number, more in enumerate([[event(5), *ticks(13.5)], ticks(100)]):
        place.land(f"more-{number}.json", as_json(more))
        succeed(spark, place, f"more-{number}", scheduled=DAY)
    status = pipeline_status(place.pipeline, place.settings, datetime.now(UTC))
    assert status.tables[0].failing.windows == 0
    assert audit(spark, place).outcome == "equal"


@pytest.mark.long
@pytest.mark.parametrize("how", ["held", "killed"])
def test_a_session_set_aside_that_an_unpublished_seal_closed_is_told_when_it_closes(
    spark: SparkSession, tmp_path: Path, how: str
) -> None:
    """Set aside it ended at 13, and at 18 when the seal closed it, whose sum an earlier row had
    mended; the next publish closes 11."""
    place, rows = failing.place_of(tmp_path), list[Row]()

    def run(name: str, *new: Row) -> None:
        land(place, f"{name}.json", new)
        rows.extend(new)
        succeed(spark, place, name, scheduled=DAY)
        failing.check(place, rows)

    run("first", row(1, "b"))
    run("aside", row(6, "a", size=LARGEST), row(7, "a", size=1))
    assert {one["cause"] for one in place.changes().to_pylist()} == {"failed"}
    run("more", row(1, "a", size=-5), row(12, "a", size=-1))
    seal_unpublished(spark, place, 20, how)
    run("beside", row(27, "b"))
    run("beyond", row(60, "b"))
    (found,) = [one for one in place.gold().to_pylist() if one["key"] == "a"]
    assert (found["rows"], found["total"], found["status"]) == (4, LARGEST - 5, "final")
    failing.check_all(spark, place, rows)


def landed_and_sealed(
    spark: SparkSession,
    place: Place,
    draw: Random,
    one: Callable[[float], Row],
    check: Callable[[list[Row]], None],
) -> list[Row]:
    """Runs over random rows, each checked, and between them seals that are not published."""
    rows, newest = list[Row](), 0.0
    for run in range(6):
        low = max(0.0, newest - 25)
        new = [one(draw.uniform(low, newest + 12)) for _ in range(draw.randint(2, 5))]
        place.land(f"{run}.json", as_json(new))
        rows += new
        succeed(spark, place, f"run-{run}", scheduled=DAY)
        check(rows)
        newest = max((one["at"] - DAY) / MINUTE for one in rows)
        if draw.random() < 0.8:
            to_minute = newest + draw.uniform(-8, 20)
            seal_unpublished(spark, place, to_minute, draw.choice(["held", "killed"]))
    succeed(spark, place, "sealed", scheduled=DAY + timedelta(days=2))
    check(rows)
    return rows


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("mode", ["append", "complete"])
def test_random_sessions_are_right_whatever_was_sealed_and_not_published(
    spark: SparkSession, tmp_path: Path, mode: str, seed: int
) -> None:
    draw, place = Random(seed), failing.place_of(tmp_path, mode)

    def one(minute: float) -> Row:
        bad = draw.choice([{}, {}, {}, {"amount": 0}, {"size": 0}, {"size": LARGEST}])
        # What fails in the very first batch stops the run: nothing rests on it yet.
        return row(minute, draw.choice(["a", "b", None]), **(bad if minute > 12 else {}))

    def check(rows: list[Row]) -> None:
        failing.check(place, rows)

    rows = landed_and_sealed(spark, place, draw, one, check)
    failing.check_all(spark, place, rows)
    status = pipeline_status(place.pipeline, place.settings, datetime.now(UTC))
    assert status.tables[0].failing.windows == failing.check(place, rows)


def shown_of(rows: list[Row], closed_to: datetime) -> tuple[Known, int]:
    """What gold has to hold, and how many episodes fail by now: on a row of amount 0, or when they
    end with a single row."""
    shown, failed = dict[Any, Any](), 0
    for (start, key, end), held in failing.sessions(rows):
        fails_at = [one["at"] for one in held if one["amount"] == 0] + [end] * (len(held) == 1)
        if fails_at and min(fails_at) <= closed_to:
            failed += 1
            continue
        every = folded(held, GAP)
        assert {which[:2] for which in every} <= {(start, key)}
        shown |= {which: found for which, found in every.items() if found[0] <= closed_to}
    return shown, failed


@pytest.mark.long
@pytest.mark.parametrize("seed", range(16))
def test_random_folds_are_right_whatever_was_sealed_and_not_published(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    draw, place = Random(seed), fold_at(tmp_path, FAILING)

    def one(minute: float) -> Row:
        return event(minute, draw.choice("ab"), draw.choice([0, 1, 2, 3, 4, 5, 6]))

    def check(rows: list[Row]) -> None:
        shown, failed = shown_of(rows, place.closed_to)
        assert place.known() == shown
        status = pipeline_status(place.pipeline, place.settings, datetime.now(UTC))
        assert status.tables[0].failing.windows == failed

    landed_and_sealed(spark, place, draw, one, check)
    assert audit(spark, place).outcome == "equal"
