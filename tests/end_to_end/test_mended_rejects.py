"""Rejects that come to bronze after all, mended or judged again: gold is what it would be had they
been good from the beginning; what is refused; and ended at each of its commit points, an act is
finished by a repetition."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner, Result

from tests.kit.killed import killed
from tests.kit.replaying import mended, replay_warm, replayed
from tests.kit.retracting import retract_warm, retracted
from tests.kit.rewinding import rewind_warm
from tests.kit.running import (
    Place,
    append_a_row_again,
    clicks,
    quiet,
    run_warm,
    sorted_rows,
    succeed,
)
from tests.streaming.audits import audit
from tidemark.cli.main import app
from tidemark.ledger.rebuild import Ledgered, rebuilt_lines
from tidemark.runs.contract.recorded import seeds_of
from tidemark.runs.preflight import SparkNeeded, run_preflight
from tidemark.runs.requests import AuditRequest
from tidemark.runs.status.pipeline_status import pipeline_status
from tidemark.runs.unfinished_act import unfinished_act

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONG = pytest.mark.long
When = Literal["before", "after"]
MEASURES = {"events": "count(*)", "amount": "sum(amount)"}
TABLES = {
    "per_10m": {"window": {"length": "10 minutes"}, "group_by": ["key"], "measures": MEASURES},
    "visits": {
        "window": {"session": "10 minutes"},
        "group_by": ["key"],
        "measures": MEASURES,
        "output_mode": "append",
    },
}
SOURCE = {
    "files": "landing/*.json*",
    "columns": {"at": "timestamp", "key": "string", "amount": "long", "id": "string"},
    "event_time": {"column": "at"},
    "unique": {"by": "id", "within": "2 hours"},
    "derive": {"half": "amount / 2"},
    "rules": [{"name": "negative", "reject": "amount < 0"}],
}
POINTS = [
    ("table made", 1),
    ("replay planned", 1),
    ("pipeline stopped for an act", 1),
    ("rejects copied to `replayed`", 1),
    ("replayed rows in bronze", 1),
    ("replayed rejects taken out of rejects", 1),
    ("ledger", 1),
    ("upkeep recorded", 1),
    ("pipeline released after an act", 1),
]
SHORT = [("replayed rows in bronze", "after")]


def row(minute: int, key: str, amount: Any, name: str) -> dict[str, Any]:
    hour, minute = divmod(minute, 60)
    at = f"2026-07-01T{10 + hour}:{minute:02}:00Z"
    return {"at": at, "key": key, "amount": amount, "id": name}


# Of each run what was read, and what it should have been: None, where nothing is wrong.
RUNS: tuple[list[tuple[Any, Any]], ...] = (
    [(row(0, "a", 5, "twin"), None), (row(3, "b", 1, "b0"), None), ("{", row(4, "b", 3, "m0")),
     (row(31, "a", "1", "a0"), row(31, "a", 1, "a0"))],
    [(row(62, "b", 1, "b1"), None), (row(64, "a", -7, "a1"), row(64, "a", 7, "a1")), ("[]", "[]")],
    [(row(3, "b", 9, "b2"), None), (row(95, "b", 4, "b3"), None), (row(1, "a", 5, "twin"), None),
     (row(96, "a", "2", "m1"), row(96, "a", 2, "m1"))],
)  # fmt: skip


def landed(place: Place, number: int, rows: list[Any]) -> None:
    place.land(f"{number}.json", rows)


@dataclass
class Story:
    """Three runs; kept as it is behind them, and what is then."""

    spark: SparkSession
    place: Place
    before: dict[str, Any]

    def again(self, **changes: Any) -> Place:
        """As it was kept. Spark has read these tables, and would know them by their versions."""
        self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
        return self.place.again(**changes)


def run_all(spark: SparkSession, root: Path, right: bool) -> Place:
    place = Place(root, clicks(source=SOURCE, tables=TABLES))
    for number, rows in enumerate(RUNS):
        landed(place, number, [good if right and good is not None else bad for bad, good in rows])
        succeed(spark, place, f"run-{number}")
    return place


@pytest.fixture(scope="module")
def story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Story:
    place = run_all(spark, tmp_path_factory.mktemp("rejects") / "root", right=False)
    place.keep()
    return Story(spark, place, told(place))


@pytest.fixture(scope="module")
def right(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What is there where all was right from the beginning."""
    return told(run_all(spark, tmp_path_factory.mktemp("right") / "root", right=True))


