"""Queries with state that have run some times without a snapshot, as short runs leave them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.checkpoint.make_checkpoints import (
    CHANGELOG,
    Place,
    aggregate,
    deduplicated,
    deduplicated_within,
    sessions,
)
from tests.upkeep.made import Made
from tests.upkeep.stores import names
from tidemark.checkpoint.doctor.judge import judge_checkpoint
from tidemark.checkpoint.reading.read import read_checkpoint
from tidemark.checkpoint.state.check import StateCheck, check_state
from tidemark.checkpoint.state.inventory import inventory
from tidemark.checkpoint.state.plan_compaction import CompactionPlan, plan_compaction
from tidemark.pipeline.model import StateLimits
from tidemark.storage.file_place import FilePlace

# A sixth round still fits into the hour that the rows are of.
RUNS = 4
NOW = datetime(2100, 1, 1, tzinfo=UTC)
PARTITIONS = {"spark.sql.shuffle.partitions": "2"}
QUERIES: dict[str, tuple[Callable[[Place], DataFrame], str]] = {
    "aggregation": (aggregate, "update"),
    "deduplication": (deduplicated, "append"),
    "deduplication within": (deduplicated_within, "append"),
    "sessions": (sessions, "append"),
}
PROVIDERS: dict[str, dict[str, str]] = {"HDFS-backed": {}, "changelog": CHANGELOG}


@dataclass(frozen=True)
class Query:
    """A query of one operator that has run `RUNS` times; further runs work on copies."""

    made: Made
    query: Callable[[Place], DataFrame]
    mode: str

    @property
    def checkpoint(self) -> Path:
        return self.made.checkpoint

    def copy(self, to: Path) -> Path:
        return Path(shutil.copytree(self.checkpoint, to))

    def go_on(self, checkpoint: Path) -> list[Any]:
        """One run on a copy of the checkpoint; the rows that come out, with their batches."""
        rows: list[Any] = []

        def collect(batch: DataFrame, number: int) -> None:
            rows.extend((number, *row) for row in batch.collect())

        writer = self.query(self.made).writeStream.outputMode(self.mode).foreachBatch(collect)
        started = writer.option("checkpointLocation", str(checkpoint))
        started.trigger(availableNow=True).start().awaitTermination()
        return sorted(rows, key=repr)


def ran(
    spark: SparkSession,
    folder: Path,
    query: Callable[[Place], DataFrame] = aggregate,
    mode: str = "update",
    conf: dict[str, str] | None = None,
    runs: int = RUNS,
) -> Query:
    """A query run so often, each time with new rows; one more file waits to be read."""
    session = spark.newSession()
    for name, value in (PARTITIONS | (conf or {})).items():
        session.conf.set(name, value)
    made = Made(session, folder)
    for number in range(runs):
        made.land(number)
        made.run(query(made), mode)
    made.land(runs)
    return Query(made, query, mode)


def check_of(checkpoint: Path) -> StateCheck:
    return check_state(inventory(read_checkpoint(FilePlace(str(checkpoint)))), StateLimits())


def plan_of(checkpoint: Path, every: bool = True) -> CompactionPlan:
    facts = read_checkpoint(FilePlace(str(checkpoint)))
    return plan_compaction(facts, judge_checkpoint(facts, NOW), check_of(checkpoint), every)


def last_batch(checkpoint: Path) -> int:
    return max(int(p.name) for p in (checkpoint / "commits").iterdir() if p.name.isdecimal())


def rewind(checkpoint: Path, to: Path, batch: int) -> Path:
    """A copy, taken back to an older batch: what came after it goes, state included."""
    shutil.copytree(checkpoint, to)
    _remove_after(to, batch)
    return to


def _remove_after(checkpoint: Path, batch: int) -> None:
    for log in ("commits", "offsets"):
        for file in _numbered(checkpoint / log):
            if int(file.name) > batch:
                _remove(file)
    for file in checkpoint.glob("state/*/*/*.*"):
        if file.stem.isdecimal() and int(file.stem) > batch + 1:
            _remove(file)


def _numbered(folder: Path) -> list[Path]:
    return [file for file in folder.iterdir() if file.name.isdecimal()]


def _remove(file: Path) -> None:
    file.unlink()
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def files_of(checkpoint: Path) -> dict[str, bytes]:
    """All that a checkpoint holds, byte by byte."""
    return {name: (checkpoint / name).read_bytes() for name in names(checkpoint)}
