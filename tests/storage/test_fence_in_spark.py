"""A fence as Spark meets it: its transactions of before fail, its streams read on."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from tidemark.storage.delta.fence import fence_tables
from tidemark.storage.delta.place import TablePlace

ONE = pa.table({"n": pa.array([1], pa.int64())})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    place = str(tmp_path / "table")
    write_deltalake(place, ONE)
    return place


def waiting_rows(spark: SparkSession, folder: Path) -> DataFrame:
    """One row, which comes when the file `go` is there; `begun` tells that it is waited for."""
    begun, go = str(folder / "begun"), str(folder / "go")

    # Without type hints, which pyspark takes for those of its pandas functions.
    def wait(n):
        Path(begun).touch()
        end = time.monotonic() + 60
        while not Path(go).exists() and time.monotonic() < end:
            time.sleep(0.02)
        return n

    return spark.range(2, 3, numPartitions=1).select(F.udf(wait, LongType())("id").alias("n"))


def error_of(write: Callable[[], Any], folder: Path, meanwhile: Callable[[], Any]) -> str:
    """What a write says that began before `meanwhile` and commits after it."""
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        while not (folder / "begun").exists():
            assert not writing.done(), writing.exception()
            time.sleep(0.02)
        meanwhile()
        (folder / "go").touch()
        return str(writing.exception() or "")


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_write_of_spark_that_began_before_the_fence_fails(
    spark: SparkSession, uri: str, tmp_path: Path, mode: str
) -> None:
    rows = waiting_rows(spark, tmp_path)
    writer = rows.write.format("delta").mode(mode).option("txnAppId", "q").option("txnVersion", 1)
    said = error_of(lambda: writer.save(uri), tmp_path, lambda: fence_tables([TablePlace(uri)], 7))
    assert "METADATA_CHANGED" in said or "MetadataChanged" in said, said
    table = DeltaTable(uri)
    assert table.version() == 1
    assert table.transaction_version("q") is None
    assert table.to_pyarrow_dataset().to_table().column("n").to_pylist() == [1]
    writer.save(uri)
    assert DeltaTable(uri).transaction_version("q") == 1, "one that begins later is not stopped"


def test_an_append_of_spark_passes_an_unrelated_commit(
    spark: SparkSession, uri: str, tmp_path: Path
) -> None:
    rows = waiting_rows(spark, tmp_path)
    write = rows.write.format("delta").mode("append")
    said = error_of(
        lambda: write.save(uri), tmp_path, lambda: write_deltalake(uri, ONE, mode="append")
    )
    assert said == ""
    assert DeltaTable(uri).version() == 2


def test_a_stream_reads_on_across_a_fence(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    batches: list[list[int]] = []

    def keep(rows: DataFrame, batch: int) -> None:
        batches.append(sorted(row.n for row in rows.collect()))

    def run() -> None:
        query = (
            spark.readStream.format("delta").load(uri)
            .writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()

    run()
    fence_tables([TablePlace(uri)], 7)
    run()
    write_deltalake(uri, pa.table({"n": pa.array([2], pa.int64())}), mode="append")
    fence_tables([TablePlace(uri)], 8)
    run()
    assert [batch for batch in batches if batch] == [[1], [2]]
