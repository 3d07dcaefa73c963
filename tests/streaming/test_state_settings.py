"""State in runs of seconds: counts of files and of changes to replay, for each store.

A run is a query of its own in the shared session; the engine's stores are stopped after it, as
they are when a process ends, so that the next run has nothing but the checkpoint.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from tests.kit.running import clicks
from tidemark.checkpoint.reading.read import read_checkpoint
from tidemark.checkpoint.state.inventory import inventory
from tidemark.checkpoint.state.stores import StoreInventory
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.settings.kept_batches import KEPT_BY_ENGINE
from tidemark.pipeline.settings.state import PROVIDER, STATE_DEFAULTS, StateStore, provider_class
from tidemark.storage.file_place import FilePlace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEPT = 4
# The engine's `minDeltasForSnapshot`: a snapshot is written by the batch that comes after so many.
LONGEST = 11
SCHEMA = "at timestamp, key string, amount long"
STORES: tuple[StateStore, ...] = ("memory", "rocksdb")
Value = tuple[Any, ...]


def as_it_is(windows: DataFrame) -> DataFrame:
    return windows


@dataclass
class Query:
    """A table's query on a checkpoint of its own; each run brings rows of one more window."""

    spark: SparkSession
    root: Path
    store: StateStore
    runs: int = 0
    emitted: dict[tuple[Any, Any], Value] = field(default_factory=dict)

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @property
    def state(self) -> StoreInventory:
        (store,) = inventory(read_checkpoint(FilePlace(str(self.checkpoint)))).stores
        return store

    def held(self, *endings: str) -> int:
        """Files so named of the partition that has most of them."""
        folders = (self.checkpoint / "state" / "0").glob("[0-9]*")
        return max(sum(file.suffix in endings for file in one.iterdir()) for one in folders)

    def land(self) -> None:
        """Rows of the window before, which is still open, and of the next."""
        self.runs += 1
        for window in (self.runs - 1, self.runs):
            at = f"2026-07-01T{10 + window // 6:02}:{window % 6}5:00Z"
            lines = (f'{{"at": "{at}", "key": "key{i % 20}", "amount": {i}}}\n' for i in range(40))
            file = self.root / "in" / f"{self.runs:03}-{window}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("".join(lines))

    def run(self, seen: Callable[[DataFrame], DataFrame] = as_it_is, **conf: str) -> None:
        """Read what has landed, as a process of its own would; `seen` changes what is emitted."""
        from tidemark.operators.windows.windows import Windows
        from tidemark.streaming.operators.windows import StreamedWindows

        table = pipeline_from_mapping("clicks", clicks()).tables["per_10m"]
        asked = {PROVIDER: provider_class(self.store), KEPT_BY_ENGINE: str(KEPT)} | conf
        with settings(self.spark, asked):
            rows = self.spark.readStream.schema(SCHEMA).json(str(self.root / "in"))
            rows = rows.withColumnRenamed("at", "_event_time")
            rows = rows.withWatermark("_event_time", "10 minutes")
            windows = StreamedWindows(Windows("at", table)).plan({"bronze": rows})
            writer = windows.writeStream.outputMode("update").trigger(availableNow=True)
            writer = writer.foreachBatch(lambda batch, _: self._keep(seen(batch).collect()))
            try:
                writer.option("checkpointLocation", str(self.checkpoint)).start().awaitTermination()
            finally:
                stop_stores(self.spark)

    def _keep(self, rows: list[Any]) -> None:
        self.emitted |= {(row.window_start, row.key): tuple(row) for row in rows}

    def expected(self) -> dict[tuple[Any, Any], Value]:
        """What one batch over all that has landed gives."""
        from tidemark.operators.windows.windows import Windows
        from tidemark.streaming.operators.windows import StreamedWindows

        table = pipeline_from_mapping("clicks", clicks()).tables["per_10m"]
        rows = self.spark.read.schema(SCHEMA).json(str(self.root / "in"))
        rows = rows.withColumnRenamed("at", "_event_time")
        windows = StreamedWindows(Windows("at", table)).plan({"bronze": rows}).collect()
        return {(row.window_start, row.key): tuple(row) for row in windows}


