"""Random landings, ends, held runs and seals of a kind: gold is plain Python's after every run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from tests.kit.running import run_warm, succeed
from tests.operators.contract.kinds import DAY, KINDS, Row, as_json, event, place_of
from tests.operators.contract.test_operator_kinds import POINTS, TABLE, check_gold
from tests.streaming.audits import audit
from tidemark import commit_point

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES, OF_ONE = 200, 10


@dataclass(frozen=True)
class Step:
    """A run: what lands before it, when it is scheduled, where it ends at first, if it is held."""

    landed: list[Row]
    scheduled: datetime
    ended: tuple[str, str] | None
    held: bool


@dataclass
class Drawn:
    """A case by its number: rows that go on with time, late ones, and ones beside others."""

    number: int
    rows: list[Row] = field(default_factory=list)

    def steps(self) -> Iterator[Step]:
        draw, now = Random(self.number), 0.0
        for run in range(draw.randint(3, 6)):
            idle = run > 1 and draw.random() < 0.2
            now += draw.uniform(5, 45)
            landed = [] if idle else [self._row(draw, now) for _ in range(draw.randint(1, 12))]
            self.rows += landed
            points = [(point, when) for point in POINTS for when in ("before", "after")]
            yield Step(
                landed,
                DAY + timedelta(minutes=now, hours=3 if idle else 0),
                draw.choice(points) if draw.random() < 0.4 else None,
                draw.random() < 0.25,
            )

    def _row(self, draw: Random, now: float) -> Row:
        kind = draw.random()
        if kind < 0.3 and self.rows:
            # Beside a known row: the same time, a timeout from it, or a little less or more.
            near = (draw.choice(self.rows)["at"] - DAY) / timedelta(minutes=1)
            minute = near + draw.choice([0, -6, 6, draw.uniform(-7, 7)])
        else:
            minute = draw.uniform(0, now) if kind < 0.5 else now - draw.uniform(0, 20)
        if draw.random() < 0.5:
            minute = round(minute)
        key = draw.choice(["a", "b", None])
        return event(max(minute, 0), key, draw.randint(0, 3))


@contextmanager
def ending(ended: tuple[str, str] | None) -> Iterator[None]:
    """The process ends itself at a commit point, once."""

    def reached(name: str, at: str, given: tuple[object, ...]) -> None:
        if (name, at) == ended:
            commit_point.on_reach = None
            raise RuntimeError(f"ended {at} {name}")

    commit_point.on_reach = reached
    try:
        yield
    finally:
        commit_point.on_reach = None


def check_case(spark: SparkSession, root: Path, kind: str, number: int) -> None:
    place, case = place_of(root / str(number), KINDS[kind]), Drawn(number)
    published = False
    for run, step in enumerate(case.steps()):
        if step.landed:
            place.land(f"{run}.json", as_json(step.landed))
        elif not case.rows:
            continue
        # Lookups change between most runs, and between each that ends itself and its repeat.
        if not run or (number + run) % 3 != 1:
            place.change_lookups()
        with ending(step.ended):
            run_warm(spark, place, f"ended-{run}", scheduled=step.scheduled)
        if step.ended:
            place.change_lookups()
        if step.held:
            succeed(spark, place, f"held-{run}", hold=True, scheduled=step.scheduled)
            continue
        succeed(spark, place, f"run-{run}", scheduled=step.scheduled)
        published = True
        check_gold(place, case.rows)
    if published and DeltaTable(place.places.gold(TABLE)).version() > 0:
        assert audit(spark, place).outcome == "equal", f"case {number}"


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, CASES, OF_ONE))
@pytest.mark.parametrize("kind", ["folds", "sessions-append-recomputed"])
def test_random_cases_give_what_plain_python_gives(
    spark: SparkSession, tmp_path: Path, kind: str, first: int
) -> None:
    for number in range(first, first + OF_ONE):
        check_case(spark, tmp_path, kind, number)


@pytest.mark.long
@pytest.mark.parametrize("number", range(OF_ONE))
@pytest.mark.parametrize("kind", ["lookup-update", "lookup-append"])
def test_random_cases_give_what_plain_python_gives_by_what_lookups_say_by_then(
    spark: SparkSession, tmp_path: Path, kind: str, number: int
) -> None:
    check_case(spark, tmp_path, kind, number)


@pytest.mark.long
def test_a_random_case_of_folds_gives_what_plain_python_gives(
    spark: SparkSession, tmp_path: Path
) -> None:
    check_case(spark, tmp_path, "folds", 1001)