def told(place: Place) -> dict[str, Any]:
    """What people read, without who wrote it and how often it changed, and where in a file it was:
    mended records are longer."""
    own = ("updated_by", "status", "revision")
    found: dict[str, Any] = {
        name: sorted_rows(place.gold(name), without=own) for name in place.pipeline.tables
    }
    names = ("id", "at", "key", "amount", "half", "_batch")
    found["bronze"] = sorted(
        (*(one[name] for name in names), one["_file"].rpartition("/")[2])
        for one in place.bronze().to_pylist()
    )
    return found


def mends(place: Place) -> list[dict[str, Any]]:
    """A line for each reject that can be mended."""
    found = []
    for number, rows in enumerate(RUNS):
        ids = {
            one["raw"]: one["id"]
            for one in place.rejects().to_pylist()
            if one["_file"].endswith(f"/{number}.json")
        }
        for bad, good in rows:
            text = bad if isinstance(bad, str) else json.dumps(bad)
            if good is not None and good != bad:
                found.append({"id": ids[text], "raw": json.dumps(good), "detail": "what was wrong"})
    return found


def check_ledger(place: Place) -> None:
    """Built anew it has the lines of ingest and of acts that it has."""
    lines = place.table(place.places.ledger).to_pylist()
    lines = [line for line in lines if line["rewound"] is None]
    assert all(line["difference"] in (0, None) for line in lines)
    source = Ledgered(place.pipeline, place.warehouse, seeds_of(place.pipeline, place.warehouse))
    names = ("kind", "batch", "read", "accepted", "rejected", "published", "in_bronze")
    kinds = ("ingest", "retract", "unretract", "replay")
    known = [tuple(line[one] for one in names) for line in lines if line["kind"] in kinds]
    rebuilt = [
        tuple(getattr(line, one) for one in names)
        for line in rebuilt_lines(source)
        if line.kind in kinds
    ]
    assert sorted(known, key=str) == sorted(rebuilt, key=str)


def check_whole(spark: SparkSession, place: Place) -> None:
    assert audit(spark, place).outcome == "equal"
    check_ledger(place)


def test_mended_rows_are_in_gold_as_if_they_had_been_right_from_the_beginning(
    spark: SparkSession, story: Story, right: dict[str, Any]
) -> None:
    place = story.again()
    rejects = place.rejects().to_pylist()
    file = mended(place, *mends(place))
    shown = replayed(spark, place, mended=file, dry_run=True)
    assert shown.judged is not None
    assert (shown.judged.accepted, shown.judged.staying) == (4, {})
    assert told(place) == story.before
    assert not Path(place.places.replayed).exists()
    result = replayed(spark, place, mended=file, by="Ada")
    assert result.judged == shown.judged
    assert result.change is not None
    kept = place.table(place.places.replayed).to_pylist()
    assert {(one["_replayed_by"], one["_reason"], one["_replay"]) for one in kept} == {
        ("Ada", "mended", result.change.id)
    }
    goods = [good for rows in RUNS for _, good in rows if good not in (None, "[]")]
    assert sorted(one["_mended"] for one in kept) == sorted(map(json.dumps, goods))
    left = {one["id"] for one in place.rejects().to_pylist()}
    assert {one["id"] for one in kept} | left == {one["id"] for one in rejects}
    assert not {one["id"] for one in kept} & left
    was = {(one["_file"], one["_place"], one["_batch"], one["_batch_time"]) for one in kept}
    rows = place.bronze().to_pylist()
    assert was <= {(one["_file"], one["_place"], one["_batch"], one["_batch_time"]) for one in rows}

    # Gold does not have them yet: it is not held against them, and a run has something to do.
    before = audit_error(spark, place)
    assert "Rejects came to" in before
    needed = run_preflight(place.run("next"))
    assert isinstance(needed, SparkNeeded)
    assert "bronze was read up to version" in needed.because
    check_ledger(place)
    succeed(spark, place, "next")
    assert told(place) == right
    check_whole(spark, place)
    upkeep = place.table(place.places.upkeep).to_pylist()
    assert [one["replay"]["rows"] for one in upkeep if one["kind"] == "replay"] == [4]
    again = replay_warm(spark, place, mended=file)
    assert again.error is not None
    assert f"was replayed before ({result.change.id})" in again.error.message


