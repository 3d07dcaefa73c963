"""Tables that other writers than Spark keep, and what their owners do to them, by whole runs."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, WriterProperties, write_deltalake

from tests.kit.killed import killed
from tests.kit.running import Place, clicks, run_warm, succeed
from tests.sources.contract.test_every_kind import fail_at
from tests.sources.contract.worlds import Topics
from tidemark.errors import SourceRefused
from tidemark.runs.preflight import NothingNew, run_preflight
from tidemark.sources.delta.handle import DeltaSourceHandle
from tidemark.upkeep.accept_changes import accept_changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT = datetime(2026, 7, 1, 10, tzinfo=UTC)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return place_of(tmp_path)


def place_of(root: Path, **delta: Any) -> Place:
    common = {name: value for name, value in clicks()["source"].items() if name != "files"}
    return Place(root, clicks(source={"delta": {"table": "events", **delta}, **common}))


def uri_of(place: Place) -> str:
    return str(place.root / "events")


def rows_of(*keys: str, **more: Any) -> pa.Table:
    columns = {
        "at": pa.array([AT] * len(keys), pa.timestamp("us", "UTC")),
        "key": list(keys),
        "amount": pa.array([1] * len(keys), pa.int64()),
    }
    return pa.table({**columns, **{name: [value] * len(keys) for name, value in more.items()}})


def append(place: Place, *keys: str, **options: Any) -> None:
    write_deltalake(uri_of(place), rows_of(*keys), mode="append", **options)


def keys(place: Place) -> list[str]:
    """Of bronze; gold is what it says."""
    found = [one["key"] for one in place.bronze().to_pylist()]
    assert {one["key"]: one["events"] for one in place.gold().to_pylist()} == Counter(found)
    return sorted(found)


def stopped(spark: SparkSession, place: Place, error: str = "InputLost") -> str:
    before = place.bronze().num_rows
    found = run_warm(spark, place, "stopped").error
    assert found is not None
    assert found.type == error, found
    assert place.bronze().num_rows == before
    return found.message


def accept(place: Place) -> None:
    accept_changes(place.pipeline, place.settings, "accept", "known", "me")


def has_nothing_new(place: Place) -> bool:
    return isinstance(run_preflight(place.run("look")), NothingNew)


def test_a_column_that_the_table_does_not_have_is_told_and_no_null(place: Place) -> None:
    rows = rows_of("a").rename_columns(["at", "Key", "amount"])
    write_deltalake(uri_of(place), rows)
    run = place.run("look")
    with pytest.raises(SourceRefused, match="has no column key; it has at, Key, amount"):
        run.source.check(run.ingest_checkpoint())


@pytest.mark.long
def test_what_was_packed_vacuumed_and_cleaned_from_the_log_was_read_once(
    spark: SparkSession, place: Place
) -> None:
    for key in "abc":
        append(place, key)
    succeed(spark, place, "one")
    for key in "def":
        append(place, key)
    table = DeltaTable(uri_of(place))
    table.optimize.compact()
    append(place, "g")
    assert succeed(spark, place, "two").rows.read == 4
    table = DeltaTable(uri_of(place))
    table.create_checkpoint()
    table.vacuum(0, enforce_retention_duration=False, dry_run=False)
    for number in range(7):
        (place.root / "events" / "_delta_log" / f"{number:020}.json").unlink()
    # VACUUM's own commits are versions too, without a row.
    assert succeed(spark, place, "three").rows.read == 0
    assert has_nothing_new(place)
    append(place, "h")
    assert succeed(spark, place, "three").rows.read == 1
    assert keys(place) == list("abcdefgh")


@pytest.mark.long
def test_files_that_vacuum_took_before_they_were_read_are_told_and_accepted(
    spark: SparkSession, place: Place
) -> None:
    append(place, "a")
    succeed(spark, place, "one")
    for key in "bc":
        append(place, key)
    table = DeltaTable(uri_of(place))
    table.optimize.compact()
    table.vacuum(0, enforce_retention_duration=False, dry_run=False)
    append(place, "d")
    # What was packed has their rows; but that it has them alone, nobody says.
    assert "(VACUUM?)" in stopped(spark, place)
    accept(place)
    rows = succeed(spark, place, "two").rows
    assert rows.rejected == {"gone": 3} or rows.rejected == {"gone": 2}
    assert keys(place) == ["a", "d"]
    assert has_nothing_new(place)


@pytest.mark.long
def test_a_version_that_leaves_the_log_between_planning_and_reading_stops_the_run(
    spark: SparkSession, place: Place
) -> None:
    append(place, "a")
    succeed(spark, place, "one")
    append(place, "b")
    append(place, "c")
    DeltaTable(uri_of(place)).create_checkpoint()
    log = place.root / "events" / "_delta_log" / f"{1:020}.json"
    for step in ("reading", "slices"):
        original = getattr(DeltaSourceHandle, step)

        def cleaned(*given: Any, original: Any = original) -> Any:
            log.rename(log.with_suffix(".kept"))
            return original(*given)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DeltaSourceHandle, step, cleaned)
            message = stopped(spark, place, "DataDamaged")
        assert "Version 1 of" in message
        assert "was in its log when the batch was planned" in message
        assert "versions 1 to 1 are not in the log any more" in stopped(spark, place)
        log.with_suffix(".kept").rename(log)
    succeed(spark, place, "two")
    assert keys(place) == ["a", "b", "c"]


@pytest.mark.long
def test_what_a_restore_brings_back_is_told_and_not_read_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = place_of(tmp_path, changes="skip")
    append(place, "a", "b")
    append(place, "c")
    succeed(spark, place, "one")
    DeltaTable(uri_of(place)).delete()
    DeltaTable(uri_of(place)).restore(1)
    append(place, "d")
    rows = succeed(spark, place, "two").rows
    assert (rows.accepted, rows.rejected) == (1, {"changed rows": 2})
    assert keys(place) == ["a", "b", "c", "d"]
    assert has_nothing_new(place)


@pytest.mark.long
def test_a_table_that_was_replaced_is_told_and_the_other_read_from_its_beginning(
    spark: SparkSession, place: Place
) -> None:
    append(place, "a")
    succeed(spark, place, "one")
    append(place, "b")
    shutil.rmtree(uri_of(place))
    append(place, "x")
    append(place, "y")
    assert "was replaced by another one" in stopped(spark, place)
    accept(place)
    rows = succeed(spark, place, "two").rows
    assert (rows.accepted, rows.rejected) == (2, {"replaced": 1})
    assert keys(place) == ["a", "x", "y"]
    assert has_nothing_new(place)


@pytest.mark.long
def test_a_table_that_spark_replaces_in_its_own_log_is_not_read_a_second_time(
    spark: SparkSession, place: Place
) -> None:
    table = f"delta.`{uri_of(place)}`"
    row = "select timestamp'2026-07-01T10:00:00Z' as at, '{}' as key, 1L as amount"
    # Without a query the engine leaves a table of the same columns as it is.
    for replace, key in (("create", "a"), ("create or replace", "b")):
        spark.sql(f"{replace} table {table} using delta as {row.format(key)}")
        if key == "a":
            succeed(spark, place, "one")
    stopped(spark, place)
    accept(place)
    for _ in range(3):
        if run_warm(spark, place, "two").error is None:
            break
        accept(place)
    assert keys(place) == ["a", "b"]
    assert has_nothing_new(place)


@pytest.mark.long
def test_of_a_changed_schema_new_fields_are_kept_and_lost_ones_are_told(
    spark: SparkSession, place: Place
) -> None:
    append(place, "a")
    succeed(spark, place, "one")
    more = rows_of("b", colour="red")
    write_deltalake(uri_of(place), more, mode="append", schema_mode="merge")
    append(place, "c", schema_mode="merge")
    succeed(spark, place, "two")
    extra = {one["key"]: one["_extra"] for one in place.bronze().to_pylist()}
    assert extra["a"] is None
    assert extra["b"] == '{"colour":"red"}' or extra["b"] == '{"colour": "red"}'
    spark.sql(
        f"alter table delta.`{uri_of(place)}` set tblproperties('delta.columnMapping.mode'='name')"
    )
    spark.sql(f"alter table delta.`{uri_of(place)}` rename column amount to total")
    append_by_spark(spark, place, "d")
    assert "columns mapped by name" in stopped(spark, place, "SourceRefused")
    assert keys(place) == ["a", "b", "c"]


def append_by_spark(spark: SparkSession, place: Place, key: str) -> None:
    spark.sql(
        f"insert into delta.`{uri_of(place)}` (at, key) "
        f"values (timestamp'2026-07-01T10:00:00Z', '{key}')"
    )


@pytest.mark.long
def test_deletion_vectors_on_what_was_read_stop_and_packing_them_away_is_no_new_row(
    spark: SparkSession, place: Place
) -> None:
    append(place, "a", "b", "c")
    table = f"delta.`{uri_of(place)}`"
    spark.sql(f"alter table {table} set tblproperties('delta.enableDeletionVectors'='true')")
    succeed(spark, place, "one")
    spark.sql(f"delete from {table} where key = 'b'")
    append_by_spark(spark, place, "d")
    spark.sql(f"reorg table {table} apply (purge)")
    assert "(DELETE) changed rows that were there" in stopped(spark, place)
    accept(place)
    rows = succeed(spark, place, "two").rows
    assert (rows.accepted, rows.rejected) == (1, {"changed rows": 1})
    assert keys(place) == ["a", "b", "c", "d"]
    assert has_nothing_new(place)


@pytest.mark.long
def test_rows_keep_their_place_in_a_file_of_several_row_groups_when_a_batch_is_repeated(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Of equal rows the first counts, whichever try reads them."""
    place = place_of(tmp_path)
    source = {**place.content["source"], "unique": {"by": "key", "within": "1 hour"}}
    place.content = {**place.content, "source": source}
    small = WriterProperties(max_row_group_size=7)
    append(place, *(f"k{number % 30}" for number in range(60)), writer_properties=small)
    world = Topics(tmp_path)
    world.place = place
    fail_at(spark, world, ("accepted rows", "after"))
    succeed(spark, place, "again")
    assert sorted(one["_row"] for one in place.bronze().to_pylist()) == list(range(30))
    rejects = {one["_row"]: one["repeats"]["row"] for one in place.rejects().to_pylist()}
    assert rejects == {number: number - 30 for number in range(30, 60)}


