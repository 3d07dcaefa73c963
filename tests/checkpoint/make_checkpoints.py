"""Make the checkpoints in `data/made` with the version of Spark that is installed.

    python -m tests.checkpoint.make_checkpoints [--work FOLDER] [KIND …]

from the repository's folder runs four times each kind of query that this version knows, and packs
what it left into `data/made/VERSION/KIND.tar.xz`, with the engine's own answers in `KIND.json`: the
last progress, and what the readers `state-metadata` and `statestore` say (Spark 4.0 or later).
Run it once for each version, in an environment with pyspark, pandas and pyarrow (docs:
data/README.md). Nothing that the engine wrote is removed; the folder's path is replaced.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.checkpoint.archives import MADE, land, pack

STATE = "spark.sql.streaming.stateStore."
ROCKSDB = {
    f"{STATE}providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
CHANGELOG = ROCKSDB | {f"{STATE}rocksdb.changelogCheckpointing.enabled": "true"}
FORMAT_2 = CHANGELOG | {f"{STATE}checkpointFormatVersion": "2"}
# With a maintenance ten times a second (see `session`) a run of seconds leaves snapshots.
SNAPSHOTS = {f"{STATE}minDeltasForSnapshot": "2"}
NAMED = {"spark.sql.streaming.offsetLog.formatVersion": "2"}
ROUNDS = 4
SCHEMA = "at timestamp, key string, amount long"
VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])


@dataclass
class Place:
    """Where one checkpoint is made: its own input, checkpoint and Delta table."""

    spark: SparkSession
    folder: Path

    def rows(self) -> DataFrame:
        return self.spark.readStream.schema(SCHEMA).json(str(self.folder / "input"))

    def timed(self) -> DataFrame:
        return self.rows().withWatermark("at", "5 minutes")


@dataclass(frozen=True)
class Kind:
    """A query, its output mode and settings; `since`: the first version that knows it;
    `read_by`: the options with which `statestore` reads it."""

    query: Callable[[Place], DataFrame]
    mode: str = "append"
    conf: dict[str, str] = field(default_factory=dict)
    since: tuple[int, int] = (3, 5)
    read_by: dict[str, str] = field(default_factory=dict)


def aggregate(place: Place) -> DataFrame:
    return (
        place.timed()
        .groupBy(F.window("at", "10 minutes"), "key")
        .agg(F.count("*").alias("rows"), F.sum("amount").alias("amount"))
    )


def total(place: Place) -> DataFrame:
    """An aggregate without keys: one partition, whatever the recorded number."""
    return place.rows().groupBy().count()


def deduplicated(place: Place) -> DataFrame:
    return place.timed().dropDuplicates(["key", "at"])


def deduplicated_within(place: Place) -> DataFrame:
    return place.timed().dropDuplicatesWithinWatermark(["key"])


def joined(place: Place) -> DataFrame:
    right = place.timed().select(F.col("key").alias("other"), F.col("at").alias("then"), "amount")
    near = F.expr("key = other AND then BETWEEN at AND at + interval 5 minutes")
    return place.timed().drop("amount").join(right, near, "inner")


def sessions(place: Place) -> DataFrame:
    return place.timed().groupBy(F.session_window("at", "3 minutes"), "key").count()


def chained(place: Place) -> DataFrame:
    """Two stateful operators in one query."""
    larger = F.window(F.window_time("window"), "20 minutes")
    return aggregate(place).groupBy(larger).agg(F.sum("rows").alias("rows"))


def with_state(place: Place) -> DataFrame:
    def count(key: Any, pages: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        if state.hasTimedOut:
            state.remove()
            return
        seen = (state.get[0] if state.exists else 0) + sum(len(page) for page in pages)
        state.update((seen,))
        state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 600_000)
        yield pd.DataFrame({"key": [key[0]], "rows": [seen]})

    grouped = place.timed().groupBy("key")
    return grouped.applyInPandasWithState(
        count, "key string, rows long", "rows long", "update", "EventTimeTimeout"
    )


def transformed(place: Place) -> DataFrame:
    from pyspark.sql.streaming import StatefulProcessor

    class Counter(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.rows = handle.getValueState("rows", "rows long")

        def handleInputRows(  # noqa: N802 - the engine calls it by this name
            self, key: Any, rows: Iterator[pd.DataFrame], timers: Any
        ) -> Iterator[pd.DataFrame]:
            before = self.rows.get()[0] if self.rows.exists() else 0
            now = before + sum(len(page) for page in rows)
            self.rows.update((now,))
            yield pd.DataFrame({"key": [key[0]], "rows": [now]})

        def close(self) -> None:
            pass

    grouped = place.timed().groupBy("key")
    return grouped.transformWithStateInPandas(Counter(), "key string, rows long", "Update", "None")


def plain(place: Place) -> DataFrame:
    return place.rows().where("amount > 1")


def two_sources(place: Place) -> DataFrame:
    return place.rows().unionByName(place.rows())


def rate(place: Place) -> DataFrame:
    # Its offset counts seconds.
    time.sleep(1.2)
    return place.spark.readStream.format("rate").option("rowsPerSecond", 5).load()


def rate_per_batch(place: Place) -> DataFrame:
    return place.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()


def from_delta(place: Place) -> DataFrame:
    table = place.spark.readStream.format("delta").load(str(place.folder / "table"))
    return table.withWatermark("at", "5 minutes").groupBy(F.window("at", "10 minutes")).count()


LEFT = {"joinSide": "left"}
KINDS: dict[str, Kind] = {
    "files": Kind(plain),
    "two-sources": Kind(two_sources),
    "offsets-by-name": Kind(plain, conf=NAMED, since=(4, 2)),
    "rate": Kind(rate),
    "rate-micro-batch": Kind(rate_per_batch),
    # Delta's jars are those of the platform's own version of Spark.
    "delta": Kind(from_delta, "update", since=(4, 2)),
    "aggregate-hdfs": Kind(aggregate, "update"),
    "aggregate-hdfs-snapshots": Kind(aggregate, "update", SNAPSHOTS),
    "aggregate-rocksdb": Kind(aggregate, "append", ROCKSDB),
    "aggregate-changelog": Kind(aggregate, "update", CHANGELOG | SNAPSHOTS),
    "aggregate-format2": Kind(aggregate, "complete", FORMAT_2, (4, 0)),
    "total-hdfs": Kind(total, "update"),
    "dedup-hdfs": Kind(deduplicated),
    "dedup-within-changelog": Kind(deduplicated_within, "append", CHANGELOG),
    "join-hdfs": Kind(joined, read_by=LEFT),
    "join-rocksdb": Kind(joined, "append", ROCKSDB, read_by=LEFT),
    "join-format2": Kind(joined, "append", FORMAT_2, (4, 0), LEFT),
    "session-changelog": Kind(sessions, "append", CHANGELOG),
    "chained-hdfs": Kind(chained),
    "with-state-hdfs": Kind(with_state, "update"),
    "with-state-rocksdb": Kind(with_state, "update", ROCKSDB),
    "transform-rocksdb": Kind(transformed, "update", ROCKSDB, (4, 0), {"stateVarName": "rows"}),
    "transform-format2": Kind(transformed, "update", FORMAT_2, (4, 0), {"stateVarName": "rows"}),
}


def make(spark: SparkSession, folder: Path, kind: Kind) -> dict[str, Any]:
    """Four runs of one kind, each in a session of its own; the engine's answers after them."""
    session, said = spark, {}
    for number in range(ROUNDS):
        session = spark.newSession()
        for name, value in ({"spark.sql.shuffle.partitions": "2"} | kind.conf).items():
            session.conf.set(name, value)
        landed = land(folder / "input", number)
        if kind.query is from_delta:
            batch = session.read.schema(SCHEMA).json(str(landed))
            batch.write.format("delta").mode("append").save(str(folder / "table"))
        said = _run(kind.query(Place(session, folder)), kind.mode, folder / "checkpoint") or said
    # The readers of 4.0 take the format of the commits from their session.
    return said | _read_back(session, folder / "checkpoint", kind)