def audit_error(spark: SparkSession, place: Place) -> str:
    from tidemark.streaming.jobs.audit import audit_once

    asked = AuditRequest(pipeline=place.name)
    result = audit_once(
        place.run("audit", trigger="audit"), asked, quiet(), datetime.now(UTC),
        session=lambda *_: spark,
    )  # fmt: skip
    assert result.error is not None
    assert result.error.retry_can_help
    return result.error.message


def cases(points: list[tuple[str, int]]) -> Iterator[Any]:
    for point, time in points:
        for when in ("before", "after"):
            marks = () if (point, when) in SHORT else LONG
            yield pytest.param(point, time, when, marks=marks, id=f"{when} {point}")


def end_at(spark: SparkSession, place: Place, point: str, time: int, when: When, **to: Any) -> None:
    """An act that is ended there, as the end of its process would."""
    with killed(when, point, time):
        error = replay_warm(spark, place, **to).error
    assert error is not None
    assert error.type == "Killed", error


@pytest.mark.parametrize(("point", "time", "when"), [*cases(POINTS)])
def test_ended_anywhere_it_is_finished_by_a_repetition(
    spark: SparkSession, story: Story, right: dict[str, Any], point: str, time: int, when: When
) -> None:
    place = story.again()
    file = mended(place, *mends(place))
    end_at(spark, place, point, time, when, mended=file)
    begun = unfinished_act(place.warehouse)
    if begun is not None:
        # Neither the file that mended nor the pipeline's has a say any more.
        Path(file).unlink()
        standing = pipeline_status(place.pipeline, place.settings, datetime.now(UTC))
        assert "was begun and not finished" in standing.next_step
        for error in (
            run_warm(spark, place, "meanwhile").error,
            rewind_warm(spark, place, "run-0").error,
            retract_warm(spark, place, where="key = 'a'").error,
        ):
            assert error is not None
            assert error.type == "ReplayUnfinished"
        other = replay_warm(spark, place, again=True).error
        assert other is not None
        assert "rejects replay clicks --apply" in other.message
        rules = [{"name": "none", "reject": "true"}]
        changed = Place(place.root, clicks(source={**SOURCE, "rules": rules}, tables=TABLES))
        replayed(spark, changed)
    elif (
        place.warehouse.replayed.open() is None or not place.warehouse.replayed.existing().version()
    ):
        replayed(spark, place, mended=file)
    assert unfinished_act(place.warehouse) is None
    nothing = replay_warm(spark, place).error
    assert nothing is not None
    assert "No replay of clicks was begun" in nothing.message
    assert place.table(place.places.replayed).num_rows == 4
    succeed(spark, place, "next")
    assert told(place) == right
    check_whole(spark, place)
    upkeep = place.table(place.places.upkeep).to_pylist()
    assert len([one for one in upkeep if one["kind"] == "replay"]) == 1


def refusal(spark: SparkSession, place: Place, **asked: Any) -> str:
    before = told(place), sorted_rows(place.rejects())
    error = replay_warm(spark, place, **asked).error
    assert error is not None
    assert (told(place), sorted_rows(place.rejects())) == before
    assert unfinished_act(place.warehouse) is None
    return error.message


def test_a_file_that_does_not_fit_is_refused_with_its_lines(
    spark: SparkSession, story: Story
) -> None:
    place = story.again()
    good, other, *_ = mends(place)
    for lines, words in (
        ((good, "", {"id": "f" * 32, "raw": "{}"}), f"line 3: the id {'f' * 32} is none of the"),
        ((good, good), f"line 2: the id {good['id']} stands in line 1 too"),
        (("no line", good), "line 1: not exactly one JSON object"),
        (({"raw": "{}"},), "line 1: it has no `id` that is text"),
        (({"id": other["id"]},), "it has no `raw` that is text or an object"),
        ((f'{{"id": "{other["id"]}", "raw": {{"key": "a", "key": "b"}}}}',), "stands twice"),
        (("",), "holds no line"),
    ):
        assert words in refusal(spark, place, mended=mended(place, *lines)), lines
    assert "There is no file" in refusal(spark, place, mended="/nowhere/mended.jsonl")
    file = mended(place, good)
    assert "--reason" in refusal(spark, place, mended=file, reason=" ")
    place.land("3.json", [row(100, "a", 1, "n")])
    with killed("after", "accepted rows"):
        assert run_warm(spark, place, "killed").error is not None
    error = replay_warm(spark, place, mended=file, dry_run=True).error
    assert error is not None
    assert error.retry_can_help
    assert "is not at a clean end" in error.message
    succeed(spark, place, "next")
    replayed(spark, place, mended=file)
    changed = {**SOURCE, "rules": []}
    place.content = {**place.content, "source": changed}
    assert "is another than its last run's" in refusal(spark, place, again=True)


