"""Make small checkpoints of many kinds with one version of Spark, for tests to read.

    python tests/checkpoint/make_checkpoints.py FOLDER [KIND …]

runs each kind of query in the Spark that is installed and leaves `FOLDER/VERSION-KIND`, with
`expected.json` beside it: what the engine itself says of it (the last batch, its watermark, and
what `state-metadata` reads). Kinds that the version cannot run are left out and named. Run it once
for each version of Spark, in an environment of its own; the Delta kind needs Delta's jars on the
class path and `--delta`. Of a checkpoint, nothing that the engine wrote is removed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

STATE = "spark.sql.streaming.stateStore."
PROVIDERS = "org.apache.spark.sql.execution.streaming.state"
ROCKSDB = {f"{STATE}providerClass": f"{PROVIDERS}.RocksDBStateStoreProvider"}
CHANGELOG = {f"{STATE}rocksdb.changelogCheckpointing.enabled": "true"}
FORMAT_2 = {f"{STATE}checkpointFormatVersion": "2"}
UNLOAD = {f"{STATE}unloadOnCommit": "true", f"{STATE}minDeltasForSnapshot": "2"}
STORES = {
    "hdfs": {},
    "hdfs-snapshots": UNLOAD,
    "rocksdb": ROCKSDB,
    "rocksdb-changelog": ROCKSDB | CHANGELOG,
    "rocksdb-changelog-snapshots": ROCKSDB | CHANGELOG | UNLOAD,
    "rocksdb-format2": ROCKSDB | CHANGELOG | FORMAT_2,
}
MINUTES = "2026-07-01T10:{:02}:00"
ROUNDS = 4
ROWS = 6


@dataclass
class Made:
    """Where one kind of checkpoint is made: its own input, checkpoint and output."""

    spark: SparkSession
    folder: Path
    conf: dict[str, str] = field(default_factory=dict)

    @property
    def input(self) -> Path:
        return self.folder / "input"

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def land(self, number: int) -> None:
        """Six rows of ten more minutes, whose keys repeat."""
        self.input.mkdir(parents=True, exist_ok=True)
        rows = [
            {"at": MINUTES.format(number * 10 + row), "key": f"k{row % 3}", "amount": row}
            for row in range(ROWS)
        ]
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (self.input / f"{number}.json").write_text(text)

    def rows(self, folder: Path | None = None) -> DataFrame:
        schema = "at timestamp, key string, amount long"
        return self.spark.readStream.schema(schema).json(str(folder or self.input))

    def run(self, query: DataFrame, mode: str) -> Any:
        """One run to the end of what there is; its last progress."""
        writer = query.writeStream.outputMode(mode).format("noop")
        started = (
            writer.option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        started.awaitTermination()
        return started.lastProgress


Query = Callable[[Made], DataFrame]


def aggregate(made: Made) -> DataFrame:
    return (
        made.rows()
        .withWatermark("at", "5 minutes")
        .groupBy(F.window("at", "10 minutes"), "key")
        .agg(F.count("*").alias("rows"), F.sum("amount").alias("amount"))
    )


def total(made: Made) -> DataFrame:
    """An aggregate without keys: one partition, whatever the recorded number."""
    return made.rows().groupBy().count()


def deduplicated(made: Made) -> DataFrame:
    return made.rows().withWatermark("at", "5 minutes").dropDuplicates(["key", "at"])


def deduplicated_within(made: Made) -> DataFrame:
    return made.rows().withWatermark("at", "5 minutes").dropDuplicatesWithinWatermark(["key"])


def joined(made: Made) -> DataFrame:
    left = made.rows().withWatermark("at", "5 minutes")
    other = made.rows().withWatermark("at", "5 minutes")
    right = other.select(F.col("key").alias("other"), F.col("at").alias("then"), "amount")
    near = F.expr("key = other AND then BETWEEN at AND at + interval 5 minutes")
    return left.drop("amount").join(right, near, "inner")


def sessions(made: Made) -> DataFrame:
    return (
        made.rows()
        .withWatermark("at", "5 minutes")
        .groupBy(F.session_window("at", "3 minutes"), "key")
        .count()
    )


def chained(made: Made) -> DataFrame:
    """Two stateful operators in one query."""
    return (
        aggregate(made)
        .groupBy(F.window(F.window_time("window"), "20 minutes"))
        .agg(F.sum("rows").alias("rows"))
    )


def with_state(made: Made) -> DataFrame:
    def count(key: Any, pages: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        if state.hasTimedOut:
            state.remove()
            return
        seen = (state.get[0] if state.exists else 0) + sum(len(page) for page in pages)
        state.update((seen,))
        state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 600_000)
        yield pd.DataFrame({"key": [key[0]], "rows": [seen]})

    grouped = made.rows().withWatermark("at", "5 minutes").groupBy("key")
    return grouped.applyInPandasWithState(
        count, "key string, rows long", "rows long", "update", "EventTimeTimeout"
    )


def transformed(made: Made) -> DataFrame:
    from pyspark.sql.streaming import StatefulProcessor

    class Counter(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.rows = handle.getValueState("rows", "rows long")
            self.last = handle.getMapState("last", "key string", "at timestamp")

        def handleInputRows(  # noqa: N802 - the engine calls it by this name
            self, key: Any, rows: Iterator[pd.DataFrame], timers: Any
        ) -> Iterator[pd.DataFrame]:
            before = self.rows.get()[0] if self.rows.exists() else 0
            now = before + sum(len(page) for page in rows)
            self.rows.update((now,))
            yield pd.DataFrame({"key": [key[0]], "rows": [now]})

        def close(self) -> None:
            pass

    grouped = made.rows().withWatermark("at", "5 minutes").groupBy("key")
    return grouped.transformWithStateInPandas(Counter(), "key string, rows long", "Update", "None")


def plain(made: Made) -> DataFrame:
    return made.rows().where("amount > 1")


def rate(made: Made) -> DataFrame:
    return made.spark.readStream.format("rate").option("rowsPerSecond", 5).load()


def rate_per_batch(made: Made) -> DataFrame:
    return made.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()


def two_sources(made: Made) -> DataFrame:
    return made.rows().unionByName(made.rows(made.folder / "input"))


def delta(made: Made) -> DataFrame:
    return (
        made.spark.readStream.format("delta")
        .load(str(made.folder / "table"))
        .withWatermark("at", "5 minutes")
        .groupBy(F.window("at", "10 minutes"), "key")
        .count()
    )


STATEFUL: dict[str, tuple[Query, str]] = {
    "aggregate": (aggregate, "update"),
    "aggregate-append": (aggregate, "append"),
    "aggregate-complete": (aggregate, "complete"),
    "total": (total, "update"),
    "dedup": (deduplicated, "append"),
    "dedup-within": (deduplicated_within, "append"),
    "join": (joined, "append"),
    "session": (sessions, "append"),
    "chained": (chained, "append"),
    "with-state": (with_state, "update"),
    "transform": (transformed, "update"),
}
STATELESS: dict[str, tuple[Query, str]] = {
    "files": (plain, "append"),
    "two-sources": (two_sources, "append"),
    "rate": (rate, "append"),
    "rate-micro-batch": (rate_per_batch, "append"),
    "delta": (delta, "update"),
}
NAMED = {"spark.sql.streaming.offsetLog.formatVersion": "2"}


def kinds() -> dict[str, tuple[Query, str, dict[str, str]]]:
    """Every kind by its name: the query, its output mode, its configuration."""
    made = {name: (query, mode, {}) for name, (query, mode) in STATELESS.items()}
    made |= {"files-offsets2": (plain, "append", NAMED)}
    return made | {
        f"{name}-{store}": (query, mode, conf)
        for name, (query, mode) in STATEFUL.items()
        for store, conf in STORES.items()
    }


def make(spark: SparkSession, folder: Path, query: Query, mode: str, conf: dict[str, str]) -> None:
    """Four runs of one kind, each in a session of its own; the table of a Delta source grows."""
    progress = None
    for number in range(ROUNDS):
        session = spark.newSession()
        session.conf.set("spark.sql.shuffle.partitions", "2")
        for name, value in conf.items():
            session.conf.set(name, value)
        made = Made(session, folder, conf)
        made.land(number)
        if query is delta:
            rows = session.read.schema("at timestamp, key string, amount long")
            batch = rows.json(str(made.input / f"{number}.json"))
            batch.write.format("delta").mode("append").save(str(folder / "table"))
        progress = made.run(query(made), mode) or progress
    (folder / "expected.json").write_text(
        json.dumps(_expected(spark, folder / "checkpoint", progress), indent=2, default=str)
    )
    shutil.rmtree(folder / "table", ignore_errors=True)


def _expected(spark: SparkSession, checkpoint: Path, progress: Any) -> dict[str, Any]:
    """What the engine says of the checkpoint that it has just written."""
    last = json.loads(progress.json) if progress is not None else {}
    said = {
        "spark": pyspark.__version__,
        "batch": last.get("batchId"),
        "watermark": last.get("eventTime", {}).get("watermark"),
        "operators": [one.get("operatorName") for one in last.get("stateOperators", [])],
    }
    try:
        rows = spark.read.format("state-metadata").load(str(checkpoint)).collect()
    except PySparkException as error:
        return said | {"state_metadata": f"{type(error).__name__}"}
    return said | {"state_metadata": [row.asDict() for row in rows]}


def _session(with_delta: bool) -> SparkSession:
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
    )
    if with_delta:
        catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        builder = builder.config(
            "spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension"
        ).config("spark.sql.catalog.spark_catalog", catalog)
    return builder.getOrCreate()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(kinds()))
    parser.add_argument("--delta", action="store_true", help="also those with a Delta source")
    asked = parser.parse_args(arguments)
    spark = _session(asked.delta)
    failed = []
    for name, (query, mode, conf) in kinds().items():
        if (asked.kinds and name not in asked.kinds) or (query is delta and not asked.delta):
            continue
        folder = asked.folder.absolute() / f"{pyspark.__version__}-{name}"
        shutil.rmtree(folder, ignore_errors=True)
        try:
            make(spark, folder, query, mode, conf)
        except (PySparkException, AttributeError, ImportError) as error:
            # A version that does not know the kind; the others are still to be made.
            shutil.rmtree(folder, ignore_errors=True)
            failed.append(f"{name}: {str(error).splitlines()[0][:120]}")
    spark.stop()
    print("\n".join(["not made:", *failed] if failed else ["all made"]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
