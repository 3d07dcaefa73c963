"""A table that Spark writes and others keep, read by whole runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.kit.running import Place, clicks, run_warm, succeed
from tidemark.runs.preflight import NothingNew, run_preflight
from tidemark.sources.lag import source_lag
from tidemark.sources.source import Lag
from tidemark.upkeep.accept_changes import accept_changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def place_of(root: Path, **delta: Any) -> Place:
    common = {name: value for name, value in clicks()["source"].items() if name != "files"}
    columns = {**common["columns"], "day": "date"}
    source = {"delta": {"table": "events", **delta}, **common, "columns": columns}
    return Place(root, clicks(source=source))


def write(spark: SparkSession, place: Place, *keys: str, day: str = "2026-07-01") -> None:
    rows = spark.sql(
        f"select timestamp'{day}T10:00:00Z' as at, key, 1L as amount, date'{day}' as day "
        f"from explode(array({', '.join(repr(key) for key in keys)})) as (key)"
    ).coalesce(1)
    writer = rows.write.format("delta").partitionBy("day").mode("append")
    writer.save(str(place.root / "events"))


def keys(place: Place) -> list[str]:
    found = sorted(place.bronze().to_pylist(), key=lambda one: one["key"])
    gold = {one["key"]: one["events"] for one in place.gold().to_pylist()}
    assert gold == Counter(one["key"] for one in found)
    return [one["key"] for one in found]


def test_appends_are_read_once_whoever_packs_the_table_and_deletes_stop_until_accepted(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = place_of(tmp_path)
    table = str(tmp_path / "events")
    write(spark, place, "a", "b")
    write(spark, place, "c", day="2026-07-02")
    lag = source_lag(place.pipeline, place.settings)
    assert isinstance(lag, Lag)
    assert lag.messages == 3
    succeed(spark, place, "one")
    assert keys(place) == ["a", "b", "c"]
    assert {str(one["day"]) for one in place.bronze().to_pylist()} == {"2026-07-01", "2026-07-02"}
    assert source_lag(place.pipeline, place.settings) == Lag(0, None)

    spark.sql(f"optimize delta.`{table}`")
    write(spark, place, "d")
    assert succeed(spark, place, "two").rows.read == 1
    assert keys(place) == ["a", "b", "c", "d"]

    spark.sql(f"delete from delta.`{table}` where key = 'a'")
    deleted = DeltaTable(table).version()
    write(spark, place, "e")
    before = place.bronze().num_rows
    error = run_warm(spark, place, "stopped").error
    assert error is not None
    assert (error.type, error.retry_can_help) == ("InputLost", False)
    assert f"version {deleted} (DELETE) changed rows that were there" in error.message
    assert "set source.delta.changes to skip" in error.message
    assert place.bronze().num_rows == before

    accept_changes(place.pipeline, place.settings, "accept", "a was a test", "me")
    rows = succeed(spark, place, "three").rows
    assert (rows.read, rows.accepted, rows.rejected) == (2, 1, {"changed rows": 1})
    assert keys(place) == ["a", "b", "c", "d", "e"]
    (reject,) = place.rejects().to_pylist()
    assert (reject["_version"], reject["_file"], reject["_row"]) == (deleted, None, None)
    assert "Accepted by me: a was a test" in reject["detail"]
    assert isinstance(run_preflight(place.run("look")), NothingNew)


@pytest.mark.long
def test_versions_that_change_rows_are_passed_over_where_the_pipeline_says_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = place_of(tmp_path, changes="skip", starting="latest")
    table = str(tmp_path / "events")
    write(spark, place, "before")
    succeed(spark, place, "one")
    assert keys(place) == []
    write(spark, place, "a")
    spark.sql(f"update delta.`{table}` set amount = 5 where key = 'before'")
    write(spark, place, "b")
    spark.sql(f"vacuum delta.`{table}`")
    rows = succeed(spark, place, "two").rows
    assert (rows.accepted, rows.rejected) == (2, {"changed rows": 1})
    assert keys(place) == ["a", "b"]
    assert "(changes: skip)" in place.rejects().to_pylist()[0]["detail"]


def test_a_table_whose_column_spark_has_widened_is_read_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = place_of(tmp_path)
    table = f"delta.`{tmp_path / 'events'}`"
    spark.sql(
        f"create table {table} (at timestamp, key string, amount int, day date) using delta "
        "tblproperties ('delta.enableTypeWidening' = 'true')"
    )
    row = "timestamp'2026-07-01T10:00:00Z', '{}', {}, date'2026-07-01'"
    spark.sql(f"insert into {table} values ({row.format('a', 7)})")
    succeed(spark, place, "one")
    spark.sql(f"alter table {table} change column amount type bigint")
    spark.sql(f"insert into {table} values ({row.format('b', f'{2**40}L')})")
    succeed(spark, place, "two")
    amounts = {one["key"]: one["amount"] for one in place.bronze().to_pylist()}
    assert amounts == {"a": 7, "b": 2**40}
