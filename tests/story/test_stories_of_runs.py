"""The story of a row after real runs: late rows, a held run, rejects, a migration, a rewind."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

import tidemark
from tests.end_to_end.generations import migrated, table
from tests.kit.retracting import retracted
from tests.kit.rewinding import rewound
from tests.kit.running import Place, clicks, succeed
from tidemark.cli.explain import checked_by
from tidemark.cli.main import app
from tidemark.errors import FAILED, SUCCESS
from tidemark.recompute.audit_result import AuditResult, TableAudit
from tidemark.recompute.differences import Differences, Example
from tidemark.story.explain import story_of
from tidemark.story.story import RowValue, Story, story_document

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIDNIGHT = datetime(2026, 7, 1, tzinfo=UTC)
TABLE = "per_10m"


def at(minute: float, key: str = "a", amount: Any = 1) -> dict[str, Any]:
    when = MIDNIGHT + timedelta(minutes=minute)
    return {"at": when.isoformat(), "key": key, "amount": amount}


def story(place: Place, key: str | None = "a") -> Story:
    return story_of(place.pipeline, place.settings, TABLE, MIDNIGHT, {"key": key})


def told(values: Sequence[RowValue]) -> list[tuple[Any, ...]]:
    return [(one.cause, one.run, one.rows, one.published, one.published_by) for one in values]


FIRST = [
    at(1), at(2), at(3, amount="many"), "not JSON", at(4, "b", "few"), at(25), at(25, "b")
]  # fmt: skip
HISTORY = [
    ("stream", "first", 2, True, "first"),
    ("late", "late", 3, True, "late"),
    ("late", "held", 4, False, None),
    ("late", "last", 5, True, "last"),
]


@pytest.fixture(scope="module")
def ran(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A row that two late rows corrected, and a third one that no publish ever showed alone."""
    place = Place(tmp_path_factory.mktemp("story") / "root", clicks(tables=table("update")))
    place.land("1.json", FIRST)
    succeed(spark, place, "first")
    place.land("2.json", [at(50), at(2.5)])
    succeed(spark, place, "late")
    place.land("3.json", [at(4)])
    succeed(spark, place, "held", hold=True)
    place.land("4.json", [at(51), at(5)])
    succeed(spark, place, "last")
    place.write_file()
    place.keep()
    return place


def explained(place: Place, *arguments: str) -> Result:
    given = ["explain", place.name, TABLE, "--window", "2026-07-01", *arguments]
    return CliRunner().invoke(app, given, env={**place.variables, "COLUMNS": "200"})


def test_each_value_is_told_with_its_run_and_whether_gold_showed_it(ran: Place) -> None:
    found = story(ran)
    assert told(found.values) == HISTORY
    assert found.gold is not None
    assert (found.gold["events"], found.gold["status"], found.gold["revision"]) == (
        5,
        "corrected",
        2,
    )
    assert [one.late for one in found.values] == [0, 1, 1, 1]
    (bronze,) = found.bronze
    assert [(row.run, row.place.line) for row in bronze.late_sample] == [
        ("late", 2), ("held", 1), ("last", 2)
    ]  # fmt: skip
    assert {one.run for one in found.checks} == {"first", "late", "last"}
    assert all(one.passed for one in found.checks)
    assert found.notes == ()


def test_what_was_rejected_in_its_time_is_told_with_its_line_and_whether_it_has_the_key(
    ran: Place,
) -> None:
    rejected = story(ran).rejected
    assert rejected is not None
    assert (rejected.reasons, rejected.without_time) == ({"wrong type": 2}, 1)
    found = [(row.of_key, row.place.line, row.run) for row in rejected.sample]
    assert found == [(True, 3, "first"), (False, 5, "first")]


def test_a_row_that_never_came_is_told_with_what_was_rejected(ran: Place) -> None:
    found = story(ran, "b")
    assert (found.gold, found.values, found.bronze[0].number) == (None, (), 0)
    assert found.rejected is not None
    assert found.rejected.sample[0].of_key is True


def test_the_command_tells_the_story_for_people_as_json_and_as_the_function(ran: Place) -> None:
    ran = ran.again()
    shown = explained(ran, "--key", "key=a")
    assert shown.exit_code == SUCCESS, shown.output
    assert "Gold shows events 5, amount 5, rows 5: corrected, revision 2, by last." in shown.stdout
    assert "events 2 → 3, amount 2 → 3, rows 2 → 3" in shown.stdout
    assert "landing/2.json:2" in shown.stdout
    printed = explained(ran, "--key", "key=a", "--json")
    (document,) = json.loads(printed.stdout)
    of_function = tidemark.explain(
        str(ran.write_file()), TABLE, window="2026-07-01T00:04:00Z", key={"key": "a"},
        settings=ran.settings,
    )  # fmt: skip
    assert document == json.loads(json.dumps(story_document(of_function)))
    assert of_function == story(ran)


