"""The engine's settings for state against each other: short runs of one query, in turn.

    python -m bench.state_runs FOLDER --keys KEYS --runs N    # in an empty folder

A run is a query of its own in one warm session: it reads one small file and emits its windows. Then
the engine's stores are stopped, as they are when a process ends, so that the next run has nothing
but the checkpoint. All windows stay open; `KEYS` are in the state from the first run on.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import DataFrame, SparkSession

from bench.contenders import NAME, TABLE, pipeline_content
from bench.warm import warm_session, write_measured
from tidemark.checkpoint.reading.read import read_checkpoint
from tidemark.checkpoint.state.inventory import inventory
from tidemark.operators.kinds import operator_of
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.settings.kept_batches import KEPT_BY_ENGINE
from tidemark.pipeline.settings.state import PROVIDER, provider_class
from tidemark.storage.delta.history import FAILURE
from tidemark.storage.file_place import FilePlace
from tidemark.streaming.operators.kinds import streamed_operator

ROWS = 300
KEPT = 10
# Seconds that a run waits for the engine's thread, which looks five times in them.
_WAIT = 1.0
_STORE = "spark.sql.streaming.stateStore"
MEMORY = {PROVIDER: provider_class("memory")}
ROCKSDB = {PROVIDER: provider_class("rocksdb")}
LOADED = {f"{_STORE}.unloadOnCommit": "false"}
_WAITING = LOADED | {
    f"{_STORE}.maintenanceInterval": f"{_WAIT * 200:.0f}ms",
    f"{_STORE}.maintenanceShutdownTimeout": "10s",
}


@dataclass(frozen=True)
class Variant:
    """What differs from the platform's settings, and how long a run waits at its end."""

    name: str
    conf: Mapping[str, str]
    wait: float = 0


VARIANTS = (
    Variant("memory", MEMORY),
    Variant("memory, kept loaded (the engine's default)", MEMORY | LOADED),
    Variant("memory, kept loaded, a wait for the engine's thread", MEMORY | _WAITING, _WAIT),
    Variant("memory, a snapshot after 5 deltas", MEMORY | {f"{_STORE}.minDeltasForSnapshot": "5"}),
    Variant("memory, a snapshot after 2 deltas", MEMORY | {f"{_STORE}.minDeltasForSnapshot": "2"}),
    Variant("memory, a snapshot after 1 delta", MEMORY | {f"{_STORE}.minDeltasForSnapshot": "1"}),
    Variant(
        "memory, fileChecksum off",
        MEMORY | {"spark.sql.streaming.checkpoint.fileChecksum.enabled": "false"},
    ),
    Variant("memory, 1 partition", MEMORY | {"spark.sql.shuffle.partitions": "1"}),
    Variant("memory, 4 partitions", MEMORY | {"spark.sql.shuffle.partitions": "4"}),
    Variant("rocksdb", ROCKSDB),
    Variant("rocksdb, kept loaded", ROCKSDB | LOADED),
    Variant(
        "rocksdb, no changelog (the engine's default)",
        ROCKSDB | LOADED | {f"{_STORE}.rocksdb.changelogCheckpointing.enabled": "false"},
    ),
    Variant("rocksdb, format 2", ROCKSDB | {f"{_STORE}.checkpointFormatVersion": "2"}),
)


@dataclass
class Measured:
    """One variant, run by run: seconds, the JVM's CPU seconds, the longest chain and the files of
    state that it left; and the bytes after the last one."""

    name: str
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    longest: list[int] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    bytes: int = 0