def _run(query: DataFrame, mode: str, checkpoint: Path) -> dict[str, Any]:
    """One run to the end of what there is; what its last batch says."""
    writer = query.writeStream.outputMode(mode).format("noop")
    started = (
        writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    )
    started.awaitTermination()
    # A trigger that found nothing has a progress as well, with the number of a batch to come.
    told = [json.loads(one.json()) for one in started._jsq.recentProgress()]
    done = [one for one in told if (checkpoint / "commits" / str(one["batchId"])).exists()]
    if not done:
        return {}
    progress = done[-1]
    return {
        "spark": pyspark.__version__,
        "id": progress["id"],
        "batch": progress["batchId"],
        "watermark": progress.get("eventTime", {}).get("watermark"),
        "operators": [
            {
                "name": one["operatorName"],
                "rows": one["numRowsTotal"],
                "partitions": one["numShufflePartitions"],
                "stores": one["numStateStoreInstances"],
            }
            for one in progress["stateOperators"]
        ],
        "ends": [source["endOffset"] for source in progress["sources"]],
    }


def _read_back(spark: SparkSession, checkpoint: Path, kind: Kind) -> dict[str, Any]:
    """What the readers of state say; nothing before Spark 4.0, which has none."""
    if VERSION < (4, 0) or not (checkpoint / "state").exists():
        return {}
    metadata = spark.read.format("state-metadata").load(str(checkpoint)).collect()
    said: dict[str, Any] = {"state_metadata": [row.asDict() for row in metadata]}
    if kind.conf.items() >= FORMAT_2.items() and VERSION < (4, 1):
        # There `statestore` looks for files without the ids that format 2 gives them.
        return said
    operators = sorted({row["operatorId"] for row in metadata})
    return said | {
        "statestore": {one: _state(spark, checkpoint, one, kind.read_by) for one in operators}
    }