def test_where_it_is_not_clear_which_row_is_meant_the_command_says_what_to_give(
    ran: Place,
) -> None:
    several = explained(ran, "--window", "2026-07-01T00:25:00Z")
    assert several.exit_code == FAILED
    assert "RowUnclear: Which row is meant? Give key too. Gold has:" in several.stderr
    assert "--window 2026-07-01T00:20:00Z --key key=b" in several.stderr
    wrong = explained(ran, "--key", "kye=a")
    assert wrong.exit_code == 2
    assert "`kye` is no key of the table. Did you mean `key`?" in wrong.stderr


def test_text_of_rows_is_printed_as_text_and_cut(spark: SparkSession, ran: Place) -> None:
    place = ran.again()
    evil = "\x1b]0;owned\x07\u202e" + "x" * 1_000
    place.land("5.json", [at(6, evil), at(6, amount=evil)])
    succeed(spark, place, "evil")
    place.write_file()
    shown = explained(place, "--key", f"key={evil}")
    assert shown.exit_code == SUCCESS, shown.output
    assert "\x1b" not in shown.stdout
    assert "\u202e" not in shown.stdout
    (bronze,) = story(place, evil).bronze
    assert bronze.number == 1
    assert len(bronze.sample[0].values["key"]) == 200
    rejected = story(place).rejected
    assert rejected is not None
    assert max(len(row.raw or "") for row in rejected.sample) == 200


def test_after_packing_and_cleaning_of_the_log_the_order_is_told_by_runs(ran: Place) -> None:
    place = ran.again()
    changes, before = place.warehouse.changes(TABLE, 1).existing(), story(place).values
    files = len(changes.file_uris())
    changes.optimize.compact()
    assert len(changes.file_uris()) < files
    assert story(place).values == before
    changes.create_checkpoint()
    for entry in Path(changes.table_uri.removeprefix("file://"), "_delta_log").glob("*.json"):
        if int(entry.stem) < changes.version():
            entry.unlink()
    found = story(place)
    assert [one.run for one in found.values] == ["first", "late", "held", "last"]
    assert all(one.version is None and one.in_order for one in found.values)
    assert [one.published for one in found.values] == [True, True, None, True]
    assert any("log of generation 1 has been cleaned" in note for note in found.notes)
    runs = place.warehouse.runs.existing()
    runs.delete()
    found = story(place)
    assert not any(one.in_order for one in found.values)
    assert {one.published for one in found.values} == {None}


def test_where_the_file_is_gone_or_another_no_line_is_told(ran: Place) -> None:
    place = ran.again()
    (place.root / "landing/2.json").unlink()
    (place.root / "landing/4.json").write_text("{}\n" * 50)
    (bronze,) = story(place).bronze
    unknown = {row.run: row.place.unknown for row in bronze.sample}
    assert unknown == {
        "first": None,
        "held": None,
        "late": "the file is not there any more",
        "last": "the file has changed since it was read, or may have",
    }


def test_the_values_of_all_generations_are_told(spark: SparkSession, ran: Place) -> None:
    more = {"most": "max(amount)", "events": "count(*)", "amount": "sum(amount)"}
    place = replace(ran.again(), content=clicks(tables=table("update", measures=more)))
    migrated(spark, place)
    found = story(place)
    assert told(found.values) == [*HISTORY, ("migration", "migrate", 5, True, "migrate")]
    assert [one.generation for one in found.values] == [1, 1, 1, 1, 2]
    assert found.values[-1].values["most"] == 1
    assert story(place).bronze[0].late == 3
    other = table("update", window={"length": "5 minutes"}, measures=more)
    place = replace(place, content=clicks(tables=other))
    migrated(spark, place, "shorter")
    found = story(place)
    assert told(found.values) == [("migration", "shorter", 4, True, "shorter")]
    assert [note[:40] for note in found.notes] == [
        "Generation 1 had rows by another window,",
        "Generation 2 had rows by another window,",
    ]


