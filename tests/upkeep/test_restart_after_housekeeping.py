"""Checkpoints of Spark's, housekept wholly or in part: a restart gives what it gives without, and
the engine reads the state after every kept batch as before."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.checkpoint.make_checkpoints import (
    CHANGELOG,
    FORMAT_2,
    ROCKSDB,
    aggregate,
    joined,
    plain,
)
from tests.upkeep.made import UNLOAD, Made
from tests.upkeep.stores import builds, keep_in_part, keep_only, names, plan_of
from tidemark.checkpoint.housekeeping.plan import FileKind

# A batch each; a sixth file still fits into the hour that the rows are of.
FILES = 5
# With few batches kept, RocksDB has merged some of the files that old snapshots shared.
KEEP = {"files": 3, "hdfs": 3, "join": 3, "rocksdb": 1, "changelog": 3}
WITHOUT_CHANGELOG = dict.fromkeys(CHANGELOG.keys() - ROCKSDB.keys(), "false") | ROCKSDB
KINDS = {
    "files": (plain, "append", {}),
    "hdfs": (aggregate, "update", UNLOAD),
    "join": (joined, "append", UNLOAD),
    "rocksdb": (aggregate, "update", WITHOUT_CHANGELOG),
    "changelog": (aggregate, "update", CHANGELOG | UNLOAD),
}
OLD_SNAPSHOTS = ("hdfs", "rocksdb", "changelog")
# The others run with the long tests.
IN_SHORT = ("files", "hdfs", "changelog")


@dataclass(frozen=True)
class Query:
    """A query that has run, and the checkpoint that its batches left."""

    kind: str
    made: Made

    @property
    def keep(self) -> int:
        return KEEP[self.kind]

    def go_on(self, checkpoint: Path) -> list[Any]:
        """Run once more on a copy of the checkpoint; the rows that come out."""
        query, mode, _ = KINDS[self.kind]
        rows: list[Any] = []

        def collect(batch: DataFrame, number: int) -> None:
            rows.extend((number, *row) for row in batch.collect())

        writer = query(self.made).writeStream.outputMode(mode).foreachBatch(collect)
        started = writer.option("checkpointLocation", str(checkpoint))
        started.trigger(availableNow=True).start().awaitTermination()
        return sorted(rows, key=repr)

    def states(self, checkpoint: Path, keep: int) -> dict[int, list[Any]]:
        """What the engine reads of the state, by kept batch."""
        self.made.spark.streams.active  # noqa: B018 - the reader needs the engine's coordinator
        last = max(int(p.name) for p in (checkpoint / "commits").iterdir() if p.name.isdecimal())
        return {
            batch: sorted(map(repr, self._state(checkpoint, batch)))
            for batch in range(last - keep + 1, last + 1)
        }

    def _state(self, checkpoint: Path, batch: int) -> list[Any]:
        reader = self.made.spark.read.format("statestore").option("batchId", batch)
        if self.kind == "join":
            reader = reader.option("joinSide", "left")
        return reader.load(str(checkpoint)).collect()


def run_some_batches(spark: SparkSession, folder: Path, kind: str, conf: dict[str, str]) -> Query:
    query, mode, _ = KINDS[kind]
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    # The engine's own removal would leave nothing to do here.
    session.conf.set("spark.sql.streaming.minBatchesToRetain", "100")
    for name, value in conf.items():
        session.conf.set(name, value)
    made = Made(session, folder)
    for number in range(FILES):
        made.land(number)
    made.run(query(made), mode)
    return Query(kind, made)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(kind, marks=() if kind in IN_SHORT else pytest.mark.long) for kind in KINDS
    ],
)
def ran(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Query:
    kind = request.param
    query = run_some_batches(spark, tmp_path_factory.mktemp(kind), kind, dict(KINDS[kind][2]))
    # What the next run reads.
    query.made.land(FILES)
    return query


def test_a_query_goes_on_as_if_nothing_had_been_removed(ran: Query, tmp_path: Path) -> None:
    original = ran.made.checkpoint
    copies = {part: copy(original, tmp_path / part) for part in ("untouched", "half", "whole")}
    going = plan_of(original, ran.keep).going_files
    assert going
    keep_in_part(copies["half"], ran.keep, going // 2)
    keep_only(copies["whole"], ran.keep)
    before = builds(original, ran.keep)
    for part in ("half", "whole"):
        assert builds(copies[part], ran.keep) == before
    if ran.kind != "files":
        states = [ran.states(one, ran.keep) for one in copies.values()]
        assert states[0] == states[1] == states[2]
        assert any(states[0].values())
    untouched, half, whole = (ran.go_on(one) for one in copies.values())
    assert untouched == half == whole
    assert untouched


def test_old_versions_of_state_go_where_a_snapshot_allows_it(ran: Query, tmp_path: Path) -> None:
    kept = copy(ran.made.checkpoint, tmp_path / "kept")
    state = {share.kind: share for share in keep_only(kept, ran.keep).shares}[FileKind.STATE]
    assert bool(state.going) == (ran.kind in OLD_SNAPSHOTS), state
    if ran.kind == "rocksdb":
        assert any("/SSTs/" in name for name in state.going), state
    again = plan_of(kept, ran.keep)
    assert again.going_files == 0
    assert again.refused is None


def test_dying_after_any_file_a_repetition_finishes(ran: Query, tmp_path: Path) -> None:
    original = ran.made.checkpoint
    whole = copy(original, tmp_path / "whole")
    keep_only(whole, ran.keep)
    wanted = names(whole)
    before = builds(original, ran.keep)
    going = plan_of(original, ran.keep).going_files
    for removed in range(going + 1):
        part = copy(original, tmp_path / "part")
        keep_in_part(part, ran.keep, removed)
        told = plan_of(part, ran.keep)
        assert told.refused is None, (removed, told.refused)
        assert builds(part, ran.keep) == before, removed
        keep_only(part, ran.keep)
        assert names(part) == wanted, removed
        shutil.rmtree(part)


@pytest.mark.long
def test_state_in_checkpoint_format_2_is_left_with_the_reason(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = run_some_batches(spark, tmp_path, "rocksdb", FORMAT_2 | UNLOAD)
    before = names(query.made.checkpoint)
    plan = keep_only(query.made.checkpoint, 3)
    state = {share.kind: share for share in plan.shares}[FileKind.STATE]
    assert state.going == ()
    assert "checkpoint format 2" in state.reasons[0]
    gone = before - names(query.made.checkpoint)
    assert gone
    assert not any(name.startswith("state/") for name in gone)


def copy(checkpoint: Path, to: Path) -> Path:
    return Path(shutil.copytree(checkpoint, to))
