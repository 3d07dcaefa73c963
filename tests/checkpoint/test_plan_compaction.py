"""Which state is compacted, and which is refused: on checkpoints of all kinds that Spark made."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.checkpoint.archives import unpack
from tests.checkpoint.damaged import copy_of, edit_offsets, remove
from tidemark.checkpoint.doctor.judge import judge_checkpoint
from tidemark.checkpoint.reading.read import read_checkpoint
from tidemark.checkpoint.state.check import check_state
from tidemark.checkpoint.state.inventory import inventory
from tidemark.checkpoint.state.plan_compaction import CompactionPlan, plan_compaction
from tidemark.pipeline.model import StateLimits
from tidemark.storage.file_place import FilePlace

NOW = datetime(2100, 1, 1, tzinfo=UTC)


def plan_of(checkpoint: Path, every: bool = True, max_changes: int = 50) -> CompactionPlan:
    facts = read_checkpoint(FilePlace(str(checkpoint)))
    check = check_state(inventory(facts), StateLimits(max_changes=max_changes))
    return plan_compaction(facts, judge_checkpoint(facts, NOW), check, every)


@pytest.mark.parametrize(
    "name", ["aggregate-hdfs", "dedup-hdfs", "dedup-within-changelog", "session-changelog"]
)
def test_aggregations_sessions_and_deduplications_get_a_snapshot_in_each_partition(
    name: str, tmp_path: Path
) -> None:
    plan = plan_of(unpack(f"4.2.0/{name}", tmp_path))
    assert plan.refused is None
    assert [store.folder for store in plan.stores] == ["state/0/0", "state/0/1"]
    assert (plan.batch, plan.version) == (7, 8)


def test_only_what_is_due_is_compacted_unless_all_is_asked_for(tmp_path: Path) -> None:
    checkpoint = unpack("4.2.0/aggregate-hdfs", tmp_path)
    assert plan_of(checkpoint, every=False, max_changes=8).stores == ()
    assert len(plan_of(checkpoint, every=False, max_changes=7).stores) == 2


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("4.2.0/join-hdfs", "symmetricHashJoin"),
        ("4.2.0/with-state-hdfs", "applyInPandasWithState"),
        ("4.2.0/aggregate-format2", "checkpointFormatVersion"),
        ("4.0.1/join-hdfs", "symmetricHashJoin"),
        ("3.5.6/aggregate-hdfs", "written by Spark before 4.0"),
    ],
)
def test_what_is_not_known_to_work_is_refused_with_the_setting_that_helps(
    name: str, told: str, tmp_path: Path
) -> None:
    plan = plan_of(unpack(name, tmp_path))
    assert plan.stores == ()
    assert plan.refused is not None
    assert told in plan.refused
    assert "unloadOnCommit" in plan.refused


@pytest.mark.parametrize("name", ["aggregate-rocksdb", "transform-rocksdb", "files"])
def test_where_nothing_is_replayed_there_is_nothing_to_do(name: str, tmp_path: Path) -> None:
    plan = plan_of(unpack(f"4.2.0/{name}", tmp_path))
    assert (plan.stores, plan.refused, plan.state.longest) == ((), None, 0)


def test_a_batch_that_is_not_committed_is_refused(tmp_path: Path) -> None:
    checkpoint = copy_of("aggregate", tmp_path)
    remove(checkpoint / "commits/3")
    plan = plan_of(checkpoint)
    assert plan.stores == ()
    assert "Batch 3 is planned and not committed" in str(plan.refused)


def test_damage_anywhere_in_the_checkpoint_is_refused(tmp_path: Path) -> None:
    checkpoint = copy_of("aggregate", tmp_path)
    remove(checkpoint / "metadata")
    plan = plan_of(checkpoint)
    assert plan.stores == ()
    assert "damaged" in str(plan.refused)


def test_state_that_cannot_be_built_is_refused_though_it_is_not_asked_for(tmp_path: Path) -> None:
    checkpoint = copy_of("aggregate", tmp_path)
    remove(checkpoint / "state/0/1/2.delta")
    plan = plan_of(checkpoint, every=False)
    assert "damaged" in str(plan.refused)


def test_another_state_store_is_refused(tmp_path: Path) -> None:
    checkpoint = copy_of("aggregate", tmp_path)
    edit_offsets(checkpoint, 3, conf={"spark.sql.streaming.stateStore.providerClass": "a.b.Mine"})
    assert "a.b.Mine" in str(plan_of(checkpoint, every=False).refused)
