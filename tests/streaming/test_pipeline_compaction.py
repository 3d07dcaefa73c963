"""A pipeline whose state is compacted between its runs, and one whose state never is: they are the
same; and what a person reads of the state."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.checkpoint.damaged import remove
from tests.kit.running import SCHEDULED, Place, clicks, quiet, sorted_rows, succeed
from tests.streaming.kept_state import files_of, last_batch
from tidemark.runs.pipeline_lease import pipeline_lease
from tidemark.runs.requests import CompactionRequest, StateRequest
from tidemark.runs.results.compaction_result import CompactionResult, compaction_lines
from tidemark.runs.results.looks import StateRows
from tidemark.streaming.jobs.act import JobAct
from tidemark.streaming.jobs.compact_state import compact_once
from tidemark.streaming.jobs.read_state import read_once

LIMIT = {"advanced": {"state": {"limits": {"max_changes": 3}}}}
STARTED = datetime(2026, 7, 2, tzinfo=UTC)


def rows(number: int) -> list[dict[str, Any]]:
    """Half an hour of new events of two keys, and one that is late for all but the first run."""
    stamps = [f"2026-07-01T{8 + number:02}:{minute:02}:00Z" for minute in (0, 10, 20)]
    new = [{"at": at, "key": key, "amount": number} for at in stamps for key in ("a", "b")]
    return [*new, {"at": "2026-07-01T08:05:00Z", "key": "a", "amount": 1}]


def run(spark: SparkSession, place: Place, number: int) -> None:
    place.land(f"{number}.json", rows(number))
    succeed(spark, place, f"run-{number}", scheduled=SCHEDULED + timedelta(hours=8 + number))


def compact(spark: SparkSession, place: Place, every: bool = False) -> CompactionResult:
    run = place.run("compaction", STARTED, "compaction")
    asked = CompactionRequest(pipeline=place.name, every=every)
    return compact_once(
        JobAct(run, asked, quiet(), STARTED, session=lambda *_: spark, on_lapse=lambda lost: None)
    )


def read(spark: SparkSession, place: Place, **asked: Any) -> StateRows:
    request = StateRequest(**{"pipeline": place.name, "table": "per_10m", "limit": 100} | asked)
    return read_once(place.pipeline, place.settings, request, quiet(), lambda *_: spark)


def checkpoint(place: Place) -> Path:
    return Path(place.places.query_checkpoint("per_10m", 1))


def upkeep(place: Place, kind: str) -> list[dict[str, Any]]:
    rows = DeltaTable(place.places.upkeep).to_pyarrow_dataset().to_table().to_pylist()
    return [row for row in rows if row["kind"] == kind]


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A pipeline that has run twice."""
    place = Place(tmp_path_factory.mktemp("made"), clicks(**LIMIT))
    for number in (0, 1):
        run(spark, place, number)
    return place


def test_it_is_refused_while_a_run_holds_the_lease(spark: SparkSession, made: Place) -> None:
    before = files_of(checkpoint(made))
    with pipeline_lease(made.pipeline, made.settings, "run-9", "stream"):
        told = compact(spark, made, every=True)
    assert told.error is not None
    assert (told.error.type, told.error.retry_can_help) == ("LeaseHeld", True)
    assert files_of(checkpoint(made)) == before


def test_a_batch_that_is_not_committed_is_refused_and_nothing_is_written(
    spark: SparkSession, made: Place
) -> None:
    commit = checkpoint(made) / f"commits/{last_batch(checkpoint(made))}"
    data = commit.read_bytes()
    remove(commit)
    before = files_of(checkpoint(made))
    told = compact(spark, made, every=True)
    assert files_of(checkpoint(made)) == before
    commit.write_bytes(data)
    assert told.error is not None
    assert (told.error.type, told.error.retry_can_help) == ("CompactionRefused", False)
    assert "planned and not committed" in told.error.message
    assert "per_10m" in told.error.message


def test_what_is_remembered_of_a_key_is_read(spark: SparkSession, made: Place) -> None:
    every = read(spark, made)
    assert every.error is None
    assert every.columns == ["window", "key", "_value"]
    assert every.count == len(every.rows)
    of_a = read(spark, made, where="key = 'a' AND window.start >= '2026-07-01 09:20:00'")
    (row,) = [json.loads(text) for text in of_a.rows]
    assert (row["key"], row["window"]["start"]) == ("a", "2026-07-01T09:20:00.000Z")
    assert json.loads(row["_value"])["count"] == 1
    first = read(spark, made, limit=1)
    assert (first.count, first.rows) == (every.count, every.rows[:1])