@contextmanager
def settings(spark: SparkSession, conf: dict[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in conf}
    for name, value in conf.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)


def stop_stores(spark: SparkSession) -> None:
    """What the engine does when its process ends: stores are closed, nothing more is written."""
    package: Any = spark.sparkContext._jvm.org.apache.spark.sql.execution.streaming.state
    getattr(getattr(package, "StateStore$"), "MODULE$").stop()


def local_folders(spark: SparkSession) -> list[Path]:
    """RocksDB's working folders on this machine."""
    context: Any = spark.sparkContext
    local = context._jvm.org.apache.spark.util.Utils.getLocalDir(context._jsc.sc().conf())
    return list(Path(local).glob("StateStore*"))


@pytest.mark.long
@pytest.mark.parametrize("store", ["memory", pytest.param("rocksdb", marks=pytest.mark.long)])
def test_neither_files_nor_what_a_start_replays_grow_with_the_number_of_runs(
    spark: SparkSession, tmp_path: Path, store: StateStore
) -> None:
    query, others = Query(spark, tmp_path, store), local_folders(spark)
    chains, changes, snapshots = [], [], []
    for _ in range(15):
        query.land()
        query.run()
        chains.append(query.state.longest)
        changes.append(query.held(".delta", ".changelog"))
        snapshots.append(query.held(".snapshot", ".zip"))
    # Each run has a batch with rows and one without.
    version = 2 * query.runs
    assert max(chains) <= LONGEST
    # Old ones go with the snapshot that they belong to.
    assert max(changes) <= KEPT + 2 * LONGEST + 2 < version
    assert max(snapshots) <= 3
    for partition in query.state.partitions:
        assert set(range(version - KEPT + 1, version + 1)) <= {
            built for some in partition.versions for built in some
        }
    assert query.emitted == query.expected()
    assert set(local_folders(spark)) <= set(others), "nothing is left"


# RocksDB without changelog writes a whole snapshot for each batch.
@pytest.mark.parametrize(
    ("store", "runs", "chains"), [("memory", 6, (12, 1)), ("rocksdb", 2, (0, 2))]
)
def test_a_checkpoint_of_the_engines_defaults_gets_its_snapshot_with_the_next_run(
    spark: SparkSession, tmp_path: Path, store: StateStore, runs: int, chains: tuple[int, int]
) -> None:
    query = Query(spark, tmp_path, store)
    defaults = dict.fromkeys(STATE_DEFAULTS, "false")
    for _ in range(runs):
        query.land()
        query.run(**defaults)
    before = query.state.longest
    query.land()
    query.run()
    assert (before, query.state.longest) == chains
    assert query.emitted == query.expected()


@pytest.mark.long
def test_a_local_folder_of_rocksdb_may_be_lost_in_a_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    query = Query(spark, tmp_path, "rocksdb")
    query.land()
    query.run()
    query.land()
    # A changelog is written without it: the batch is committed.
    with Losing(spark) as lost:
        query.run(lambda windows: windows.where(SLOW))
    assert len(lost.folders) >= 2
    assert query.emitted == query.expected()
    query.land()
    # A snapshot may not be: then the run fails, and the next one loads the last commit.
    with Losing(spark) as lost, suppress(StreamingQueryException):
        query.run(lambda windows: windows.where(SLOW), **EACH_VERSION)
    assert len(lost.folders) >= 2
    query.land()
    query.run()
    assert query.emitted == query.expected()


EACH_VERSION = {"spark.sql.streaming.stateStore.minDeltasForSnapshot": "0"}
# 50 milliseconds for each row that a task emits, before it commits its state.
SLOW = "reflect('java.lang.Thread', 'sleep', 50L) IS NOT NULL"


class Losing:
    """Removes each local folder of RocksDB as soon as it is there."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self._end = spark, threading.Event()
        self._thread = threading.Thread(target=self._lose)
        self.folders: set[Path] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _lose(self) -> None:
        while not self._end.is_set():
            for folder in local_folders(self._spark):
                time.sleep(0.3)  # so that it is in use
                shutil.rmtree(folder, ignore_errors=True)
                self.folders.add(folder)
            time.sleep(0.01)