def test_what_is_rejected_again_stays_as_it_was_and_is_told(
    spark: SparkSession, story: Story
) -> None:
    place = story.again()
    ids = {one["id"]: one["raw"] for one in mends(place)}
    first, second, third, fourth = ids
    still = [
        {"id": first, "raw": row(4, "b", -1, "m0")},
        # The later one of two with one key, and one that bronze has.
        {"id": second, "raw": row(33, "a", 1, "same")},
        {"id": third, "raw": row(32, "a", 7, "same")},
        {"id": fourth, "raw": json.dumps(row(1, "a", 5, "twin"))},
    ]
    before = {one["id"]: one for one in place.rejects().to_pylist()}
    result = replayed(spark, place, mended=mended(place, *still))
    assert result.judged is not None
    assert result.judged.accepted == 1
    assert result.judged.staying == {"duplicate": 2, "negative": 1}
    told_now = {one.id: (one.line, one.detail or "") for one in result.judged.examples}
    assert told_now[first] == (1, "amount < 0 (amount = -1)")
    assert "repeats the row of" in told_now[second][1]
    assert told_now[second][0] == 2
    left = {one["id"]: one for one in place.rejects().to_pylist()}
    assert left == {name: of for name, of in before.items() if name != third}
    succeed(spark, place, "next")
    check_whole(spark, place)
    future = row(0, "a", 1, "future") | {"at": "2099-01-01T00:00:00Z"}
    file = mended(place, {"id": first, "raw": future})
    none = replayed(spark, place, mended=file)
    assert none.change is None
    assert none.judged is not None
    assert none.judged.staying == {"future": 1}


def test_a_row_that_was_retracted_leaves_its_key_to_the_first_that_repeated_it(
    spark: SparkSession, story: Story
) -> None:
    place = story.again()
    result = retracted(spark, place, where="id = 'twin'", dry_run=True)
    assert result.change is not None
    assert result.change.twins == 1
    retracted(spark, place, where="id = 'twin'")
    succeed(spark, place, "between")
    shown = replayed(spark, place, again=True, of="duplicate")
    assert shown.judged is not None
    assert (shown.judged.accepted, shown.judged.staying) == (1, {})
    succeed(spark, place, "next")
    (twin,) = (one for one in place.bronze().to_pylist() if one["id"] == "twin")
    assert (twin["_file"].rpartition("/")[2], twin["_batch"]) == ("2.json", 2)
    check_whole(spark, place)
    # What it repeated cannot come back beside it.
    act = result.change.id
    assert act != place.table(place.places.retracted).column("_retraction").to_pylist()[0]
    undo = place.table(place.places.retracted).column("_retraction").to_pylist()[0]
    error = retract_warm(spark, place, undo=undo).error
    assert error is not None
    assert "1 of these rows have the same id" in error.message


def test_behind_a_corrected_file_rejects_are_judged_again(
    spark: SparkSession, story: Story
) -> None:
    columns = {**SOURCE["columns"], "amount": {"type": "long", "from_text": True}}
    place = story.again(source={**SOURCE, "columns": columns})
    first = replay_warm(spark, place, again=True).error
    assert first is not None
    assert "is another than its last run's" in first.message
    succeed(spark, place, "corrected")
    result = replayed(spark, place, again=True)
    assert result.judged is not None
    assert result.judged.accepted == 2
    assert result.judged.staying == {"duplicate": 1, "malformed": 2, "negative": 1}
    kept = place.table(place.places.replayed).to_pylist()
    assert {(one["reason"], one["_mended"]) for one in kept} == {("wrong type", None)}
    succeed(spark, place, "next")
    assert sorted(one["id"] for one in place.bronze().to_pylist() if one["id"] in ("a0", "m1"))
    check_whole(spark, place)
    # An act has nothing to do where none is accepted.
    again = replayed(spark, place, again=True)
    assert again.change is None


