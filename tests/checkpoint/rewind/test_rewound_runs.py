"""Queries of Spark's go on after a rewind as if nothing had happened: file source, real sinks."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.checkpoint.make_checkpoints import CHANGELOG, FORMAT_2, KINDS, ROCKSDB, Kind, aggregate
from tests.checkpoint.rewind.queries import Query, done, told
from tests.upkeep.made import UNLOAD

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = 5
WITHOUT = {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false"}
STORES = {
    "hdfs": Kind(aggregate, conf=UNLOAD),
    "rocksdb": Kind(aggregate, conf=ROCKSDB | WITHOUT),
    "changelog": Kind(aggregate, conf=CHANGELOG | UNLOAD),
    "format 2": Kind(aggregate, conf=FORMAT_2),
    "join": KINDS["join-hdfs"],
    "chained": KINDS["chained-hdfs"],
    "dedup": KINDS["dedup-hdfs"],
    "plain": KINDS["files"],
}


def undisturbed(spark: SparkSession, folder: Path, kind: Kind, sink: str, to: int) -> list[str]:
    """The sink's rows after all files and one that came later. Where the checkpoint goes back to
    the last batch with rows, the one that applied its watermark comes before the later file."""
    query = Query(spark, folder / "undisturbed", kind, sink)
    query.land(*range(FILES))
    if to == FILES - 1:
        query.run()
    query.land(FILES)
    query.run()
    return query.table()


def rewound(spark: SparkSession, folder: Path, kind: Kind, sink: str, to: int) -> list[str]:
    """The same where the checkpoint went back after the first files, and a file came meanwhile."""
    query = Query(spark, folder / f"to {to}", kind, sink)
    query.land(*range(FILES))
    query.run()
    assert query.batches()[-1] >= FILES - 1
    before = query.table()
    done("rewind", query.checkpoint, "--to-batch", str(to), "--sink", query.said)
    assert query.batches()[-1] == to
    assert query.table() != before or to >= FILES - 1
    query.land(FILES)
    query.run()
    return query.table()


@pytest.mark.long
def test_a_rewound_query_writes_to_its_delta_table_what_an_undisturbed_one_does(
    spark: SparkSession, tmp_path: Path
) -> None:
    kind = STORES["hdfs"]
    wanted = undisturbed(spark, tmp_path, kind, "delta", 2)
    assert rewound(spark, tmp_path, kind, "delta", 2) == wanted


@pytest.mark.long
@pytest.mark.parametrize("sink", ["delta", "parquet"])
@pytest.mark.parametrize("store", STORES)
def test_so_does_each_store_and_sink_from_a_random_batch(
    spark: SparkSession, tmp_path: Path, store: str, sink: str
) -> None:
    kind = STORES[store]
    to = random.Random(f"{store} {sink}").randrange(FILES)
    wanted = undisturbed(spark, tmp_path, kind, sink, to)
    assert rewound(spark, tmp_path, kind, sink, to) == wanted, to


def test_a_batch_that_only_applied_a_watermark_runs_again_and_late_rows_are_late_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = Query(spark, tmp_path, STORES["changelog"], "parquet")
    for number in range(2):
        query.land(number)
        query.run()
    assert query.batches() == list(range(4))
    before = query.table()
    plan = told("rewind", query.checkpoint, "--to-batch", "0", "--sink", query.said)
    assert "Batch 1 only applied the watermark of batch 0" in plan["notes"][0]
    done("rewind", query.checkpoint, "--to-batch", "0", "--sink", query.said)
    query.run()
    assert query.batches() == list(range(4))
    assert query.table() == before


@pytest.mark.long
def test_two_rewinds_one_after_the_other_and_the_backup_of_the_first(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = Query(spark, tmp_path, STORES["hdfs"], "delta")
    query.land(*range(5))
    query.run()
    before, batches = query.table(), query.batches()
    first = done("rewind", query.checkpoint, "--to-batch", "3", "--sink", query.said)
    query.run()
    assert query.table() == before
    second = tmp_path / "second"
    done("rewind", query.checkpoint, "--to-batch", "1", "--sink", query.said, "--backup", second)
    query.run()
    assert query.table() == before
    done("restore", first["backup"], "--sink", query.said)
    assert query.table() == before
    assert query.batches() == batches
    query.land(5)
    query.run()
    other = Query(spark, tmp_path / "other", STORES["hdfs"], "delta")
    other.land(*range(5))
    other.run()
    other.land(5)
    other.run()
    assert query.table() == other.table()


@pytest.mark.long
def test_without_its_sink_a_rewind_would_lose_rows_in_silence(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Why `--sink` has to be said: so it is for whoever says `other` of a file sink."""
    query = Query(spark, tmp_path, STORES["plain"], "parquet")
    query.land(*range(4))
    query.run()
    done("rewind", query.checkpoint, "--to-batch", "1", "--sink", "other")
    query.land(4)
    query.a_batch = 10
    query.run()
    lost = query.table()
    wanted = Query(spark, tmp_path / "wanted", STORES["plain"], "parquet", a_batch=10)
    wanted.land(*range(5))
    wanted.run()
    assert len(lost) < len(wanted.table())