def _state(
    spark: SparkSession, checkpoint: Path, operator: int, options: dict[str, str]
) -> dict[str, Any]:
    """The rows of a store by partition, and its columns."""
    reader = spark.read.format("statestore").option("operatorId", operator).options(**options)
    state = reader.load(str(checkpoint))
    counts = state.groupBy("partition_id").count().collect()
    return {
        "rows": {row["partition_id"]: row["count"] for row in counts},
        **{part: _columns(state, part) for part in ("key", "value") if part in state.columns},
    }


def _columns(state: DataFrame, part: str) -> list[str]:
    kinds = [(one.name, one.dataType.jsonValue()) for one in state.schema[part].dataType.fields]
    return [f"{name}: {kind if isinstance(kind, str) else kind['type']}" for name, kind in kinds]


def session() -> SparkSession:
    """On two cores; with Delta where the version is the platform's own."""
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.log.level", "ERROR")
        .config("spark.ui.showConsoleProgress", "false")
        .config(f"{STATE}maintenanceInterval", "100ms")
    )
    if KINDS["delta"].since == VERSION:
        catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        builder = builder.config(
            "spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension"
        ).config("spark.sql.catalog.spark_catalog", catalog)
    return builder.getOrCreate()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--work", type=Path, help="where the queries run; default: a new folder")
    asked = parser.parse_args(arguments)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    work = (asked.work or Path(tempfile.mkdtemp())).absolute()
    spark = session()
    for name, kind in KINDS.items():
        if (asked.kinds and name not in asked.kinds) or kind.since > VERSION:
            continue
        folder = work / pyspark.__version__ / name
        shutil.rmtree(folder, ignore_errors=True)
        said = make(spark, folder, kind)
        target = MADE / pyspark.__version__ / f"{name}.json"
        pack(folder, target.with_suffix(".tar.xz"))
        target.write_text(json.dumps(said, indent=1, sort_keys=True) + "\n")
        print(f"{name}: batch {said['batch']}", flush=True)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