@pytest.mark.long
def test_a_writer_that_goes_on_during_runs_has_each_of_its_rows_read_once(
    spark: SparkSession, place: Place
) -> None:
    append(place, "k0")
    stop, written = threading.Event(), ["k0"]

    def write() -> None:
        while not stop.is_set():
            written.append(f"k{len(written)}")
            append(place, written[-1])
            if len(written) % 7 == 0:
                DeltaTable(uri_of(place)).optimize.compact()
            stop.wait(0.1)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(3):
            succeed(spark, place, f"{number}")
    finally:
        stop.set()
        writer.join()
    succeed(spark, place, "last")
    assert keys(place) == sorted(written)
    assert has_nothing_new(place)


@pytest.mark.long
def test_latest_is_the_version_at_which_the_first_run_began(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = place_of(tmp_path, starting="latest")
    append(place, "a")
    with killed("after", "source noted"):
        assert run_warm(spark, place, "killed").error is not None
    append(place, "b")
    succeed(spark, place, "one")
    assert keys(place) == ["b"]
    assert has_nothing_new(place)


@pytest.mark.long
@pytest.mark.parametrize("writer", ["polars", "duckdb"])
def test_tables_of_other_engines_are_read(spark: SparkSession, place: Place, writer: str) -> None:
    write_by(writer, uri_of(place), ["a", "b"])
    succeed(spark, place, "one")
    write_by(writer, uri_of(place), ["c"])
    succeed(spark, place, "two")
    assert keys(place) == ["a", "b", "c"]


def write_by(writer: str, uri: str, given: Sequence[str]) -> None:
    rows = rows_of(*given)
    if writer == "polars":
        polars = pytest.importorskip("polars")
        polars.from_arrow(rows).write_delta(uri, mode="append")
    else:
        # DuckDB's rows, written by delta-rs: its own extension only reads.
        import duckdb

        with duckdb.connect() as connection:
            connection.register("rows", rows)
            found = connection.sql("SELECT * FROM rows").to_arrow_table()
            write_deltalake(uri, found, mode="append")
