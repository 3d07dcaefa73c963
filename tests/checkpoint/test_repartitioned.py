"""Checkpoints behind an offline repartition, and in the middle of one: the logs are as the engine
writes them (`tests/end_to_end/test_state_repartition.py` has it write them)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.checkpoint.archives import unpack
from tests.checkpoint.damaged import NOW, diagnosis_of, facts_of, remove, write
from tidemark.checkpoint.doctor.findings import CheckpointVerdict
from tidemark.checkpoint.doctor.judge import judge_checkpoint
from tidemark.checkpoint.housekeeping.housekeep import carry_out_housekeeping, plan_checkpoint
from tidemark.checkpoint.log import Checkpoint
from tidemark.checkpoint.state.check import check_state
from tidemark.checkpoint.state.inventory import inventory
from tidemark.checkpoint.state.plan_repartition import (
    RepartitionPlan,
    batch_before,
    plan_repartition,
)
from tidemark.pipeline.model import StateLimits
from tidemark.storage.file_place import FilePlace

PARTITIONS = "spark.sql.shuffle.partitions"
LAST = 7


def plan_of(checkpoint: Path) -> RepartitionPlan:
    facts = facts_of(checkpoint)
    check = check_state(inventory(facts), StateLimits())
    return plan_repartition(facts, judge_checkpoint(facts, NOW), check)


def planned(tmp_path: Path, partitions: int) -> Path:
    """A query of two partitions whose repartition was planned, and not committed."""
    checkpoint = unpack("4.2.0/aggregate-rocksdb", tmp_path)
    version, metadata, *sources = (checkpoint / f"offsets/{LAST}").read_text().split("\n")
    told = json.loads(metadata)
    told["conf"][PARTITIONS] = str(partitions)
    text = "\n".join([version, json.dumps(told), *sources])
    write(checkpoint / f"offsets/{LAST + 1}", text.encode())
    return checkpoint


def committed(tmp_path: Path, partitions: int) -> Path:
    checkpoint = planned(tmp_path, partitions)
    shutil.copy(checkpoint / f"commits/{LAST}", checkpoint / f"commits/{LAST + 1}")
    newest = checkpoint / f"state/0/0/{LAST + 1}.zip"
    for number in range(partitions):
        folder = checkpoint / f"state/0/{number}"
        if number:
            shared = checkpoint / "state/0/0/SSTs"
            shutil.copytree(shared, folder / "SSTs", dirs_exist_ok=True)
        shutil.copy(newest, folder / f"{LAST + 2}.zip")
    return checkpoint


@pytest.mark.parametrize("partitions", [1, 3])
def test_behind_a_repartition_the_state_is_whole_in_the_partitions_that_the_offsets_tell(
    tmp_path: Path, partitions: int
) -> None:
    checkpoint = committed(tmp_path, partitions)
    found = diagnosis_of(checkpoint)
    assert found.verdict in (CheckpointVerdict.CLEAN_END, CheckpointVerdict.NO_DATA_BATCH)
    assert [one for one in found.findings if "does not follow" in one.known] == []
    (operator,) = facts_of(checkpoint).operators
    assert operator.partitions == tuple(range(partitions))
    assert plan_of(checkpoint) == RepartitionPlan(partitions)
    log = Checkpoint(str(checkpoint))
    assert [log.is_repartition(batch) for batch in (LAST, LAST + 1)] == [False, True]
    assert batch_before(facts_of(checkpoint), partitions) == LAST
    assert batch_before(facts_of(checkpoint), 2) == LAST + 1


@pytest.mark.parametrize("partitions", [1, 3])
def test_in_the_middle_of_one_the_state_of_before_is_whole_and_it_is_said_what_to_repeat(
    tmp_path: Path, partitions: int
) -> None:
    checkpoint = planned(tmp_path, partitions)
    facts = facts_of(checkpoint)
    assert (facts.partitions, facts.repartitioning) == (2, partitions)
    found = diagnosis_of(checkpoint)
    assert found.verdict is CheckpointVerdict.KILLED
    assert f"to bring the state to {partitions} partitions" in found.findings[-1].known
    assert batch_before(facts, partitions) == LAST
    assert "planned and not committed" in str(plan_of(checkpoint).refused)


def test_a_batch_with_other_offsets_or_a_time_of_its_own_is_no_repartition(tmp_path: Path) -> None:
    checkpoint = planned(tmp_path, 3)
    version, metadata, *sources = (checkpoint / f"offsets/{LAST + 1}").read_text().split("\n")
    told = json.loads(metadata)
    told["batchTimestampMs"] += 1
    write(
        checkpoint / f"offsets/{LAST + 1}",
        "\n".join([version, json.dumps(told), *sources]).encode(),
    )
    assert facts_of(checkpoint).repartitioning is None
    assert "the fixed configuration changes" in str(diagnosis_of(checkpoint).findings)


@pytest.mark.parametrize("number", ["0", "x", ""])
def test_a_number_of_partitions_that_is_none_is_not_taken_for_one(
    tmp_path: Path, number: str
) -> None:
    checkpoint = unpack("4.2.0/aggregate-rocksdb", tmp_path)
    for file in (checkpoint / "offsets").glob("[0-9]*"):
        text = file.read_text()
        write(file, text.replace(f'"{PARTITIONS}":"2"', f'"{PARTITIONS}":"{number}"').encode())
    assert facts_of(checkpoint).partitions is None
    assert facts_of(checkpoint).operators[0].partitions == (0, 1)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("aggregate-hdfs", "only RocksDB's state"),
        ("dedup-within-changelog", "only windows, sessions, joins and folds"),
        ("aggregate-format2", "checkpoint format 2"),
        ("aggregate-rocksdb", None),
        ("session-changelog", None),
    ],
)
def test_what_was_not_tried_is_refused_before_a_batch_is_planned(
    tmp_path: Path, name: str, told: str | None
) -> None:
    plan = plan_of(unpack(f"4.2.0/{name}", tmp_path))
    assert plan.partitions == 2
    assert (plan.refused is None) if told is None else (told in str(plan.refused))


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    checkpoint = unpack("4.2.0/aggregate-rocksdb", tmp_path)
    remove(checkpoint / f"state/0/1/{LAST + 1}.zip")
    assert "damaged" in str(plan_of(checkpoint).refused)


def test_partitions_that_are_gone_go_once_no_kept_batch_needs_them(tmp_path: Path) -> None:
    checkpoint = committed(tmp_path, 1)
    former = checkpoint / "state/0/1"
    for log in ("offsets", "commits"):
        shutil.copy(checkpoint / f"{log}/{LAST + 1}", checkpoint / f"{log}/{LAST + 2}")
    shutil.copy(checkpoint / f"state/0/0/{LAST + 2}.zip", checkpoint / f"state/0/0/{LAST + 3}.zip")
    for batches, stay in ((2, True), (1, False)):
        plan = plan_checkpoint(FilePlace(str(checkpoint)), batches, NOW)
        assert plan.refused is None
        carry_out_housekeeping(plan, FilePlace(str(checkpoint)))
        left = [file for file in former.rglob("*") if file.is_file() and file.suffix != ".crc"]
        assert bool([file for file in left if file.suffix in (".zip", ".sst")]) == stay
    assert diagnosis_of(checkpoint).verdict is not CheckpointVerdict.DAMAGED