@LONG
def test_an_act_is_no_way_back_for_rewinds_to_before_it_and_one_to_behind_it_is_exact(
    spark: SparkSession, story: Story, right: dict[str, Any]
) -> None:
    place = story.again()
    change = replayed(spark, place, mended=mended(place, *mends(place))).change
    assert change is not None
    rewound = rewind_warm(spark, place, "run-1", dry_run=True).error
    assert rewound is not None
    assert "Rejects were replayed since" in rewound.message
    assert change.id in rewound.message
    place.land("3.json", [row(130, "a", 1, "n")])
    succeed(spark, place, "run-3")
    after = told(place)
    # Behind run-2 the replay stays: its rows are in bronze, and no rejects.
    back = rewind_warm(spark, place, "run-2")
    assert back.error is None, back.error
    assert place.table(place.places.replayed).num_rows == 4
    assert told(place)["bronze"] == right["bronze"]
    succeed(spark, place, "again")
    assert told(place) == after
    check_whole(spark, place)


@LONG
def test_an_act_whose_files_are_gone_before_its_first_commit_lets_the_pipeline_go_on(
    spark: SparkSession, story: Story
) -> None:
    place = story.again()
    file = mended(place, *mends(place))
    end_at(spark, place, "pipeline stopped for an act", 1, "after", mended=file)
    (plan,) = Path(place.places.replays).glob("*/change.json")
    written = json.loads(plan.read_text())["to_bronze"][0]["path"]
    (Path(place.places.bronze) / written).unlink()
    error = replay_warm(spark, place).error
    assert error is not None
    assert "is gone, by VACUUM. None of its rows was moved" in error.message
    assert unfinished_act(place.warehouse) is None
    assert told(place) == story.before
    replayed(spark, place, mended=file)
    succeed(spark, place, "next")
    check_whole(spark, place)


@LONG
@pytest.mark.parametrize("table", ["bronze", "rejects"])
def test_rows_that_others_append_since_the_plan_stop_it_and_stay(
    spark: SparkSession, story: Story, table: str
) -> None:
    place = story.again()
    file = mended(place, *mends(place))
    end_at(spark, place, "pipeline stopped for an act", 1, "after", mended=file)
    uri = str(getattr(place.places, table))
    theirs = append_a_row_again(uri)
    error = replay_warm(spark, place).error
    assert error is not None
    assert error.type == "ReplayUnproven"
    assert "got other rows in version" in error.message
    assert sorted_rows(place.table(uri)) == theirs
    assert unfinished_act(place.warehouse) is not None


@LONG
def test_bronze_put_back_to_before_an_act_is_a_loss_and_rejects_put_back_come_in_once(
    spark: SparkSession, story: Story
) -> None:
    place = story.again()
    uris = (place.places.bronze, place.places.rejects)
    bronze, rejects = (DeltaTable(one).version() for one in uris)
    file = mended(place, *mends(place))
    replayed(spark, place, mended=file)
    cut_off(Path(place.places.rejects), rejects)
    again = replayed(spark, place, again=True, dry_run=True)
    assert again.judged is not None
    assert (again.judged.accepted, again.judged.staying) == (0, {"duplicate": 1, "malformed": 1})
    cut_off(Path(place.places.bronze), bronze)
    lost = run_warm(spark, place, "next").error
    assert lost is not None
    assert lost.type == "TableLost"
    assert "does not hold the 4 rows of the replay" in lost.message


def cut_off(table: Path, version: int) -> None:
    """The table as a backup of this version has it."""
    for entry in (table / "_delta_log").glob("*"):
        if entry.name[:20].isdecimal() and int(entry.name[:20]) > version:
            entry.unlink()


@LONG
def test_whoever_reads_or_joins_with_this_bronze_goes_on(
    spark: SparkSession, story: Story, right: dict[str, Any]
) -> None:
    place = story.again()
    source = {
        "delta": {"table": "clicks/bronze"},
        "columns": {"at": "timestamp", "key": "string", "amount": "long", "id": "string"},
        "event_time": {"column": "at"},
    }
    reader = Place(place.root, clicks(source=source), name="reader")
    succeed(spark, reader, "first")
    replayed(spark, place, mended=mended(place, *mends(place)))
    succeed(spark, reader, "second")
    assert reader.bronze().num_rows == place.bronze().num_rows
    assert audit(spark, reader).outcome == "equal"


