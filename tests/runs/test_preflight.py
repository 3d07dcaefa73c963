"""A run that finds nothing new is done without Spark, and leaves what one with Spark leaves."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import CommitProperties, DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from tests.kit.running import SCHEDULED, Place, clicks, sorted_rows, succeed
from tests.kit.time_zones import clocks
from tidemark.runs.preflight import SparkNeeded
from tidemark.runs.publish_held import publish_and_record
from tidemark.runs.results.result import RunResult
from tidemark.runs.without_spark import run_without_spark
from tidemark.storage.delta.fence import fence_tables
from tidemark.storage.delta.notes import IngestNote, as_metadata
from tidemark.storage.delta.rows import Rows
from tidemark.storage.lease.lease import hold_lease, this_process
from tidemark.storage.result_file import read_result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = [
    {"at": "2026-01-01T10:01:00Z", "key": "a", "amount": 1},
    {"at": "2026-01-01T10:31:00Z", "key": "b", "amount": 2},
    "no JSON",
]
LATE = [{"at": "2026-01-01T10:02:00Z", "key": "a", "amount": 5}]
IDLE = clicks(watermark={"delay": "10 minutes", "seal_after_idle": "30 minutes"})
# What tells when and how a run worked, and not what it did.
OF_THE_RUN = ["run", "run_id", "started_at", "ended_at", "written_at", "seconds", "without_spark"]


@pytest.fixture(scope="module")
def pristine(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A place as a run by Spark left it, again for each test."""
    place = Place(tmp_path_factory.mktemp("pristine"))
    place.land("1.json", ROWS)
    succeed(spark, place, "first")
    place.keep()
    return place


