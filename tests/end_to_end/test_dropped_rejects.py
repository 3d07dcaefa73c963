"""Rejects that maintenance drops by age (`keep_rejects`), between runs and acts: the ledger keeps
its counts, what rests on the dropped ones says so, and none comes back unseen."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from tests.end_to_end.test_mended_rejects import SOURCE, TABLES, check_whole, landed, row
from tests.kit.erasing import erased
from tests.kit.killed import killed
from tests.kit.replaying import mended, replay_warm, replayed
from tests.kit.retracting import retract_warm, retracted
from tests.kit.rewinding import rewind_warm
from tests.kit.running import Place, clicks, query, run_warm, sorted_rows, succeed
from tidemark.cli.main import app
from tidemark.errors import ReplayUnfinished
from tidemark.pipeline.settings.maintenance import Maintenance
from tidemark.runs.losses import find_losses
from tidemark.storage.delta.dropped_rejects import dropped_to
from tidemark.story.explain import story_of
from tidemark.upkeep.maintenance.carry_out import compact_table
from tidemark.upkeep.maintenance.maintain import maintain_pipeline
from tidemark.upkeep.maintenance.plan import MaintenancePlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONG = pytest.mark.long
KEEP = timedelta(days=90)
YEARS = timedelta(days=36_500)
# What is kept of logs and of rows of `ops` is not asked here.
SLOW = Maintenance(log_retention=YEARS, ops_retention=YEARS, result_retention=YEARS)
# Of each run rejects, a row, and one that is a duplicate where it comes again.
RUNS: tuple[list[Any], ...] = (
    [row(0, "a", 5, "twin"), row(3, "b", 1, "b0"), "{0", row(31, "a", "1", "a0")],
    [row(62, "b", 1, "b1"), row(1, "a", 5, "twin"), "{1"],
    [row(95, "b", 4, "b3"), row(96, "a", "2", "m1"), "{2"],
)


@dataclass
class Story:
    """Three runs, kept as they were; `between` are the times right behind each of them."""

    spark: SparkSession
    place: Place
    between: list[datetime]

    def again(self, **changes: Any) -> Place:
        self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
        return self.place.again(**changes)

    def drop(
        self, place: Place, run: int | None = None, keep: Maintenance = SLOW
    ) -> MaintenancePlan:
        """The maintenance by which the rejects of the runs up to this one are too old; None: of
        all."""
        settings = place.settings.model_copy(update={"maintenance": keep})
        now = (datetime.now(UTC) if run is None else self.between[run]) + KEEP
        plans = maintain_pipeline(place.pipeline, settings, "maintenance", now)
        (plan,) = (one for one in plans if one.name == "rejects")
        return plan


@pytest.fixture(scope="module")
def story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Story:
    root = tmp_path_factory.mktemp("dropped") / "root"
    place = Place(root, clicks(source=SOURCE, tables=TABLES, keep_rejects="90 days"))
    between = []
    for number, rows in enumerate(RUNS):
        landed(place, number, rows)
        succeed(spark, place, f"run-{number}")
        between.append(datetime.now(UTC))
    place.write_file()
    place.keep()
    return Story(spark, place, between)


def texts(place: Place) -> list[str]:
    return sorted(one["raw"] for one in place.rejects().to_pylist())


def last(place: Place) -> int:
    return dropped_to(place.warehouse.rejects.existing())


def reject(place: Place, raw: str) -> str:
    (found,) = (one["id"] for one in place.rejects().to_pylist() if one["raw"] == raw)
    return str(found)


OF_0 = ["{0", json.dumps(row(31, "a", "1", "a0"))]
OF_1 = ["{1", json.dumps(row(1, "a", 5, "twin"))]
OF_2 = ["{2", json.dumps(row(96, "a", "2", "m1"))]


def test_runs_and_the_ledger_go_on_without_them(spark: SparkSession, story: Story) -> None:
    place = story.again()
    gold = {name: sorted_rows(place.gold(name)) for name in TABLES}
    plan = story.drop(place, 1)
    assert plan.drop_rejects == 1
    assert texts(place) == sorted(OF_2)
    assert find_losses(place.pipeline, place.warehouse) == ()
    check_whole(spark, place)
    assert {name: sorted_rows(place.gold(name)) for name in TABLES} == gold
    # Neither a run with nothing new nor one with rejects is another than it was.
    succeed(spark, place, "nothing new")
    landed(place, 3, ["{3", row(97, "a", 1, "c1"), row(1, "a", 5, "twin")])
    result = succeed(spark, place, "next")
    assert result.rows.rejected == {"malformed": 1, "duplicate": 1}
    check_whole(spark, place)
    assert find_losses(place.pipeline, place.warehouse) == ()
    story.drop(place)
    assert texts(place) == []
    check_whole(spark, place)
    ((rejected,),) = query(
        "SELECT sum(rejected) FROM lines WHERE kind = 'ingest'",
        lines=place.table(place.places.ledger),
    )
    assert rejected == 8
    upkeep = place.table(place.places.upkeep).to_pylist()
    shares = [one["shares"] for one in upkeep if one["place"] == "rejects"]
    dropped = [one["files_deleted"] for of in shares for one in of if one["kind"] == "old rows"]
    assert dropped == [4, 4]


@LONG
def test_a_held_run_is_published_after_its_rejects_are_gone(
    spark: SparkSession, story: Story
) -> None:
    place = story.again()
    landed(place, 3, ["{3", row(97, "a", 1, "c1")])
    succeed(spark, place, "held", hold=True)
    # Logs are cut as far as readers let them.
    story.drop(place, keep=Maintenance())
    assert texts(place) == []
    assert find_losses(place.pipeline, place.warehouse) == ()
    succeed(spark, place, "next")
    assert "c1" in place.bronze()["id"].to_pylist()


def test_a_replay_takes_what_is_there_and_refuses_what_was_dropped(
    spark: SparkSession, story: Story
) -> None:
    place = story.again()
    gone, there = reject(place, OF_0[1]), reject(place, OF_2[1])
    story.drop(place, 0)
    file = mended(
        place,
        {"id": gone, "raw": row(31, "a", 1, "a0")},
        {"id": there, "raw": row(96, "a", 2, "m1")},
    )
    error = replay_warm(spark, place, mended=file).error
    assert error is not None
    assert f"line 1: the id {gone} is none of the rejects. Rejects of the batches up to 0 were" in (
        error.message
    )
    replayed(spark, place, mended=mended(place, {"id": there, "raw": row(96, "a", 2, "m1")}))
    succeed(spark, place, "next")
    check_whole(spark, place)
    # Its batch keeps its count, though one of its rejects is in `replayed` and the others are gone.
    story.drop(place, 2)
    assert texts(place) == []
    check_whole(spark, place)


@pytest.mark.parametrize(
    "point",
    ["replayed rows in bronze", pytest.param("rejects copied to `replayed`", marks=LONG)],
)
def test_a_replay_under_way_holds_them(spark: SparkSession, story: Story, point: str) -> None:
    place = story.again()
    there = reject(place, OF_0[1])
    file = mended(place, {"id": there, "raw": row(31, "a", 1, "a0")})
    with killed("after", point):
        assert replay_warm(spark, place, mended=file).error is not None
    before = texts(place)
    with pytest.raises(ReplayUnfinished):
        story.drop(place, 2)
    assert texts(place) == before
    replayed(spark, place)
    story.drop(place, 2)
    assert (texts(place), last(place)) == ([], 2)
    succeed(spark, place, "next")
    check_whole(spark, place)


@pytest.mark.parametrize(
    ("when", "point", "stay"),
    [
        ("before", "rejected rows", 0),
        pytest.param("after", "accepted rows", 0, marks=LONG),
        pytest.param("after", "rejected rows", 1, marks=LONG),
    ],
)
def test_a_batch_of_a_killed_run_stays_and_its_repetition_is_the_same(
    spark: SparkSession, story: Story, when: Any, point: str, stay: int
) -> None:
    place = story.again()
    landed(place, 3, ["{3", row(97, "a", 1, "c1")])
    with killed(when, point):
        assert run_warm(spark, place, "killed").error is not None
    story.drop(place)
    assert texts(place) == ["{3"] * stay
    assert last(place) == 2
    succeed(spark, place, "next")
    assert texts(place) == ["{3"]
    check_whole(spark, place)
    story.drop(place)
    assert (texts(place), last(place)) == ([], 3)
    check_whole(spark, place)


@LONG
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_the_drop_a_run_and_another_maintenance_find_what_is_left(
    spark: SparkSession, story: Story, when: Any
) -> None:
    place = story.again()
    with (
        pytest.raises(RuntimeError, match="old rejects dropped"),
        killed(when, "old rejects dropped"),
    ):
        story.drop(place, 1)
    landed(place, 3, ["{3", row(97, "a", 1, "c1")])
    succeed(spark, place, "next")
    check_whole(spark, place)
    story.drop(place, 1)
    assert texts(place) == sorted([*OF_2, "{3"])
    check_whole(spark, place)


def test_rows_of_which_duplicates_may_be_gone_are_not_retracted(
    spark: SparkSession, story: Story
) -> None:
    place = story.again()
    twin = "id = 'twin'"
    result = retracted(spark, place, where=twin, dry_run=True)
    assert result.change is not None
    assert result.change.twins == 1
    story.drop(place, 1)
    error = retract_warm(spark, place, where=twin).error
    assert error is not None
    assert "Rejects of the batches up to 1 were dropped" in error.message
    assert "may have been among them" in error.message
    retracted(spark, place, where="id = 'b3'")
    check_whole(spark, place)


@LONG
def test_a_rewind_brings_them_back_says_so_and_maintenance_drops_them_again(
    spark: SparkSession, story: Story
) -> None:
    place = story.again()
    story.drop(place, 1)
    shown = rewind_warm(spark, place, "run-1", dry_run=True)
    assert "were dropped since (`keep_rejects`)" in str(shown.model_dump())
    result = rewind_warm(spark, place, "run-1")
    assert result.error is None
    assert (texts(place), last(place)) == (sorted(OF_0 + OF_1), -1)
    check_whole(spark, place)
    succeed(spark, place, "again")
    assert texts(place) == sorted(OF_0 + OF_1 + OF_2)
    check_whole(spark, place)
    story.drop(place, 1)
    assert (texts(place), last(place)) == (sorted(OF_2), 1)
    check_whole(spark, place)


@LONG
def test_an_undone_rewind_knows_again_that_they_are_gone(spark: SparkSession, story: Story) -> None:
    place = story.again()
    story.drop(place, 1)
    result = rewind_warm(spark, place, "run-1")
    assert result.change is not None
    undone = rewind_warm(spark, place, undo=result.change.id)
    assert undone.error is None, undone.error
    assert (texts(place), last(place)) == (sorted(OF_2), 1)
    check_whole(spark, place)


@LONG
def test_an_erasure_leaves_no_file_of_them(spark: SparkSession, story: Story) -> None:
    place = story.again()
    story.drop(place, 1)
    erased(spark, place, where="key = 'b'", texts=("{2",))
    assert last(place) == 1
    assert texts(place) == [OF_2[1]]
    files = [*Path(place.places.rejects).rglob("*.parquet")]
    data = [one for one in files if "_delta_log" not in one.parts]
    assert len(data) == len(place.warehouse.rejects.existing().file_uris())
    succeed(spark, place, "next")
    assert find_losses(place.pipeline, place.warehouse) == ()


@LONG
def test_what_stays_of_a_file_that_a_job_wrote_is_as_it_was(
    spark: SparkSession, story: Story
) -> None:
    place = story.again()
    compact_table(place.warehouse.rejects.existing(), "", ("",))
    # A job writes the others of the one file again.
    erased(spark, place, where="key = 'none'", texts=("{0",))
    assert len(place.warehouse.rejects.existing().file_uris()) == 1
    before = place.rejects().sort_by("id").to_pylist()
    assert len(before) == 5
    story.drop(place, 0)
    assert place.rejects().sort_by("id").to_pylist() == [one for one in before if one["_batch"]]
    by_spark = spark.read.format("delta").load(place.places.rejects)
    assert sorted(one["raw"] for one in by_spark.select("raw").collect()) == texts(place)
    succeed(spark, place, "next")
    assert find_losses(place.pipeline, place.warehouse) == ()


def test_the_story_of_a_row_says_which_rejects_it_does_not_know(story: Story) -> None:
    place = story.again()

    def told() -> tuple[dict[str, int], bool]:
        start = datetime(2026, 7, 1, 10, tzinfo=UTC)
        found = story_of(place.pipeline, place.settings, "per_10m", start, {"key": "a"})
        assert found.rejected is not None
        noted = any("up to 1 were dropped (`keep_rejects`)" in one for one in found.notes)
        return dict(found.rejected.reasons), noted

    assert told() == ({"duplicate": 1}, False)
    story.drop(place, 1)
    assert told() == ({}, True)


def test_a_shorter_time_that_nobody_has_accepted_drops_none(story: Story) -> None:
    place = story.again(keep_rejects="1 second")
    place.write_file()
    shown = CliRunner().invoke(app, ["maintain", place.name], env=place.variables)
    assert shown.exit_code == 0
    # The file asks for less than what a run has taken, and nobody has accepted it.
    assert "old rows" not in shown.stdout
