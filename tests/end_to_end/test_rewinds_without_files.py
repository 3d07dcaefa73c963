"""A rewind that goes on without a file: one that is gone, or that must not come again. What is
there afterwards is what had been there had that file never come."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.end_to_end.test_rewinds import LONG, When, end_at, row, tidemark, told
from tests.kit.rewinding import rewind_warm
from tests.kit.running import Place, clicks, run_warm, sorted_rows, succeed
from tests.streaming.audits import audit
from tidemark.pipeline.reasons import LEFT_OUT
from tidemark.runs.unfinished_act import unfinished_act

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES: dict[str, list[Any]] = {
    "0.json": [row(0, "a"), row(31, "a"), "no JSON"],
    # Without it, what comes late in the next one is in time.
    "1.json": [row(62, "b"), row(5, "c"), "[]"],
    "2.json": [row(40, "b"), row(90, "a"), "[]"],
}
ASKED: dict[str, Any] = {"without": ("1.json",), "reason": "the wrong day", "by": "Ada"}
POINTS = [
    ("pipeline backed up", 1),
    ("pipeline stopped for an act", 1),
    ("table of a pipeline taken back", 2),
    ("ingest's checkpoint taken back", 1),
    ("query of a generation named", 1),
    ("upkeep recorded", 1),
    ("pipeline released after an act", 1),
]
SHORT = ("ingest's checkpoint taken back", 1, "after", True)


def cases() -> Iterator[Any]:
    for point, time in POINTS:
        for when in ("before", "after"):
            for lies_there in (True, False):
                one = (point, time, when, lies_there)
                yield pytest.param(*one, marks=() if one == SHORT else LONG)


@dataclass
class Story:
    """Three runs, each of a file, kept as it is behind them; what is then, and what would be had
    the second file never come."""

    spark: SparkSession
    place: Place
    before: dict[str, Any]
    never_came: dict[str, Any]

    def again(self, lies_there: bool = True) -> Place:
        forget_tables(self.spark)
        place = self.place.again()
        if not lies_there:
            (place.root / "landing" / "1.json").unlink()
        return place


def forget_tables(spark: SparkSession) -> None:
    """Spark has read these tables, and would know them by their versions."""
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Story:
    place = Place(tmp_path_factory.mktemp("without") / "root", clicks())
    run_all(spark, place, "0.json", "2.json")
    never_came = told(place)
    shutil.rmtree(place.root)
    forget_tables(spark)
    run_all(spark, place, *FILES)
    place.keep()
    return Story(spark, place, told(place), never_came)


def run_all(spark: SparkSession, place: Place, *files: str) -> None:
    for name in files:
        place.land(name, FILES[name])
        succeed(spark, place, f"run-{name.removesuffix('.json')}")


def check_never_came(spark: SparkSession, story: Story, place: Place, rejects: int) -> None:
    """The file has left so many rejects, which stand for it, and nothing else."""
    found, expected = told(place), story.never_came
    assert {name: found[name] for name in ("bronze", "gold")} == {
        name: expected[name] for name in ("bronze", "gold")
    }
    own = ("_batch_time", "_batch")
    left = [one for one in place.rejects().to_pylist() if one["reason"] == LEFT_OUT]
    others = place.rejects().filter(
        [one["reason"] != LEFT_OUT for one in place.rejects().to_pylist()]
    )
    assert sorted_rows(others, without=own) == expected["rejects"]
    assert len(left) == rejects
    read, accepted, rejected = expected["ledger"]
    assert found["ledger"] == (read + rejects, accepted, rejected + rejects)
    for one in left:
        assert one["_file"].endswith("/landing/1.json")
        assert "Accepted by Ada: the wrong day. None of its rows were accepted." in one["detail"]
    assert audit(spark, place).outcome == "equal"


@pytest.mark.parametrize(("point", "time", "when", "lies_there"), [*cases()])
def test_ended_anywhere_it_is_finished_and_the_file_has_never_come(
    spark: SparkSession, story: Story, point: str, time: int, when: When, lies_there: bool
) -> None:
    place = story.again(lies_there)
    end_at(spark, place, point, time, when, to_run="run-0", **ASKED)
    begun = unfinished_act(place.warehouse)
    if begun is not None:
        other = rewind_warm(spark, place, "run-0", without=("2.json",), reason="no")
        assert other.error is not None
        assert "that was not finished" in other.error.message
        # By the plan that was kept, which alone is asked.
        finished = rewind_warm(spark, place)
        assert finished.error is None, finished.error
    elif told(place) == story.before:
        assert rewind_warm(spark, place, "run-0", **ASKED).error is None
    succeed(spark, place, "again")
    check_never_came(spark, story, place, int(lies_there))
    (act,) = (one for one in place.table(place.places.upkeep).to_pylist() if one["without"])
    assert (act["kind"], act["by"], act["reason"]) == ("rewind", "Ada", "the wrong day")
    (of,) = act["without"]
    assert (Path(of["file"]).name, of["accepted"], of["rejected"]) == ("1.json", 2, 1)
    assert succeed(spark, place, "nothing new").rows.read == 0


@LONG
def test_it_stays_left_out_where_the_pipeline_goes_back_again_until_that_is_undone(
    spark: SparkSession, story: Story
) -> None:
    place = story.again()
    first = rewind_warm(spark, place, "run-0", **ASKED).change
    assert first is not None
    succeed(spark, place, "again")
    second = rewind_warm(spark, place, "run-0")
    assert second.error is None, second.error
    assert any("Stays left out" in note and "1.json" in note for note in second.notes)
    (place.root / "landing" / "1.json").unlink()
    succeed(spark, place, "and again")
    check_never_came(spark, story, place, 0)
    place.land("1.json", FILES["1.json"])
    succeed(spark, place, "it came back")
    check_never_came(spark, story, place, 1)

    undone = rewind_warm(spark, place, undo=first.id)
    assert undone.error is None, undone.error
    assert told(place) == story.before
    succeed(spark, place, "goes on")
    assert told(place) == story.before


@LONG
def test_one_that_was_gone_leaves_its_name_to_the_next(spark: SparkSession, story: Story) -> None:
    place = story.again(lies_there=False)
    assert rewind_warm(spark, place, "run-0", **ASKED).error is None
    succeed(spark, place, "again")
    # Who did it and why stands with the values that came of it, and with the runs.
    row_of = ("--window", "2026-07-01T10:00:00Z", "--key", "key=a")
    for asked in (("explain", "clicks", "per_10m", *row_of), ("status", "clicks")):
        shown = tidemark(place, *asked)
        assert "the wrong day (Ada)" in shown.output, shown.output
    place.land("1.json", [row(95, "right")])
    result = succeed(spark, place, "the right one")
    assert (result.rows.accepted, sum(result.rows.rejected.values())) == (1, 0)
    assert audit(spark, place).outcome == "equal"


@LONG
def test_an_undo_goes_on_without_a_file_too(spark: SparkSession, story: Story) -> None:
    place = story.again()
    change = rewind_warm(spark, place, "run-1").change
    assert change is not None
    succeed(spark, place, "between")
    place.land("3.json", [row(99, "d")])
    succeed(spark, place, "and since")
    (place.root / "landing" / "3.json").unlink()
    refused = rewind_warm(spark, place, undo=change.id, dry_run=True)
    assert refused.error is not None
    assert "--without FILE" in refused.error.message
    undone = rewind_warm(spark, place, undo=change.id, without=("3.json",), reason="gone")
    assert undone.error is None, undone.error
    assert told(place) == story.before
    assert run_warm(spark, place, "goes on").error is None
    assert told(place) == story.before


@LONG
def test_an_undo_misses_a_file_of_any_batch_since(spark: SparkSession, story: Story) -> None:
    """Also of one whose number another had before."""
    place = story.again()
    change = rewind_warm(spark, place, "run-0").change
    assert change is not None
    place.land("3.json", [row(99, "d")])
    succeed(spark, place, "since")
    (place.root / "landing" / "3.json").unlink()
    before = told(place)
    refused = rewind_warm(spark, place, undo=change.id)
    assert refused.error is not None
    assert "1 of the 1 files that were read since" in refused.error.message
    assert told(place) == before
    undone = rewind_warm(spark, place, undo=change.id, without=("3.json",), reason="gone")
    assert undone.error is None, undone.error
    assert undone.change is not None
    assert [(one.accepted, one.is_there) for one in undone.change.without] == [(1, False)]
    assert told(place) == story.before


@LONG
@pytest.mark.parametrize("was_passed_over", [False, True])
def test_an_undo_leaves_out_what_a_rewind_since_was_to_go_on_without(
    spark: SparkSession, story: Story, was_passed_over: bool
) -> None:
    place = story.again()
    change = rewind_warm(spark, place, "run-0").change
    assert change is not None
    place.land("3.json", [row(99, "d")])
    succeed(spark, place, "since")
    assert rewind_warm(spark, place, "run-0", without=("3.json",), reason="wrong").error is None
    if was_passed_over:
        succeed(spark, place, "passed over")
    undone = rewind_warm(spark, place, undo=change.id)
    assert undone.error is None, undone.error
    assert any("Stays left out" in note and "3.json" in note for note in undone.notes)
    succeed(spark, place, "goes on")
    assert "d" not in place.bronze()["key"].to_pylist()
    (left,) = [one for one in place.rejects().to_pylist() if one["reason"] == LEFT_OUT]
    assert left["_file"].endswith("/3.json")
    assert audit(spark, place).outcome == "equal"


def test_a_dry_run_says_what_would_be_left_out_and_a_name_has_to_be_one_file_that_is_read_again(
    story: Story,
) -> None:
    place = story.again()
    asked = ("rewind", "clicks", "--to-run", "run-0", "--without")
    shown = tidemark(place, *asked, "/1.json")
    assert shown.exit_code == 0, shown.output
    text = " ".join(shown.output.split())
    assert "/landing/1.json: 2 rows accepted and 1 rejected do not come back; it lies there" in text
    assert "1 files of the source are read again; all are there." in text
    for name, why in (
        ("json", "2 of them end so"),
        ("0.json", "none of them ends so"),
    ):
        refused = tidemark(place, *asked, name)
        assert refused.exit_code == 1, refused.output
        assert why in refused.output
    assert tidemark(place, *asked, "1.json", "--apply").exit_code == 2
    assert tidemark(place, "rewind", "clicks", "--without", "1.json", "--apply").exit_code == 2
    assert told(place) == story.before

    place = story.again(lies_there=False)
    gone = tidemark(place, *asked[:-1])
    assert gone.exit_code == 1
    assert "Or go on without them: --without FILE" in gone.output
    shown = tidemark(place, *asked, "1.json")
    assert shown.exit_code == 0, shown.output
    assert "it is gone; what comes under its name is read" in " ".join(shown.output.split())
