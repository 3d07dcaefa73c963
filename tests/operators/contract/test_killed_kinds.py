"""Kinds whose rows go, really killed: the commits around a row that goes, and those of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.running import JobEnd, run_job, sorted_rows
from tests.operators.contract.kinds import KINDS, KindPlace, as_json, event, place_of

pytestmark = pytest.mark.process

KIND_JOB = Path(__file__).parent / "kind_job.py"


def job(place: KindPlace, run_id: str, *kill: str) -> JobEnd:
    arguments = ["--kind", place.kind.name, *(["--kill", *kill] if kill else [])]
    return run_job(place, run_id, KIND_JOB, arguments)


@pytest.mark.parametrize(
    ("when", "point"),
    [
        ("after", "recomputed windows"),
        ("before", "recomputed windows"),
        ("before", "gold"),
        ("after", "gold"),
    ],
)
@pytest.mark.long
def test_killed_around_the_commit_of_a_row_that_goes_the_next_run_has_it_gone(
    tmp_path: Path, when: str, point: str
) -> None:
    place = place_of(tmp_path, KINDS["stretches"])
    rows = [event(1), event(6), event(100)]
    place.land("1.json", as_json(rows))
    assert job(place, "first").exit_code == 0
    assert len(place.known()) == 2
    place.land("2.json", as_json([event(3.5)]))
    killed = job(place, "killed", when, point)
    assert killed.result is None, killed.output
    again = job(place, "again")
    assert again.exit_code == 0, again.output
    (row,) = place.gold("t").to_pylist()
    assert (row["rows"], row["status"], row["revision"]) == (3, "corrected", 1)


# The gap is 6 minutes, the watermark 10 behind. So [0, 6) and [10, 16) are closed, [20, 26) stands
# in gold and is not, [30, 40) is in the query's state.
BEFORE = [*map(event, (0, 10, 20, 30, 34)), event(40, "clock")]
# 5 is late and joins the first two, 25 is not and joins the others; then all are closed.
AFTER = [event(5), event(25), event(28, None), event(60, "clock")]
POINTS = ("accepted rows", "query started", "windows of the stream", "recomputed windows", "gold")


@pytest.fixture(scope="module")
def ran_once(tmp_path_factory: pytest.TempPathFactory) -> KindPlace:
    place = place_of(tmp_path_factory.mktemp("sessions") / "root", KINDS["sessions-append"])
    place.land("1.json", as_json(BEFORE))
    first = job(place, "first")
    assert first.exit_code == 0, first.output
    place.land("2.json", as_json(AFTER))
    place.keep()
    return place


@pytest.fixture(scope="module")
def undisturbed(ran_once: KindPlace) -> list[tuple[object, ...]]:
    place = ran_once.again()
    assert isinstance(place, KindPlace)
    assert job(place, "second").exit_code == 0
    expected = place.kind.model([*BEFORE, *AFTER])
    assert {row: values for row, values in expected.items() if row[1] != "clock"} == {
        row: values for row, values in place.known().items() if row[1] != "clock"
    }
    return of_gold(place)


def of_gold(place: KindPlace) -> list[tuple[object, ...]]:
    return sorted_rows(place.gold("t"), without=["updated_by"])


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.long
def test_sessions_killed_at_a_commit_point_are_those_of_an_undisturbed_run(
    ran_once: KindPlace, undisturbed: list[tuple[object, ...]], point: str, when: str
) -> None:
    place = ran_once.again()
    assert isinstance(place, KindPlace)
    killed = job(place, "killed", when, point)
    assert killed.result is None, killed.output
    again = job(place, "again")
    assert again.exit_code == 0, again.output
    assert of_gold(place) == undisturbed