@pytest.fixture(scope="module")
def unpublished(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The same, held: gold says nothing yet of what was read."""
    place = Place(tmp_path_factory.mktemp("unpublished") / "root")
    place.land("1.json", ROWS)
    succeed(spark, place, "held", hold=True)
    place.keep()
    return place


@pytest.fixture
def place(pristine: Place) -> Place:
    return pristine.again()


def preflight(
    place: Place, run_id: str = "second", scheduled: datetime = SCHEDULED
) -> RunResult | SparkNeeded:
    run = place.run(run_id, scheduled)
    return run_without_spark(run, datetime.now(UTC), place.places.result(run_id))


def done(place: Place, run_id: str = "second", scheduled: datetime = SCHEDULED) -> RunResult:
    found = preflight(place, run_id, scheduled)
    assert isinstance(found, RunResult), found
    return found


def because(place: Place, scheduled: datetime = SCHEDULED) -> str:
    """Why Spark is needed; nothing is changed by finding out, and the lease is free again."""
    before = facts(place)
    found = preflight(place, scheduled=scheduled)
    assert isinstance(found, SparkNeeded), found
    assert facts(place) == before
    return found.because


def facts(place: Place) -> dict[str, Any]:
    """All that a pipeline's tables and checkpoints hold, but for when a run worked."""
    tables = {
        str(log.parent.relative_to(place.root)): (
            DeltaTable(str(log.parent)).version(),
            sorted_rows(place.table(str(log.parent)), OF_THE_RUN),
        )
        for log in place.root.glob("**/_delta_log")
    }
    checkpoints = {
        str(file.relative_to(place.root)): file.read_bytes()
        for file in (place.root / place.name / "checkpoints").rglob("*")
        if file.is_file()
    }
    return {"tables": tables, "checkpoints": checkpoints}


def test_it_leaves_what_a_run_by_spark_leaves_that_found_nothing_new(
    spark: SparkSession, pristine: Place
) -> None:
    place = pristine.again()
    by_spark = succeed(spark, place, "second", hold=True)
    expected = facts(place)
    place = pristine.again()
    without = done(place)
    assert facts(place) == expected
    assert without.model_dump(exclude=set(OF_THE_RUN)) == by_spark.model_dump(
        exclude=set(OF_THE_RUN)
    )
    assert read_result(RunResult, place.places.result("second"), {}) == without


def test_the_result_says_that_no_spark_was_started_and_why(place: Place) -> None:
    told = done(place)
    assert told.without_spark is not None
    assert told.without_spark.startswith("all of the source was read before")
    assert list(told.seconds) == ["preflight"]
    assert (told.held, told.rows.read, told.batches) == (True, 0, {})
    assert told.restart == {"per_10m": "clean end", "ingest": "clean end"}


@pytest.mark.long
def test_versions_of_bronze_without_new_rows_start_no_spark(
    spark: SparkSession, place: Place
) -> None:
    place.land("2.json", ROWS)
    succeed(spark, place, "second")
    bronze = DeltaTable(place.places.bronze)
    assert bronze.optimize.compact()["numFilesRemoved"] == 2
    fence_tables([place.warehouse.bronze], 1)
    done(place, "third")
    # Spark agrees: it reads on from there, and what was packed is nothing new to it.
    rows = place.changes().num_rows
    place.land("3.json", [{"at": "2026-01-01T11:31:00Z", "key": "c", "amount": 3}])
    succeed(spark, place, "fourth")
    assert place.changes().num_rows == rows + 1
    done(place, "fifth")


def test_run_after_run_finds_nothing_new(place: Place) -> None:
    for number in range(3):
        result = done(place, f"run {number}")
        uri = place.places.result(f"run {number}")
        assert publish_and_record(place.pipeline, result, uri, place.settings).error is None
    rows = place.table(place.places.runs).select(["run", "outcome"]).to_pylist()
    outcomes = sorted(row["outcome"] for row in rows if row["run"] == "run 2")
    assert outcomes == ["succeeded"]


def test_a_new_file_is_for_spark(place: Place) -> None:
    file = place.land("2.json", LATE)
    assert because(place) == f"1 files may be new, among them {file}"


def test_a_file_that_changed_since_it_was_read_is_passed_over_as_spark_does(
    spark: SparkSession, place: Place
) -> None:
    file = place.land("1.json", [*ROWS, *LATE])
    os.utime(file, (2_000_000_000, 2_000_000_000))
    assert succeed(spark, place, "by spark").rows.read == 0
    assert done(place).rows.read == 0


def test_hidden_files_are_passed_over(place: Place) -> None:
    place.land("_SUCCESS.json", LATE)
    place.land(".2.json.tmp.json", LATE)
    done(place)


@pytest.mark.parametrize(("query", "told"), [("ingest", "ingest: "), ("per_10m/1", "per_10m: ")])
def test_a_batch_that_was_killed_is_for_spark(unpublished: Place, query: str, told: str) -> None:
    place = unpublished.again()
    checkpoint = place.root / "clicks" / "checkpoints" / query
    last = max(int(file.name) for file in (checkpoint / "offsets").glob("[0-9]*"))
    (checkpoint / "commits" / str(last)).unlink()
    assert because(place) == f"{told}its checkpoint is not at a clean end: repeats batch {last}"


def test_a_batch_without_data_that_is_due_is_for_spark(unpublished: Place) -> None:
    place = unpublished.again()
    checkpoint = place.root / "clicks" / "checkpoints" / "per_10m" / "1"
    for log in ("offsets", "commits"):
        (checkpoint / log / "1").unlink()
    for file in (checkpoint / "state").rglob("2.*"):
        file.unlink()
    assert because(place) == (
        "per_10m: a batch without data is due, for the watermark 2026-01-01T10:21:00Z"
    )


def test_a_seal_is_for_spark_once_the_scheduled_time_makes_it_due(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path, IDLE)
    place.land("1.json", ROWS)
    succeed(spark, place, "first", scheduled=SCHEDULED)
    done(place, "soon", SCHEDULED + timedelta(minutes=29))
    due = SCHEDULED + timedelta(minutes=30)
    assert because(place, due) == (
        "per_10m: the source is idle, and windows up to 2026-01-01T10:40:00Z are to be sealed"
    )
    succeed(spark, place, "sealed", scheduled=due)
    sealed = done(place, "later", due + timedelta(days=1))
    assert sealed.tables["per_10m"].sealed_to_ms == sealed.tables["per_10m"].close_before_ms


def test_what_a_held_run_left_is_published_without_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path)
    place.land("1.json", ROWS)
    succeed(spark, place, "held", hold=True)
    assert place.gold().num_rows == 0
    result = done(place)
    published = publish_and_record(
        place.pipeline, result, place.places.result("second"), place.settings
    )
    assert published.tables["per_10m"].published_windows == 2
    statuses = place.gold().select(["key", "status"]).to_pylist()
    assert statuses == [{"key": "a", "status": "final"}, {"key": "b", "status": "provisional"}]


def test_late_rows_whose_windows_are_not_published_yet_are_for_spark(
    spark: SparkSession, place: Place
) -> None:
    place.land("2.json", LATE)
    succeed(spark, place, "held", hold=True)
    assert because(place) == "per_10m: 1 closed windows have late rows"


