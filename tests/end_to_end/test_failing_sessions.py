"""A measure that fails is a verdict on its session, also where sessions grow and merge."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.end_to_end.test_failing_measures import (
    DAY,
    LARGEST,
    MEASURES,
    Row,
    fails,
    land,
    place_at,
    row,
)
from tests.kit.running import Place, succeed
from tests.streaming.audits import audit
from tidemark.gold.state import gold_state
from tidemark.ledger.rebuild import Ledgered, rebuilt_lines
from tidemark.pipeline.instants import epoch_ms
from tidemark.runs.status.pipeline_status import pipeline_status

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GAP = timedelta(minutes=6)

Session = tuple[datetime, str | None, datetime]


def place_of(folder: Path, mode: str = "append") -> Place:
    place = place_at(folder, mode)
    (table,) = place.content["tables"].values()
    table["window"] = {"session": "6 minutes"}
    return place


def sessions(rows: Sequence[Row]) -> Iterator[tuple[Session, list[Row]]]:
    by_key: defaultdict[str | None, list[Row]] = defaultdict(list)
    for one in rows:
        by_key[one["key"]].append(one)
    for key, of_key in by_key.items():
        held: list[Row] = []
        for one in sorted(of_key, key=lambda row: row["at"]):
            if held and one["at"] - held[-1]["at"] > GAP:
                yield (held[0]["at"], key, held[-1]["at"] + GAP), held
                held = []
            held.append(one)
        yield (held[0]["at"], key, held[-1]["at"] + GAP), held


def values(rows: Sequence[Row]) -> tuple[Any, ...]:
    size = sum(one["size"] for one in rows)
    share = sum(one["amount"] for one in rows) / size
    inverse = sum(100 / one["amount"] for one in rows)
    return pytest.approx(share), pytest.approx(inverse), size, len(rows)


def check(place: Place, rows: Sequence[Row]) -> int:
    """Gold has the closed sessions that do not fail, and nothing that bronze does not give; how
    many that are closed fail."""
    close_ms = gold_state(DeltaTable(place.places.gold("per_10m"))).close_ms
    shown = {
        (one["window_start"], one["key"], one["window_end"]): tuple(
            one[name] for name in (*MEASURES, "rows")
        )
        for one in place.gold().to_pylist()
    }
    whole = {session: values(held) for session, held in sessions(rows) if not fails(held)}
    closed = {session for session, _ in sessions(rows) if epoch_ms(session[2]) <= close_ms}
    assert {session: shown.get(session) for session in closed & set(whole)} == {
        session: found for session, found in whole.items() if session in closed
    }
    assert {session: whole.get(session) for session in shown} == shown
    return len(closed - set(whole))


def check_all(spark: SparkSession, place: Place, rows: Sequence[Row]) -> None:
    failing = check(place, rows)
    found = audit(spark, place)
    assert found.outcome == "equal"
    assert found.tables["per_10m"].found.failing == failing
    lines = rebuilt_lines(Ledgered(place.pipeline, place.warehouse))
    assert [line for line in lines if line.difference] == []
    status = pipeline_status(place.pipeline, place.settings, datetime.now(UTC))
    assert status.problem is None, status.problem
    assert status.tables[0].failing.windows >= failing


GOOD = [row(minute, key) for minute in (1, 6, 12) for key in ("a", "b", None)]
LANDED = [
    GOOD,
    # On a row, in the sum, when it is evaluated; others beside them.
    [
        row(13, "a", amount=0),
        row(14, "b", size=LARGEST),
        row(31, "c", size=0),
        row(22, None, amount=0),
        row(32, "d"),
    ],
    # More for those that fail, and beside them; one is mended by it.
    [row(18, "a"), row(30, "a", amount=0), row(33, "c", size=5), row(35, "d")],
    # All of these close; late rows join what failed and what did not.
    [row(90, "z"), row(24, "a"), row(17, None)],
    [row(20, "b"), row(28, None, amount=0), row(95, "z")],
]


@pytest.mark.long
def test_sessions_that_fail_are_verdicts_and_the_others_go_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    place, rows = place_of(tmp_path), []
    for number, new in enumerate(LANDED):
        land(place, f"{number}.json", new)
        rows += new
        succeed(spark, place, f"run-{number}")
        check(place, rows)
    check_all(spark, place, rows)
    succeed(spark, place, "sealed", scheduled=DAY + timedelta(days=2))
    check_all(spark, place, rows)
    before = place.changes().num_rows
    land(place, "last.json", [row(200, "z")])
    succeed(spark, place, "last")
    # What fails is said once, not by every run.
    assert place.changes().num_rows <= before + 1


@pytest.mark.long
def test_a_session_that_was_set_aside_and_grew_past_a_seal_is_told_when_it_closes(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Set aside it ended at 8; the seal passed 10, when it ended at 13."""
    place, rows = place_of(tmp_path), list[Row]()
    for number, new in enumerate(
        [
            [row(1, "b")],
            [row(1, "a"), row(2, "a", amount=0), row(3, "b")],
            [row(7, "a")],
            [],
            [row(100, "z")],
        ]
    ):
        if new:
            land(place, f"{number}.json", new)
        rows += new
        # A run without a row seals up to an hour and ten minutes before.
        at = DAY if new else DAY + timedelta(hours=1, minutes=20)
        succeed(spark, place, f"run-{number}", scheduled=at)
        check(place, rows)
    assert check(place, rows) == 1
    check_all(spark, place, rows)
    told = place.changes().num_rows
    land(place, "last.json", [row(101, "z")])
    succeed(spark, place, "last")
    assert place.changes().num_rows == told


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_random_sessions_that_fail_are_verdicts(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    draw, place, rows = Random(seed), place_of(tmp_path), []
    for run in range(5):
        new = []
        for _ in range(draw.randint(3, 10)):
            minute = draw.uniform(max(0, 30 * run - 60), 30 * run + 30)
            bad = draw.choice([{}, {}, {}, {"amount": 0}, {"size": 0}, {"size": LARGEST}])
            # What fails in the very first batch stops the run: nothing rests on it yet.
            bad = bad if run else {}
            new.append(row(minute, draw.choice(["a", "b", None]), **bad))
        land(place, f"{run}.json", new)
        rows += new
        succeed(spark, place, f"run-{run}")
        check(place, rows)
    succeed(spark, place, "sealed", scheduled=DAY + timedelta(days=2))
    check_all(spark, place, rows)