def test_the_difference_between_two_batches_is_keys_added_removed_and_changed(
    spark: SparkSession, made: Place
) -> None:
    last = last_batch(checkpoint(made))
    held = {after: _keys(read(spark, made, batch=after)) for after in (1, last)}
    told = read(spark, made, since=1)
    found = [json.loads(text) for text in told.rows]
    assert told.columns == ["_change", "window", "key", "_before", "_after"]
    by_change = {change: {_key(row) for row in found if row["_change"] == change}
                 for change in ("added", "removed", "changed")}  # fmt: skip
    assert by_change["added"] == held[last].keys() - held[1].keys()
    assert by_change["removed"] == held[1].keys() - held[last].keys()
    same = held[1].keys() & held[last].keys()
    assert by_change["changed"] == {key for key in same if held[1][key] != held[last][key]}
    assert by_change["added"]
    assert by_change["removed"]
    assert read(spark, made, since=last).rows == []


def test_all_rows_become_a_delta_table_and_one_that_is_there_is_refused(
    spark: SparkSession, made: Place, tmp_path: Path
) -> None:
    every, place = read(spark, made), str(tmp_path / "remembered")
    told = read(spark, made, delta=place, limit=1)
    assert (told.error, told.delta, told.rows) == (None, place, every.rows[:1])
    table = DeltaTable(place)
    held = {(row["window"]["start"], row["key"]): row["_value"]
            for row in table.to_pyarrow_dataset().to_table().to_pylist()}  # fmt: skip
    expected = {(datetime.fromisoformat(start), key): value
                for (start, key), value in _keys(every).items()}  # fmt: skip
    assert held == expected

    again = read(spark, made, delta=place, since=1)
    assert again.error is not None
    assert (again.error.type, again.error.retry_can_help) == ("TableExists", False)
    assert DeltaTable(place).version() == table.version()


def _keys(found: StateRows) -> dict[tuple[str, str], str]:
    rows = [json.loads(text) for text in found.rows]
    return {_key(row): row["_value"] for row in rows}


def _key(row: dict[str, Any]) -> tuple[str, str]:
    return row["window"]["start"], row["key"]


@pytest.mark.parametrize(
    ("asked", "error", "told"),
    [
        ({"batch": 99}, "StateNotKept", "after batches 0 to"),
        ({"since": 99}, "StateNotKept", "no state of batch 99"),
        ({"where": "spotId = 1"}, "ConditionInvalid", "key string"),
        ({"where": "key ="}, "ConditionInvalid", "is no condition"),
    ],
)
def test_what_cannot_be_read_is_told_with_what_can(
    spark: SparkSession, made: Place, asked: dict[str, Any], error: str, told: str
) -> None:
    result = read(spark, made, **asked)
    assert result.error is not None
    assert (result.error.type, result.rows) == (error, [])
    assert told in result.error.message


@pytest.mark.long
def test_a_pipeline_that_is_compacted_gives_what_one_gives_that_is_not(
    spark: SparkSession, made: Place, tmp_path: Path
) -> None:
    """The last test of this file: it takes the shared pipeline one run further."""
    place = Place(tmp_path, clicks(**LIMIT))
    run(spark, place, 0)
    early = compact(spark, place)
    assert (early.outcome, early.queries) == ("succeeded", {})
    run(spark, place, 1)
    told = compact(spark, place)
    assert told.error is None
    figures = told.queries["per_10m"]
    # Two batches a run.
    assert (figures.snapshots, figures.before.longest, figures.after.longest) == (2, 4, 0)
    assert figures.rows > 0
    assert "at most 0 in a partition instead of 4" in "\n".join(compaction_lines(told))
    assert compact(spark, place, every=True).queries == {}
    for one in (place, made):
        run(spark, one, 2)
    for table in ("gold", "changes"):
        found, wanted = (getattr(one, table)() for one in (place, made))
        differing = ["updated_by", "run"]
        assert sorted_rows(found, differing) == sorted_rows(wanted, differing)
    (recorded,) = upkeep(place, "compaction")
    assert (recorded["checkpoint"], recorded["compaction"]["chain_before"]) == ("per_10m", 4)
    assert len(upkeep(place, "housekeeping")) == 2
