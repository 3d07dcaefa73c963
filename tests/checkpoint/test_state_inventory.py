"""The inventory of state: what the engine said of real checkpoints of Spark 3.5, 4.0 and 4.2, and
what the rule of `plan_rebuild` says of each version."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest

from tests.checkpoint.archives import answers, names, unpack
from tests.checkpoint.damaged import DATA, copy_of, facts_of, remove
from tests.checkpoint.damages import DAMAGES
from tidemark.checkpoint.reading.facts import CheckpointFacts
from tidemark.checkpoint.reading.layout import Section
from tidemark.checkpoint.reading.read import Limits
from tidemark.checkpoint.reading.rebuild import plan_rebuild, versions_that_build
from tidemark.checkpoint.reading.state_files import Provider
from tidemark.checkpoint.state.inventory import inventory
from tidemark.checkpoint.state.stores import StateInventory, StoreInventory

STATEFUL = [name for name in names() if answers(name)["operators"]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("made")
    return {name: unpack(name, folder / name.replace("/", "-")) for name in STATEFUL}


@pytest.fixture
def read(made: dict[str, Path], name: str) -> StateInventory:
    return inventory(facts_of(made[name]))


def of(name: str, folder: Path) -> StoreInventory:
    """The only store of a checkpoint that is unpacked, or copied from DATA."""
    place = unpack(name, folder) if "/" in name else copy_of(name, folder)
    (store,) = inventory(facts_of(place)).stores
    return store


@pytest.mark.slow
@pytest.mark.parametrize("name", STATEFUL)
def test_every_store_of_every_operator_is_there_in_each_partition(
    read: StateInventory, name: str
) -> None:
    said = answers(name)["operators"]
    found: dict[int, int] = {}
    for store in read.stores:
        found[store.operator] = found.get(store.operator, 0) + len(store.partitions)
    assert sorted(found.values()) == sorted(one["stores"] for one in said)
    assert read.version == answers(name)["batch"] + 1
    assert not read.damage
    assert not any(p.lost or p.empty for store in read.stores for p in store.partitions)


@pytest.mark.parametrize("name", [n for n in STATEFUL if "state_metadata" in answers(n)])
def test_stores_have_the_names_that_the_reader_of_state_metadata_gives(
    read: StateInventory, name: str
) -> None:
    said = {
        (row["operatorId"], row["operatorName"], row["stateStoreName"])
        for row in answers(name)["state_metadata"]
    }
    assert {(one.operator, one.operator_name, one.store) for one in read.stores} == said


@pytest.mark.parametrize("name", [n for n in STATEFUL if "statestore" in answers(n)])
def test_a_store_has_the_columns_that_its_reader_gives(read: StateInventory, name: str) -> None:
    for operator, said in answers(name)["statestore"].items():
        schemas = [one.schema for one in read.stores if one.operator == int(operator)]
        assert all(schemas)
        if "transform" not in name and "join" not in name:
            assert [(list(one.key), list(one.value)) for one in schemas if one] == [
                (said["key"], said["value"])
            ]


@pytest.mark.slow
@pytest.mark.parametrize("name", STATEFUL)
def test_the_bytes_are_those_of_the_files_on_the_disk(
    read: StateInventory, made: dict[str, Path], name: str
) -> None:
    for store in read.stores:
        for partition in store.partitions:
            folder = made[name] / partition.id.folder
            inside = [folder.glob("*"), folder.glob("SSTs/*"), folder.glob("logs/*")]
            files = [
                path
                for found in inside
                for path in found
                if path.is_file() and path.suffix != ".crc"
            ]
            size = sum(path.stat().st_size for path in files)
            assert partition.held == Section(len(files), size)


@pytest.mark.slow
@pytest.mark.parametrize("name", STATEFUL)
def test_the_newest_version_builds_from_what_the_next_start_reads(
    read: StateInventory, name: str
) -> None:
    for store in read.stores:
        for partition in store.partitions:
            assert partition.versions[-1].stop - 1 == read.version
            snapshot = partition.built.snapshot
            base = snapshot.version if snapshot else 0
            assert partition.replayed.files == read.version - base


def test_deltas_without_a_snapshot_are_all_replayed(tmp_path: Path) -> None:
    store = of("4.2.0/aggregate-hdfs", tmp_path)
    assert (store.provider, store.longest) == (Provider.HDFS_BACKED, 8)
    assert (store.snapshots.files, store.replayed.files) == (0, 16)
    assert [one.versions for one in store.partitions] == [(range(1, 9),)] * 2


def test_of_a_rocksdb_snapshot_only_what_it_shares_itself_is_read(tmp_path: Path) -> None:
    folder = unpack("4.2.0/aggregate-rocksdb", tmp_path)
    for number in (0, 1):
        (folder / f"state/0/{number}/SSTs/of-an-older-snapshot.sst").write_bytes(b"older")
    (store,) = inventory(facts_of(folder)).stores
    assert (store.provider, store.longest) == (Provider.ROCKSDB, 0)
    for partition in store.partitions:
        place = folder / partition.id.folder / "8.zip"
        with zipfile.ZipFile(place) as snapshot:
            metadata = json.loads(snapshot.read("metadata").split(b"\n", 1)[1])
        sizes = [file["sizeBytes"] for file in metadata["sstFiles"]]
        sizes += [file["sizeBytes"] for file in metadata.get("logFiles") or ()]
        assert partition.shared == Section(len(sizes), sum(sizes))
        assert partition.snapshot.size == place.stat().st_size + sum(sizes)


def test_of_a_snapshot_that_was_not_opened_all_that_is_shared_counts(tmp_path: Path) -> None:
    folder = unpack("4.2.0/aggregate-rocksdb", tmp_path)
    (folder / "state/0/1/SSTs/of-an-older-snapshot.sst").write_bytes(b"older")
    (store,) = inventory(facts_of(folder, Limits(state_files=1))).stores
    assert not store.opened
    # Five of each are the snapshot's own.
    assert [partition.shared.files for partition in store.partitions] == [5, 6]


def test_format_2_and_changelogs_are_told_by_the_file_of_the_last_commit(tmp_path: Path) -> None:
    store = of("4.2.0/aggregate-format2", tmp_path)
    assert store.provider is Provider.ROCKSDB_CHANGELOG
    assert all(one.built.changes[-1].unique_id for one in store.partitions)
    assert store.longest == 4


def test_a_partition_whose_folder_is_gone_is_one_that_is_lost(tmp_path: Path) -> None:
    folder = unpack("4.2.0/join-hdfs", tmp_path)
    shutil.rmtree(folder / "state/0/1")
    read = inventory(facts_of(folder))
    assert [len(store.partitions) for store in read.stores] == [2, 2, 2, 2]
    for store in read.stores:
        there, gone = store.partitions
        assert (there.lost, gone.lost) == ((), (f"state/0/1/{store.store} is missing",))


def test_skew_is_the_largest_partition_over_the_average(tmp_path: Path) -> None:
    folder = copy_of("aggregate", tmp_path)
    for number in range(1, 5):
        path = folder / f"state/0/0/{number}.delta"
        remove(path)
        path.write_bytes(b"x" * 300)
        path = folder / f"state/0/1/{number}.delta"
        remove(path)
        path.write_bytes(b"x" * 100)
    (store,) = inventory(facts_of(folder)).stores
    assert store.skew == 1.5


def test_a_query_without_state_has_no_store() -> None:
    read = inventory(facts_of(DATA / "files_compacted"))
    assert (read.stores, read.damage, read.unknown) == ((), (), ())


def builds_as_its_rule_says(facts: CheckpointFacts) -> int:
    """Compare the quick way over all versions with the rule for one; how many were compared."""
    compared = 0
    for operator in facts.operators:
        for store in operator.stores:
            quick = {v for found in versions_that_build(store) for v in found}
            every = range(1, store.newest + 2)
            assert quick == {v for v in every if plan_rebuild(store, v).possible}
            compared += len(every)
    return compared


@pytest.mark.slow
@pytest.mark.parametrize("name", STATEFUL)
def test_the_versions_that_build_are_those_of_the_rule_for_one(
    made: dict[str, Path], name: str
) -> None:
    assert builds_as_its_rule_says(facts_of(made[name])) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [n for n in DAMAGES if n.startswith(("delta", "snapshot", "zip", "changelog", "state-ahead"))],
)
def test_of_damaged_stores_as_well(name: str, tmp_path: Path) -> None:
    damage = DAMAGES[name]
    folder = unpack(damage.base, tmp_path)
    damage.act(folder)
    assert builds_as_its_rule_says(facts_of(folder)) > 0
