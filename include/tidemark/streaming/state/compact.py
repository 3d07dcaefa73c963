"""Compact the state of one query: new snapshots, and proof that they hold the same.

The life of one, under the pipeline's lease:
1. read the state after the last committed batch, and note a digest;
2. the engine writes a snapshot of that version in each store;
3. list the checkpoint: each store must have its snapshot, and nothing left to replay;
4. read the state again, which now comes from the snapshots: the digests must be equal.
Where 2 to 4 fail, all that was written goes again, and the checkpoint is as it was. Nothing else is
removed here: old files go with housekeeping. Killed anywhere, the deltas or changelogs are still
all there, and a snapshot is there whole or not at all; a repeat writes those that are missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Set
from functools import partial

from pyspark.sql import SparkSession

from tidemark.checkpoint.doctor.findings import CheckpointVerdict, shown
from tidemark.checkpoint.housekeeping.housekeep import carry_out_housekeeping
from tidemark.checkpoint.housekeeping.plan import FileKind, HousekeepingPlan, Share
from tidemark.checkpoint.reading.place import checkpoint_files
from tidemark.checkpoint.reading.read import read_checkpoint
from tidemark.checkpoint.state.check import StateCheck, check_state
from tidemark.checkpoint.state.inventory import inventory
from tidemark.checkpoint.state.plan_compaction import CompactionPlan
from tidemark.checkpoint.state.stores import Partition
from tidemark.errors import LeaseLost, SnapshotFailed, StateDiffers
from tidemark.pipeline.model import StateLimits
from tidemark.runs.results.compaction_result import QueryCompaction, StateSize
from tidemark.storage.file_place import FilePlace
from tidemark.streaming.engine.snapshots import write_snapshots
from tidemark.streaming.state.stored import Digest, StateOf, digest, stored_rows

Write = Callable[..., None]
# By operator.
States = Mapping[int, Digest]
_SHARED = "/SSTs/"


def compact_state(
    spark: SparkSession,
    plan: CompactionPlan,
    checkpoint: FilePlace,
    write: Write = write_snapshots,
) -> QueryCompaction:
    """Carry out a plan of this checkpoint that has stores. Its fence is asked before each snapshot
    and before anything is removed. `write` makes the snapshots.

    Raises SnapshotFailed, StateDiffers, and what `write_snapshots` raises.
    """
    begin = time.monotonic()
    there = checkpoint_files(checkpoint).keys()
    before = _digests(spark, plan)
    try:
        write(spark, checkpoint, plan.conf, plan.version, plan.stores)
        after = _checked(plan, checkpoint)
        _compare(plan, before, _digests(spark, plan))
    except LeaseLost:
        raise
    except Exception:
        _take_back(checkpoint, there)
        raise
    return QueryCompaction(
        batch=plan.batch,
        verdict=str(plan.state.verdict),
        snapshots=len(plan.stores),
        rows=sum(rows for one in before.values() for rows, _ in one.values()),
        before=_size(plan.state),
        after=_size(after),
        seconds=round(time.monotonic() - begin, 3),
    )


def _digests(spark: SparkSession, plan: CompactionPlan) -> States:
    """By operator, those whose stores get a snapshot."""
    read = partial(stored_rows, spark, plan.uri, plan.batch)
    operators = sorted({store.operator for store in plan.stores})
    return {operator: digest(read(StateOf(operator))) for operator in operators}


def _checked(plan: CompactionPlan, checkpoint: FilePlace) -> StateCheck:
    """The state with its snapshots; SnapshotFailed where one is missing or cannot be used.

    The engine's maintenance of a HDFS-backed store passes over what goes wrong.
    """
    state = check_state(inventory(read_checkpoint(checkpoint)), StateLimits())
    whole = {
        one.partition.id
        for store in state.stores
        for one in store.partitions
        if _is_snapshot(one.partition, plan.version)
    }
    if without := [store.folder for store in plan.stores if store not in whole]:
        raise SnapshotFailed(
            f"{plan.uri}: the engine wrote no usable snapshot of version {plan.version} for "
            f"{shown(without)}, and said nothing. What it wrote is removed, and the checkpoint is "
            "as it was. Trying again can help; the driver's log may say why."
        )
    return state


def _is_snapshot(partition: Partition, version: int) -> bool:
    """Is it the snapshot of this version that the next start loads, and nothing else?"""
    snapshot = partition.built.snapshot
    alone = not partition.built.changes and not partition.lost
    return snapshot is not None and snapshot.version == version and alone


def _compare(plan: CompactionPlan, before: States, after: States) -> None:
    differing = [
        f"state/{operator}/{partition}"
        for operator in before
        for partition in sorted(before[operator].keys() | after[operator].keys())
        if before[operator].get(partition) != after[operator].get(partition)
    ]
    if differing:
        raise StateDiffers(
            f"{plan.uri}: read through the new snapshots of {shown(differing)}, the state after "
            f"batch {plan.batch} is not what it was. All new snapshots are removed, and the "
            "checkpoint is as it was. Do not try again with this version of Spark; keep a copy."
        )


def _take_back(checkpoint: FilePlace, there: Set[str]) -> None:
    """Remove what was written below `state` since; snapshots before what they share."""
    files = checkpoint_files(checkpoint)
    new = [name for name in files.keys() - there if name.startswith("state/")]
    going = tuple(sorted(new, key=lambda name: (_SHARED in name, name)))
    size = sum(files[name].size for name in going)
    share = Share(FileKind.STATE, len(going), size, going, size)
    plan = HousekeepingPlan(checkpoint.uri, CheckpointVerdict.CLEAN_END, range(0), (share,))
    carry_out_housekeeping(plan, checkpoint)


def _size(state: StateCheck) -> StateSize:
    return StateSize(
        files=state.held.files,
        bytes=state.held.size,
        changes=state.replayed.files,
        change_bytes=state.replayed.size,
        longest=state.longest,
    )
