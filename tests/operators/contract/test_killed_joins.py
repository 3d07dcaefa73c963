"""Joins, really killed at the commit points of a run."""

from __future__ import annotations

import pytest

from tests.operators.contract.joins import Row
from tests.operators.contract.kinds import KINDS, KindPlace, event, place_of
from tests.operators.contract.test_killed_kinds import job, of_gold

pytestmark = pytest.mark.process


def of(minute: float, key: str | None = "a", amount: int = 3) -> Row:
    return {**event(minute, key, amount), "side": "right"}


# The range reaches 7 minutes on, so windows up to 20 minutes are closed, 20 to 40 are open: a row
# of each side waits for its match there.
BEFORE = [*map(event, (0, 10, 20, 30, 36)), event(40, "b"), of(1), of(24), of(35, "b")]
# A late row of each side, one for what waits, one that the engine drops though its window is open.
AFTER = [event(5), of(12), of(38), event(34, "b"), event(26), event(70), of(72, None)]
POINTS = (
    "clock row",
    "windows of the stream",
    "recomputed windows",
    "gold",
    "accepted rows",
    "query started",
)


@pytest.fixture(scope="module")
def ran_once(tmp_path_factory: pytest.TempPathFactory) -> KindPlace:
    place = place_of(tmp_path_factory.mktemp("joins") / "root", KINDS["joins-left"])
    place.land_rows("1.json", BEFORE)
    first = job(place, "first")
    assert first.exit_code == 0, first.output
    place.land_rows("2.json", AFTER)
    place.keep()
    return place


@pytest.fixture(scope="module")
def undisturbed(ran_once: KindPlace) -> list[tuple[object, ...]]:
    place = ran_once.again()
    assert isinstance(place, KindPlace)
    assert job(place, "second").exit_code == 0
    every, known = place.kind.model([*BEFORE, *AFTER]), place.known()
    assert known
    assert known.items() <= every.items()
    return of_gold(place)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.long
def test_joins_killed_at_a_commit_point_are_those_of_an_undisturbed_run(
    ran_once: KindPlace, undisturbed: list[tuple[object, ...]], point: str, when: str
) -> None:
    place = ran_once.again()
    assert isinstance(place, KindPlace)
    killed = job(place, "killed", when, point)
    assert killed.result is None, killed.output
    again = job(place, "again")
    assert again.exit_code == 0, again.output
    assert of_gold(place) == undisturbed