def test_rows_of_bronze_that_were_not_aggregated_are_for_spark(unpublished: Place) -> None:
    place = unpublished.again()
    fence_tables([place.warehouse.bronze], 7)
    done(place, "version 2 holds no rows")
    bronze = DeltaTable(place.places.bronze)
    note = IngestNote(query="ingest", batch=0, rows=Rows(read=1, accepted=1))
    properties = CommitProperties(custom_metadata=as_metadata(note))
    rows = bronze.to_pyarrow_table().slice(0, 1)
    write_deltalake(bronze, rows, mode="append", commit_properties=properties)
    assert because(place) == "per_10m: bronze was read up to version 1 of 3"


def test_a_changed_pipeline_file_is_for_spark(pristine: Place) -> None:
    place = pristine.again(watermark={"delay": "11 minutes"})
    assert because(place).startswith("the pipeline's file, or Tidemark, is another")


def test_other_rules_of_a_zone_are_for_spark(spark: SparkSession, tmp_path: Path) -> None:
    zone, until = "Asia/Almaty", datetime(2025, 12, 31, 18, tzinfo=UTC)
    days = clicks()["tables"]["per_10m"] | {"window": {"calendar": "day", "zone": zone}}
    place = Place(tmp_path / "root", clicks(tables={"per_10m": days}))
    place.land("1.json", ROWS)
    with clocks(tmp_path / "before", zone, 6, {}):
        succeed(spark, place, "first")
        done(place)
    with clocks(tmp_path / "since", zone, 6, {until: 5}):
        assert because(place) == (
            "per_10m: the clocks of Asia/Almaty at 2025-12-31T18:00:00Z: UTC+06:00 → UTC+05:00"
        )


def test_a_changed_check_is_none_of_the_queries(pristine: Place) -> None:
    table = clicks()["tables"]["per_10m"] | {"checks": [{"warn": "amount >= 1"}]}
    done(pristine.again(tables={"per_10m": table}))


def test_gold_that_is_missing_is_for_spark(place: Place) -> None:
    shutil.rmtree(place.root / "clicks/per_10m/gold")
    assert because(place) == f"the table {place.root}/clicks/per_10m/gold is to be made"


@pytest.mark.parametrize("name", ["bronze", "rejects", "per_10m/changes"])
def test_a_missing_table_is_for_the_job_to_report(place: Place, name: str) -> None:
    shutil.rmtree(place.root / "clicks" / name)
    assert because(place).startswith("TableLost: ")


@pytest.mark.parametrize("name", ["per_10m/changes", "per_10m/gold"])
def test_a_table_with_other_columns_is_for_spark(place: Place, name: str) -> None:
    table = DeltaTable(f"{place.root}/clicks/{name}")
    table.alter.add_columns([Field("more", PrimitiveType("string"))])
    assert because(place).startswith("TableMismatch: ")


def _nothing_planned(root: Path) -> None:
    (root / "clicks" / "planned_columns.json").unlink()


def _no_checkpoint(root: Path) -> None:
    shutil.rmtree(root / "clicks" / "checkpoints" / "ingest")


def _cut_off(root: Path) -> None:
    (root / "clicks" / "checkpoints" / "ingest" / "offsets" / "0").write_text("v1\n{")


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (_nothing_planned, "the pipeline's file, or Tidemark, is another"),
        (_no_checkpoint, "TableLost: "),
        (_cut_off, "TableLost: "),
    ],
)
def test_what_cannot_be_told_is_for_spark(
    place: Place, damage: Callable[[Path], None], told: str
) -> None:
    damage(place.root)
    assert because(place).startswith(told)


def test_a_source_that_is_gone_stops_the_run_unless_the_pipelines_file_is_another(
    place: Place,
) -> None:
    before = facts(place)["checkpoints"]
    shutil.move(place.root / "landing", place.root / "away")
    stopped = done(place)
    assert stopped.error is not None
    assert (stopped.error.type, stopped.error.retry_can_help) == ("SourceNotFound", True)
    assert facts(place)["checkpoints"] == before
    _nothing_planned(place.root)
    assert because(place).startswith("the pipeline's file, or Tidemark, is another")


def test_a_lease_that_is_held_stops_the_run(place: Place) -> None:
    with hold_lease(place.places.lease, this_process("other", "test"), {}):
        stopped = done(place)
    assert stopped.error is not None
    assert (stopped.error.type, stopped.error.retry_can_help) == ("LeaseHeld", True)
    assert done(place, "third").error is None


def test_the_ledger_gets_lines_that_it_lacks(place: Place) -> None:
    before = sorted_rows(place.table(place.places.ledger), ["run", "scheduled_at", "written_at"])
    shutil.rmtree(place.places.ledger)
    done(place)
    of_the_run = ["run", "scheduled_at", "written_at"]
    assert sorted_rows(place.table(place.places.ledger), of_the_run) == before
