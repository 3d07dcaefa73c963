"""The check of state: limits at their edges, damages beside what Spark 4.2 did with them, and a
thousand partitions."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.checkpoint.archives import unpack
from tests.checkpoint.damage_table import answers
from tests.checkpoint.damaged import DATA, edit_offsets, facts_of
from tests.checkpoint.damages import CHANGELOG, DAMAGES, HDFS, ROCKSDB, SNAPSHOTS
from tests.end_to_end.pages import examples_under, page
from tidemark.checkpoint.reading.layout import Section
from tidemark.checkpoint.reading.rebuild import rebuild_after
from tidemark.checkpoint.reading.state_files import StateFile, Store, StoreId
from tidemark.checkpoint.state.check import StateCheck, StateVerdict, check_state
from tidemark.checkpoint.state.inventory import inventory
from tidemark.checkpoint.state.stores import Partition, StateInventory, StoreInventory
from tidemark.pipeline.model import Advanced, StateLimits

Verdict = StateVerdict
DEFAULT = StateLimits()


def partition(number: int, changes: int, size: int = 10, snapshot: int | None = 100) -> Partition:
    """A partition with so many deltas of so many bytes, after a snapshot of so many bytes."""
    begin = 0 if snapshot is None else 1
    files = {
        version: (StateFile(f"{version}.delta", version, None, False, size, False),)
        for version in range(begin + 1, begin + changes + 1)
    }
    if snapshot is not None:
        files[1] = (StateFile("1.snapshot", 1, None, True, snapshot, False),)
    store = Store(StoreId(0, number), files, {})
    built = rebuild_after(store, begin + changes, None)
    nothing = Section()
    return Partition(store.id, store.provider, (), built, nothing, (), nothing, ())


def state(*partitions: Partition) -> StateInventory:
    store = StoreInventory(0, "stateStoreSave", "default", None, partitions, True)
    return StateInventory("/checkpoint", 9, (store,))


def verdict_of(one: Partition, limits: StateLimits = DEFAULT) -> StateVerdict:
    return check_state(state(one), limits).verdict


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        (0, Verdict.HEALTHY),
        (50, Verdict.HEALTHY),
        (51, Verdict.DUE),
        (100, Verdict.DUE),
        (101, Verdict.OVERDUE),
    ],
)
def test_a_chain_is_due_above_the_limit_and_overdue_above_twice_it(
    changes: int, verdict: StateVerdict
) -> None:
    assert verdict_of(partition(0, changes)) is verdict
    assert verdict_of(partition(0, changes, snapshot=None)) is verdict


def test_bytes_count_where_they_are_more_than_the_limit_and_the_snapshot() -> None:
    limits = StateLimits(max_bytes=1_000)
    assert verdict_of(partition(0, 10, 100), limits) is Verdict.HEALTHY
    assert verdict_of(partition(0, 10, 101), limits) is Verdict.DUE
    assert verdict_of(partition(0, 10, 201), limits) is Verdict.OVERDUE
    # A compaction would only write as much as it spares the next start.
    assert verdict_of(partition(0, 10, 201, snapshot=2_010), limits) is Verdict.HEALTHY
    told = check_state(state(partition(0, 10, 201, snapshot=2_009)), limits)
    assert told.verdict is Verdict.DUE
    assert told.reason == "state/0/0: 2,010 bytes to replay, the snapshot has 2,009"


def test_files_count_over_all_partitions_though_each_is_healthy() -> None:
    many = state(*(partition(number, 5) for number in range(10)))
    limits = StateLimits(max_files=50)
    assert check_state(many, limits).verdict is Verdict.HEALTHY
    told = check_state(many, limits.model_copy(update={"max_files": 49}))
    assert told.verdict is Verdict.DUE
    assert told.reason == "50 files in all to replay, limit 49"
    assert {one.verdict for s in told.stores for one in s.partitions} == {Verdict.HEALTHY}


def test_the_worst_partition_decides_and_is_named_with_its_figure() -> None:
    told = check_state(state(partition(0, 3), partition(1, 120), partition(2, 60)), DEFAULT)
    assert told.verdict is Verdict.OVERDUE
    assert told.reason == "state/0/1: 120 deltas or changelogs to replay, limit 50"
    (store,) = told.stores
    assert [one.verdict for one in store.partitions] == [
        Verdict.HEALTHY, Verdict.OVERDUE, Verdict.DUE,
    ]  # fmt: skip
    assert (told.longest, told.replayed, told.snapshots) == (
        120, Section(183, 1_830), Section(3, 300),
    )  # fmt: skip


def test_the_figure_nearest_to_its_limit_is_told_of_healthy_state() -> None:
    told = check_state(state(partition(0, 3), partition(1, 40)), DEFAULT)
    assert (told.verdict, told.reason[:11]) == (Verdict.HEALTHY, "state/0/1: ")
    told = check_state(state(partition(0, 3), partition(1, 40)), StateLimits(max_files=44))
    assert told.reason == "43 files in all to replay, limit 44"


def test_what_cannot_be_loaded_is_worse_than_any_length() -> None:
    lost = replace(partition(1, 3), lost=("state/0/1/2.delta is missing",))
    told = check_state(state(partition(0, 500), lost), DEFAULT)
    assert (told.verdict, told.reason) == (Verdict.LOST, "state/0/1/2.delta is missing")


def check_of(folder: Path, limits: StateLimits = DEFAULT) -> StateCheck:
    return check_state(inventory(facts_of(folder)), limits)


@pytest.mark.parametrize(
    ("base", "longest"), [(HDFS, 8), (SNAPSHOTS, 2), (ROCKSDB, 0), (CHANGELOG, 0)]
)
def test_the_limits_of_a_pipeline_decide_on_a_real_checkpoint(
    base: str, longest: int, tmp_path: Path
) -> None:
    folder = unpack(base, tmp_path)
    told = check_of(folder)
    assert (told.verdict, told.longest) == (Verdict.HEALTHY, longest)
    strict = check_of(folder, StateLimits(max_changes=4))
    assert strict.verdict is (Verdict.DUE if longest == 8 else Verdict.HEALTHY)


def is_of_the_state(name: str) -> bool:
    first = ("delta", "partition", "snapshot", "zip", "sst", "changelog", "schema-cut")
    return name.startswith(first)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in DAMAGES if is_of_the_state(name)])
def test_state_that_the_engine_cannot_load_cannot_be_rebuilt(name: str, tmp_path: Path) -> None:
    damage, recorded = DAMAGES[name], answers()[name]
    folder = unpack(damage.base, tmp_path)
    damage.act(folder)
    told = check_of(folder)
    assert (told.verdict is Verdict.LOST) == (recorded["verdict"] == "damaged")
    if told.verdict is not Verdict.LOST:
        assert (recorded["engine"]["ends"], recorded["engine"]["result"]) == ("goes on", "right")
    if recorded["engine"]["ends"] == "stops":
        assert told.verdict is Verdict.LOST


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("delta-missing", "state/0/0/5.delta is missing"),
        ("delta-empty", "state/0/0/5.delta is empty"),
        ("delta-cut", "state/0/0/5.delta is cut off"),
        ("delta-checksum", "state/0/0/5.delta does not match the checksum beside it"),
        ("zip-missing", "state/0/0/8.zip is missing"),
        ("zip-cut", "state/0/0/8.zip: it holds no RocksDB snapshot"),
        ("zip-empty", "state/0/0/8.zip is empty"),
        ("sst-missing", ".sst is missing, or of another size"),
        ("changelog-missing", "state/0/0/8.changelog is missing"),
        ("changelog-cut", "state/0/0/8.changelog is cut off"),
        ("changelog-empty", "state/0/0/8.changelog is empty"),
    ],
)
def test_the_reason_names_the_file_and_what_is_wrong(
    name: str, reason: str, tmp_path: Path
) -> None:
    damage = DAMAGES[name]
    folder = unpack(damage.base, tmp_path)
    damage.act(folder)
    (store,) = check_of(folder).stores
    whole = [one for one in store.partitions if one.verdict is not Verdict.LOST]
    assert store.worst.verdict is Verdict.LOST
    assert reason in store.worst.reason
    assert [one.partition.id.partition for one in whole] == [1]


def test_a_missing_snapshot_whose_deltas_are_there_makes_the_chain_longer(tmp_path: Path) -> None:
    whole = check_of(unpack(SNAPSHOTS, tmp_path / "whole"))
    folder = unpack(SNAPSHOTS, tmp_path / "damaged")
    DAMAGES["snapshot-missing"].act(folder)
    told = check_of(folder)
    assert told.verdict is Verdict.HEALTHY
    assert whole.longest < told.longest == 8


def test_state_that_is_gone_though_there_is_a_watermark_is_unknown(tmp_path: Path) -> None:
    folder = unpack(HDFS, tmp_path)
    DAMAGES["state-missing"].act(folder)
    assert check_of(folder).verdict is Verdict.UNKNOWN


def test_files_of_another_state_store_are_not_judged(tmp_path: Path) -> None:
    folder = unpack(HDFS, tmp_path)
    edit = {"spark.sql.streaming.stateStore.providerClass": "com.example.OtherProvider"}
    edit_offsets(folder, 7, conf=edit)
    told = check_of(folder)
    assert (told.verdict, told.stores) == (Verdict.UNKNOWN, ())
    assert "com.example.OtherProvider" in told.reason


def test_a_query_without_state_is_healthy() -> None:
    told = check_of(DATA / "files_compacted")
    assert (told.verdict, told.reason) == (Verdict.HEALTHY, "the query keeps no state yet")


def test_the_page_tells_the_default_limits() -> None:
    (text,) = examples_under(page("state.md"), "Limits", "yaml")
    content = YAML(typ="safe").load(text)
    assert Advanced.model_validate(content["advanced"]) == Advanced()


@pytest.mark.slow
def test_a_store_in_many_partitions_is_checked_in_one_pass() -> None:
    many = state(*(partition(number, 99) for number in range(1_000)))
    told = check_state(many, DEFAULT)
    assert (told.verdict, told.replayed.files) == (Verdict.OVERDUE, 99_000)


@pytest.mark.parametrize("base", ["4.0.1/transform-rocksdb", "4.2.0/transform-format2"])
def test_a_lost_partition_of_arbitrary_state_is_damage(tmp_path: Path, base: str) -> None:
    folder = unpack(base, tmp_path)
    assert check_state(inventory(facts_of(folder)), DEFAULT).verdict is not Verdict.LOST
    shutil.rmtree(folder / "state/0/1")
    assert check_state(inventory(facts_of(folder)), DEFAULT).verdict is Verdict.LOST
