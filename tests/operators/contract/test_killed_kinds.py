"""A kind whose rows go, really killed: the commits around a row that goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.running import JobEnd, run_job
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