CSV = {
    "files": "landing/*.csv",
    "format": {"csv": {"header": False}},
    "columns": {"at": "timestamp", "key": "string", "amount": "long", "id": "string"},
    "event_time": {"column": "at"},
    "unique": {"by": "id", "within": "2 hours"},
}


@LONG
@pytest.mark.parametrize("header", [False, True])
def test_records_of_csv_come_back_as_text_or_as_the_objects_that_they_are(
    spark: SparkSession, tmp_path: Path, header: bool
) -> None:
    content = {**CSV, "format": {"csv": {"header": header}}}
    place = Place(tmp_path / "root", clicks(source=content))
    lines = ["2026-07-01T10:00:00Z,a,1,x", "2026-07-01T10:01:00Z,a,1_0,y", "2026-07-01,a,2,z"]
    twin = "2026-07-01T10:03:00Z,a,5,x"
    place.land("0.csv", [*(["at,key,amount,id"] if header else []), *lines, twin])
    succeed(spark, place, "run-0")
    ids = {one["raw"]: one["id"] for one in place.rejects().to_pylist()}
    assert len(ids) == 3
    again = replayed(spark, place, again=True, dry_run=True).judged
    assert again is not None
    was = {"not judged": 3} if header else {"duplicate": 1, "wrong type": 2}
    assert again.staying == was
    # Without the row that it repeats the twin could come in; or nobody could read it again.
    retract = retract_warm(spark, place, where="id = 'x'", dry_run=True)
    if header:
        assert retract.error is not None
        assert "1 rows were rejected as duplicates of these, and what" in retract.error.message
    else:
        assert retract.change is not None
        assert retract.change.twins == 1
    first = {"id": ids[lines[1]], "raw": lines[1].replace("_", "")}
    if header:
        assert "the header of its file" in refused_file(spark, place, first)
        first["raw"] = {"at": "2026-07-01T10:01:00Z", "key": "a", "amount": 10, "id": "y"}
    other = {"at": "2026-07-01T10:02:00Z", "key": "a", "amount": 2, "id": "z"}
    replayed(spark, place, mended=mended(place, first, {"id": ids[lines[2]], "raw": other}))
    succeed(spark, place, "next")
    assert sorted_rows(place.bronze().select(["id", "amount", "_place"])) == [
        ("x", 1, 0), ("y", 10, 1), ("z", 2, 2),
    ]  # fmt: skip
    assert place.gold().column("amount").to_pylist() == [13]
    check_whole(spark, place)


def refused_file(spark: SparkSession, place: Place, *lines: dict[str, Any]) -> str:
    error = replay_warm(spark, place, mended=mended(place, *lines), dry_run=True).error
    assert error is not None
    return error.message


@LONG
@pytest.mark.process
def test_by_commands_rejects_come_to_bronze(story: Story) -> None:
    place = story.again()
    file = mended(place, *mends(place))
    asked = ("rejects", "replay", "clicks", "--from", file)
    shown = tidemark(place, *asked)
    assert shown.exit_code == 0, shown.output
    assert "clicks: of 4 rejects 4 would be accepted, 0 stay" in shown.output
    assert "nothing was changed: --apply does it" in shown.output
    assert told(place) == story.before
    done = tidemark(place, *asked, "--reason", "units were missing", "--apply")
    assert done.exit_code == 0, done.output
    (act,) = (one.name for one in Path(place.places.replays).iterdir())
    assert f"4 rejects went to bronze (the replay {act})" in done.output
    ledger = tidemark(place, "ledger", "show", "clicks").output
    assert "4 rejects replayed, to bronze" in ledger
    assert tidemark(place, "rejects", "list", "clicks").exit_code == 0
    assert tidemark(place, *asked).exit_code == 1
    assert tidemark(place, "rejects", "replay", "clicks", "--apply").exit_code == 1


def test_a_reason_and_rejects_are_asked_before_spark_starts(story: Story) -> None:
    place = story.again()
    for asked in ((), ("--again", "--apply"), ("--of", "x"), ("--again", "--from", "x")):
        assert tidemark(place, "rejects", "replay", "clicks", *asked).exit_code == 2, asked


def tidemark(place: Place, *arguments: str) -> Result:
    place.write_file()
    return CliRunner().invoke(app, arguments, env=place.variables)
