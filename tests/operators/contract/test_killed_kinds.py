"""Kinds whose rows go, really killed: the commits around a row that goes, and those of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.kit.running import JobEnd, run_job, sorted_rows
from tests.operators.contract.kinds import (
    KINDS,
    KindPlace,
    Known,
    Row,
    as_json,
    event,
    of,
    place_of,
)

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


@dataclass(frozen=True)
class Story:
    """What lands before a good run and before the killed one, and where that one is killed."""

    kind: str
    before: Sequence[Row]
    after: Sequence[Row]
    points: Sequence[str]
    # Its rows move the watermark, and nothing is asked of them.
    clock: str | None = None

    def asked(self, rows: Known) -> Known:
        return {row: values for row, values in rows.items() if row[1] != self.clock}


POINTS = ("accepted rows", "query started", "windows of the stream", "recomputed windows", "gold")
STORIES = (
    # The gap is 6 minutes, the watermark 10 behind. So [0, 6) and [10, 16) are closed, [20, 26)
    # stands in gold and is not, [30, 40) is in the query's state. 5 is late and joins the first
    # two, 25 is not and joins the others; then all are closed.
    Story(
        "sessions-append",
        [*map(event, (0, 10, 20, 30, 34)), event(40, "clock")],
        [event(5), event(25), event(28, None), event(60, "clock")],
        POINTS,
        clock="clock",
    ),
    # The range reaches 7 minutes on, so windows up to 20 minutes are closed, 20 to 40 are open: a
    # row of each side waits for its match there. A late row of each side, one for what waits, one
    # that the engine drops though its window is open.
    Story(
        "joins-left",
        [*map(event, (0, 10, 20, 30, 36)), event(40, "b"), of(1), of(24), of(35, "b")],
        [event(5), of(12), of(38), event(34, "b"), event(26), event(70), of(72, None)],
        ("clock row", *POINTS),
    ),
)


@dataclass(frozen=True)
class RanOnce:
    """The place behind the good run, and gold behind the second, where nothing is killed."""

    place: KindPlace
    undisturbed: list[tuple[object, ...]]

    def again(self) -> KindPlace:
        place = self.place.again()
        assert isinstance(place, KindPlace)
        return place


@pytest.fixture(scope="module")
def ran_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Story], RanOnce]:
    @cache
    def of_story(kind: str) -> RanOnce:
        (story,) = (story for story in STORIES if story.kind == kind)
        place = place_of(tmp_path_factory.mktemp(kind) / "root", KINDS[kind])
        place.land_rows("1.json", story.before)
        first = job(place, "first")
        assert first.exit_code == 0, first.output
        place.land_rows("2.json", story.after)
        place.keep()
        assert job(place, "second").exit_code == 0
        expected = story.asked(place.kind.model([*story.before, *story.after]))
        found = story.asked(place.known())
        assert found
        # Of joins some windows are open, and not in gold.
        assert found.items() <= expected.items() if place.kind.joins else found == expected
        return RanOnce(place, of_gold(place))

    return lambda story: of_story(story.kind)


def of_gold(place: KindPlace) -> list[tuple[object, ...]]:
    return sorted_rows(place.gold("t"), without=["updated_by"])


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("story", "point"),
    [
        pytest.param(story, point, id=f"{story.kind}-{point}")
        for story in STORIES
        for point in story.points
    ],
)
@pytest.mark.long
def test_gold_is_that_of_an_undisturbed_run_wherever_one_was_killed(
    ran_once: Callable[[Story], RanOnce], story: Story, point: str, when: str
) -> None:
    ran = ran_once(story)
    place = ran.again()
    killed = job(place, "killed", when, point)
    assert killed.result is None, killed.output
    again = job(place, "again")
    assert again.exit_code == 0, again.output
    assert of_gold(place) == ran.undisturbed
