"""A rewind of a pipeline: what it refuses, what it shows; and ended at each of its commit points:
finished, or taken back, it is as good as before, and nothing else runs meanwhile."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner, Result

from tests.kit.killed import killed
from tests.kit.rewinding import rewind_warm
from tests.kit.running import Place, clicks, run_warm, sorted_rows, succeed
from tests.streaming.audits import audit
from tidemark.cli.main import app
from tidemark.runs.status.pipeline_status import pipeline_status
from tidemark.runs.unfinished_act import unfinished_act
from tidemark.storage.delta.fence import PROPERTY
from tidemark.storage.lease.lease import read_lease

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONG = pytest.mark.long
When = Literal["before", "after"]
# A point, and which of its times: rejects hold nothing here, so bronze goes back first.
POINTS = [
    ("pipeline backed up", 1),
    ("pipeline stopped for an act", 1),
    ("table of a pipeline taken back", 1),
    ("table of a pipeline taken back", 2),
    ("table of a pipeline taken back", 3),
    ("properties set again", 2),
    ("ingest's checkpoint taken back", 1),
    ("query of a generation named", 1),
    ("gold of another generation", 1),
    ("ledger rewound", 1),
    ("upkeep recorded", 1),
    ("pipeline released after an act", 1),
]
SHORT = [("table of a pipeline taken back", 2, "after")]


def cases() -> Iterator[Any]:
    for point, time in POINTS:
        for when in ("before", "after"):
            marks = () if (point, time, when) in SHORT else LONG
            yield pytest.param(point, time, when, marks=marks, id=f"{when} {point} {time}")


def row(minute: int, key: str) -> dict[str, Any]:
    hour, minute = divmod(minute, 60)
    return {"at": f"2026-07-01T{10 + hour}:{minute:02}:00Z", "key": key, "amount": 1}


@dataclass
class Story:
    """Three runs, with a reject and a late row; kept as it is behind them, and what is then."""

    spark: SparkSession

    place: Place
    before: dict[str, Any]
    # After a rewind to the first run and one more run.
    undisturbed: dict[str, Any]

    def again(self) -> Place:
        """As it was kept. Spark has read these tables, and would know them by their versions."""
        self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
        return self.place.again()


@pytest.fixture(scope="module")
def story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Story:
    place = Place(tmp_path_factory.mktemp("killed") / "root", clicks())
    for number, rows in enumerate(
        ([row(0, "a"), row(31, "a"), "no JSON"], [row(62, "b"), "[]"], [row(3, "b"), row(90, "a")])
    ):
        place.land(f"{number}.json", rows)
        succeed(spark, place, f"run-{number}")
    place.keep()
    before = told(place)
    assert rewind_warm(spark, place, "run-0").error is None
    succeed(spark, place, "again")
    return Story(spark, place, before, told(place))


def check_fenced(place: Place) -> None:
    """By the lease of the rewind: a restore brings the number of an owner of then."""
    lease = read_lease(place.places.lease, {})
    assert lease is not None
    for uri in (place.places.bronze, place.places.gold("per_10m")):
        assert DeltaTable(uri).metadata().configuration[PROPERTY] == str(lease.number)


def told(place: Place) -> dict[str, Any]:
    tables = {"bronze": place.bronze(), "rejects": place.rejects(), "gold": place.gold()}
    own = ("updated_by", "_batch_time", "_batch")
    found: dict[str, Any] = {
        name: sorted_rows(table, without=own) for name, table in tables.items()
    }
    return found | {"ledger": counted(place)}


def counted(place: Place) -> tuple[int, ...]:
    """What the ledger's lines of ingest come to that count: each batch of the tables has one, and
    no other batch has."""
    lines = [
        line
        for line in place.table(place.places.ledger).to_pylist()
        if line["kind"] == "ingest" and line.get("rewound") is None
    ]
    accepted, rejected = (
        Counter(table["_batch"].to_pylist()) for table in (place.bronze(), place.rejects())
    )
    batches = sorted(accepted.keys() | rejected.keys())
    found = sorted((line["batch"], line["accepted"], line["rejected"]) for line in lines)
    assert found == [(batch, accepted[batch], rejected[batch]) for batch in batches]
    assert all(line["difference"] == 0 for line in lines)
    return tuple(sum(line[name] for line in lines) for name in ("read", "accepted", "rejected"))


def end_at(spark: SparkSession, place: Place, point: str, time: int, when: When, **to: Any) -> None:
    """A rewind that is ended there, as the end of its process would."""
    with killed(when, point, time):
        error = rewind_warm(spark, place, **to).error
    assert error is not None
    assert error.type == "Killed", error


@pytest.mark.parametrize(("point", "time", "when"), [*cases()])
def test_ended_anywhere_it_is_finished_by_a_repetition_or_taken_back(
    spark: SparkSession, story: Story, point: str, time: int, when: When
) -> None:
    place = story.again()
    end_at(spark, place, point, time, when, to_run="run-0")
    begun = unfinished_act(place.warehouse)
    standing = pipeline_status(place.pipeline, place.settings, datetime.now(UTC))
    assert ("was begun and not finished" in standing.next_step) == (begun is not None)
    if begun is None:
        assert point in ("pipeline backed up", "pipeline stopped for an act") or when == "after"
    else:
        refused = run_warm(spark, place, "meanwhile").error
        assert refused is not None
        assert refused.type == "RewindUnfinished"
    if begun is not None or told(place) == story.before:
        finished = rewind_warm(spark, place, to_run="run-0")
        assert finished.error is None, finished.error
    succeed(spark, place, "again")
    assert told(place) == story.undisturbed
    assert audit(spark, place).outcome == "equal"

    if begun is not None:
        place = story.again()
        end_at(spark, place, point, time, when, to_run="run-0")
        begun = unfinished_act(place.warehouse)
        undone = rewind_warm(spark, place, undo=begun.id)
        assert undone.error is None, undone.error
        assert told(place) == story.before
        succeed(spark, place, "goes on")
        assert told(place) == story.before


@LONG
@pytest.mark.parametrize("ran_on", [False, True])
def test_taken_back_it_is_as_before_the_rewind(
    spark: SparkSession, story: Story, ran_on: bool
) -> None:
    place = story.again()
    result = rewind_warm(spark, place, "run-1")
    assert result.error is None
    assert result.change is not None
    check_fenced(place)
    if ran_on:
        succeed(spark, place, "ran on")
    undone = rewind_warm(spark, place, undo=result.change.id)
    assert undone.error is None, undone.error
    assert told(place) == story.before
    place.land("3.json", [row(4, "b"), row(120, "a")])
    succeed(spark, place, "goes on")
    assert place.bronze().num_rows == 7
    assert audit(spark, place).outcome == "equal"


@LONG
def test_an_undo_that_is_repeated_or_undone_leaves_a_ledger_that_is_right(
    spark: SparkSession, story: Story
) -> None:
    place = story.again()
    back = rewind_warm(spark, place, "run-1").change
    assert back is not None
    place.land("3.json", [row(91, "c")])
    succeed(spark, place, "between")
    between = told(place)
    first = rewind_warm(spark, place, undo=back.id)
    assert first.error is None, first.error
    assert told(place) == story.before
    again = rewind_warm(spark, place, undo=back.id)
    assert again.error is None, again.error
    assert told(place) == story.before
    assert first.change is not None
    forth = rewind_warm(spark, place, undo=first.change.id)
    assert forth.error is None, forth.error
    assert told(place) == between
    assert {name for name, one in forth.changed.items() if one.windows} == {"per_10m"}

    # What was read since an undone rewind has to be there: bronze goes back behind it.
    (place.root / "landing" / "3.json").unlink()
    refused = rewind_warm(spark, place, undo=back.id, dry_run=True)
    assert refused.error is not None
    assert "files that were read since have to be read again, and are gone" in refused.error.message


def test_the_generation_before_a_rewind_is_no_way_back(spark: SparkSession, story: Story) -> None:
    """Its query has read what is undone."""
    place = story.again()
    assert rewind_warm(spark, place, "run-1").error is None
    refused = tidemark(place, "migrate", "clicks", "--rollback", "per_10m", "--dry-run")
    assert refused.exit_code == 1
    assert "was taken back by a rewind since its query has read it" in refused.output


def test_what_was_changed_by_hand_after_the_last_run_is_undone_by_going_back_to_it(
    story: Story,
) -> None:
    place = story.again()
    DeltaTable(place.places.bronze).delete("key = 'b'")
    shown = tidemark(place, "rewind", "clicks", "--to-run", "run-2")
    assert shown.exit_code == 0, shown.output
    assert "bronze: from version 4 to what it was at version 3" in shown.output
    assert "What was changed by hand in" in shown.output


@LONG
@pytest.mark.parametrize(
    "point", ["table of a pipeline taken back", "ingest's checkpoint taken back"]
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_ended_while_it_is_taken_back_it_is_finished_by_a_repetition(
    spark: SparkSession, story: Story, point: str, when: When
) -> None:
    place = story.again()
    change = rewind_warm(spark, place, "run-1").change
    assert change is not None
    end_at(spark, place, point, 1, when, undo=change.id)
    finished = rewind_warm(spark, place)
    assert finished.error is None, finished.error
    assert told(place) == story.before


# What a plan says: without Spark, and nothing is changed.


def test_the_runs_to_go_back_to_are_listed_and_a_plan_changes_nothing(story: Story) -> None:
    place = story.again()
    listed = tidemark(place, "rewind", "clicks")
    assert listed.exit_code == 0, listed.output
    assert [line.split()[0] for line in listed.output.splitlines() if " 2026-" in line] == [
        "run-2",
        "run-1",
        "run-0",
    ]
    shown = tidemark(place, "rewind", "clicks", "--to-run", "run-0")
    assert shown.exit_code == 0, shown.output
    for words in (
        "clicks: would go back to the end of run run-0",
        "undone: 2 runs (run-1 to run-2)",
        "2 files of the source are read again; all are there.",
        "ingest: the next batch is 1",
        "nothing was changed: --apply does it",
    ):
        assert words in shown.output
    assert told(place) == story.before
    assert not Path(place.places.rewinds).exists()


def refused(place: Place, to_run: str = "run-0") -> str:
    shown = tidemark(place, "rewind", "clicks", "--to-run", to_run)
    assert shown.exit_code == 1, shown.output
    applied = tidemark(place, "rewind", "clicks", "--to-run", to_run, "--json")
    assert applied.exit_code == 1
    return shown.output


def test_what_cannot_be_read_again_or_brought_back_refuses_it(story: Story) -> None:
    place = story.again()
    (place.root / "landing" / "1.json").unlink()
    assert "1 of the 2 files that have to be read again are gone" in refused(place)

    place = story.again()
    assert "ops/runs knows no such run of it" in refused(place, "run-7")
    assert "Runs to go back to, the newest first: run-2, run-1, run-0" in refused(place, "run-7")

    place = story.again()
    gold = DeltaTable(place.places.gold("per_10m"))
    newest, then = set(gold.file_uris()), place.warehouse.gold("per_10m").at_version(1)
    for uri in set(then.file_uris()) - newest:
        Path(uri).unlink()
    assert f"its version {then.version()} needs are gone, by VACUUM" in refused(place)


def test_what_others_did_to_a_table_since_is_kept_undone_or_refuses_it(story: Story) -> None:
    place = story.again()
    kept = {"delta.logRetentionDuration": "9 days"}
    DeltaTable(place.places.bronze).alter.set_table_properties(kept)
    DeltaTable(place.places.bronze).delete("key = 'b'")
    shown = tidemark(place, "rewind", "clicks", "--to-run", "run-0")
    assert shown.exit_code == 0, shown.output
    assert "What was changed by hand in" in shown.output
    told_in_json = tidemark(place, "rewind", "clicks", "--to-run", "run-0", "--json").output
    (plan,) = json.loads(told_in_json)
    assert plan["change"]["bronze"]["properties"] == kept
    accepted = tidemark(place, "accept", "clicks", "--reason", "must go", "--by", "Ada")
    assert accepted.exit_code == 0, accepted.output
    assert "was accepted since (must go, by Ada)" in refused(place)

    place = story.again()
    DeltaTable(place.places.bronze).alter.add_constraint({"positive": "amount > 0"})
    assert "delta.constraints.positive" in refused(place)


def test_a_source_without_offsets_is_told_to_name_a_run(story: Story) -> None:
    place = story.again()
    shown = tidemark(place, "rewind", "clicks", "--to-offset", "clicks/0:7")
    assert shown.exit_code == 1
    assert "has no offsets of its own to go back to" in shown.output
    assert tidemark(place, "rewind", "clicks", "--to-offset", "clicks").exit_code == 2


@LONG
@pytest.mark.process
def test_by_commands_a_pipeline_goes_back_and_forth(story: Story) -> None:
    place = story.again()
    back = tidemark(place, "rewind", "clicks", "--to-run", "run-0", "--apply")
    assert back.exit_code == 0, back.output
    assert place.bronze().num_rows == 2
    listed = tidemark(place, "rewind", "clicks")
    assert [line.split()[0] for line in listed.output.splitlines() if " 2026-" in line] == ["run-0"]
    (rewind,) = (one.name for one in Path(place.places.rewinds).iterdir())
    shown = tidemark(place, "ledger", "show", "clicks")
    assert "which count in no total" in shown.output
    undone = tidemark(place, "rewind", "clicks", "--undo", rewind, "--apply")
    assert undone.exit_code == 0, undone.output
    assert told(place) == story.before
    ran = tidemark(place, "run", "clicks")
    assert ran.exit_code == 0, ran.output
    assert told(place) == story.before
    upkeep = place.table(place.places.upkeep).sort_by("time").to_pylist()
    assert [one["rewind"]["undoes"] for one in upkeep if one["kind"] == "rewind"] == [None, rewind]


def tidemark(place: Place, *arguments: str) -> Result:
    place.write_file()
    return CliRunner().invoke(app, arguments, env=place.variables)