class Query:
    """The query of one variant, on a checkpoint of its own."""

    def __init__(self, spark: SparkSession, variant: Variant, source: Path, folder: Path) -> None:
        self.variant, self.source = variant, source
        self.checkpoint = folder / variant.name
        self.spark = spark.newSession()
        kept = {KEPT_BY_ENGINE: str(KEPT)}
        for name, value in (kept | dict(variant.conf)).items():
            self.spark.conf.set(name, value)
        self.emitted: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def run(self) -> float:
        """Read what has landed, up to the end of a process; the seconds that it took."""
        pipeline = pipeline_from_mapping(NAME, pipeline_content(self.source))
        begin = time.monotonic()
        rows = self.spark.readStream.schema("at timestamp, key string, amount long")
        events = rows.json(str(self.source)).withColumnRenamed("at", "_event_time")
        events = events.withWatermark("_event_time", "400 days")
        windows = streamed_operator(operator_of(pipeline, TABLE)).plan({"bronze": events})
        writer = windows.drop(FAILURE).writeStream.outputMode("update").trigger(availableNow=True)
        writer = writer.foreachBatch(self._keep)
        writer.option("checkpointLocation", str(self.checkpoint)).start().awaitTermination()
        time.sleep(self.variant.wait)
        stop_stores(self.spark)
        return time.monotonic() - begin

    def _keep(self, batch: DataFrame, number: int) -> None:
        # What a small batch changed; the first one fills the state, and nobody asks for it.
        if number:
            self.emitted |= {(row.window_start, row.key): tuple(row) for row in batch.collect()}
        else:
            batch.write.format("noop").mode("overwrite").save()


def stop_stores(spark: SparkSession) -> None:
    """What the engine does when its process ends: stores are closed, nothing more is written."""
    context: Any = spark.sparkContext
    package = context._jvm.org.apache.spark.sql.execution.streaming.state
    getattr(getattr(package, "StateStore$"), "MODULE$").stop()


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and write the numbers as JSON."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--runs", type=int, required=True)
    given = parser.parse_args(argv)
    pipeline = pipeline_from_mapping(NAME, pipeline_content(given.folder))
    with warm_session(pipeline) as spark:
        measured = measure(spark, given.keys, given.runs, given.folder)
    write_measured(given.folder, measured)


def measure(spark: SparkSession, keys: int, runs: int, folder: Path) -> list[Measured]:
    """Fill the state, then `runs` runs of each variant in turn; all must emit the same."""
    source = folder / "source"
    queries = [Query(spark, one, source, folder / "checkpoints") for one in VARIANTS]
    measured = [Measured(one.name) for one in VARIANTS]
    land(source, 0, keys, keys)
    for query in queries:
        query.run()
    for number in range(1, runs + 1):
        land(source, number, ROWS, keys)
        for query, one in zip(queries, measured, strict=True):
            before = _jvm_cpu()
            one.seconds.append(round(query.run(), 3))
            one.cpu.append(round(_jvm_cpu() - before, 3))
            (store,) = inventory(read_checkpoint(FilePlace(str(query.checkpoint)))).stores
            one.longest.append(store.longest)
            state = [file for file in (query.checkpoint / "state").rglob("*") if file.is_file()]
            one.files.append(len(state))
            one.bytes = sum(file.stat().st_size for file in state)
    for query in queries:
        if query.emitted != queries[0].emitted:
            raise SystemExit(f"{query.variant.name} emitted something else than the first variant.")
    return measured


def land(source: Path, number: int, rows: int, keys: int) -> None:
    """A file with so many rows of one window; their keys are among the first `keys`."""
    source.mkdir(parents=True, exist_ok=True)
    lines = (
        f'{{"at":"2026-07-01T10:05:00Z","key":"key{(number * 7_919 + n) % keys}","amount":{n}}}\n'
        for n in range(rows)
    )
    aside = source / f".{number}.json"
    aside.write_text("".join(lines))
    aside.rename(source / f"{number:04}.json")


def _jvm_cpu() -> float:
    """CPU seconds of the session's JVM so far, by the operating system's account."""
    (jvm,) = [one for one in psutil.Process().children(recursive=True) if one.name() == "java"]
    times = jvm.cpu_times()
    return float(times.user + times.system)


if __name__ == "__main__":
    main()