def test_what_a_rewind_took_back_is_marked(spark: SparkSession, ran: Place) -> None:
    place = ran.again()
    change = rewound(spark, place, "late").change
    assert change is not None
    found = story(place)
    assert [(one.cause, one.rows, one.undone) for one in found.values] == [
        ("stream", 2, None),
        ("late", 3, None),
        ("late", 4, change.id),
        ("late", 5, change.id),
        ("rewind", 3, None),
    ]
    assert (found.bronze[0].number, found.bronze[0].late) == (3, 1)
    succeed(spark, place, "last")
    found = story(place)
    assert [(one.run, one.undone) for one in found.values][-1] == ("last", None)
    assert found.values[-1].rows == 5


def test_what_a_retraction_changed_is_told_with_who_and_why(
    spark: SparkSession, ran: Place
) -> None:
    place = ran.again()
    before = story(place)
    one, *others = place.bronze().sort_by("at").to_pylist()
    act = retracted(spark, place, where=f"at = '{one['at'].isoformat()}'", by="Ada").change
    assert act is not None
    found = story(place)
    assert told(found.values)[:-1] == told(before.values)
    changed = found.values[-1]
    assert (changed.cause, changed.rows, changed.published) == (
        "retract", before.values[-1].rows - act.rows, True,
    )  # fmt: skip
    assert (changed.by, changed.reason) == ("Ada", "a mistake")
    gone = retracted(spark, place, where="true").change
    assert gone is not None
    assert gone.rows == len(others) + 1 - act.rows
    last = story(place).values[-1]
    assert (last.cause, last.rows, last.run) == ("retract", 0, gone.run_id)
    assert (last.by, last.reason) == (gone.by, "a mistake")


def audited(story: Story, found: Differences) -> AuditResult:
    close = {"close_ms": 0, "closed_only": False, "windows_from": None, "windows_to": None}
    audit = TableAudit(gold=1, bronze=1, before_batch=None, found=found, **close)  # type: ignore[arg-type]
    return AuditResult(
        pipeline=story.pipeline, run_id="audit", outcome="equal", started_at=MIDNIGHT,
        ended_at=MIDNIGHT, tables={story.table: audit},
    )  # fmt: skip


def test_a_check_says_of_the_row_what_an_audit_found_of_it_and_no_more(ran: Place) -> None:
    of = story(ran)
    mine = Example(window_start=MIDNIGHT, keys={"key": "a"}, gold={"events": 5}, bronze=None)
    other = Example(window_start=MIDNIGHT, keys={"key": "b"}, gold={"events": 5}, bronze=None)
    said = {
        "equal": Differences(gold_windows=2, bronze_windows=2, equal=2),
        "not compared": Differences(),
        "this": Differences(gold_windows=1, different=1, examples={"different": [other, mine]}),
        "another": Differences(gold_windows=1, different=1, examples={"different": [other]}),
        "many": Differences(gold_windows=9, different=9, examples={"different": [other]}),
    }
    found = {name: checked_by(audited(of, one), of) for name, one in said.items()}
    assert {name: one.equal for name, one in found.items()} == {
        "equal": True, "not compared": None, "this": False, "another": True, "many": None,
    }  # fmt: skip
    assert "Gold has events=5; bronze gives nothing" in found["this"].said


@pytest.mark.process
def test_with_check_spark_says_that_gold_is_what_bronze_gives_or_else_what_that_is(
    ran: Place,
) -> None:
    place = ran.again()
    checked = ("--key", "key=a", "--check", "--master", "local[1]")
    equal = explained(place, *checked)
    assert equal.exit_code == SUCCESS, equal.output
    assert "Gold equals bronze in all 1 rows that start when it does." in equal.stdout
    changed = "key = 'a' AND rows = 5"
    place.warehouse.gold(TABLE).existing().update({"amount": "99"}, predicate=changed)
    differs = explained(place, *checked, "--json")
    assert differs.exit_code == FAILED, differs.output
    (document,) = json.loads(differs.stdout)
    assert document["gold"]["amount"] == 99
    said = document["checked"]
    assert said["equal"] is False
    assert re.search(r"Gold has .*amount=99.*; bronze gives .*amount=5.*", said["said"])


def test_a_story_of_a_warehouse_without_the_facts_of_this_version_says_less(ran: Place) -> None:
    """Notes without a run: the ledger tells it."""
    place = ran.again()
    before, cut = story(place).bronze, 0
    for entry in Path(place.places.bronze, "_delta_log").glob("*.json"):
        text, found = re.subn(r',\\"run\\":\\"\w+\\"', "", entry.read_text())
        entry.write_text(text)
        cut += found
    assert cut == len(HISTORY)
    assert story(place).bronze == before
    place.warehouse.ledger.existing().delete()
    (bronze,) = story(place).bronze
    assert {row.run for row in bronze.sample} == {None}
    assert bronze.late == 3
