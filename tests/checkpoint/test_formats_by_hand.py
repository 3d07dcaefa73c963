"""Formats of which no checkpoint is committed yet, written here as the engine's classes write them.

RocksDBFileManager and RocksDBCheckpointMetadata (the zip of a version), CommitMetadataV2 (unique
ids), KafkaSourceInitialOffsetWriter and RateStreamMicroBatchStream (`sources/0/0`),
OperatorStateMetadataV2 and the folder `_stateSchema` (arbitrary state), the stores of a join, and
ChecksumCheckpointFileManager.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from tests.checkpoint.damaged import (
    copy_of,
    diagnosis_of,
    facts_of,
    finding_of,
    kinds,
    remove,
    write,
)
from tidemark.checkpoint.doctor.findings import CheckpointVerdict, FindingKind
from tidemark.checkpoint.reading import read_state
from tidemark.checkpoint.reading.log_formats import NotTheFormat
from tidemark.checkpoint.reading.read_state import shared_files
from tidemark.checkpoint.reading.source_offsets import CountOffset, KafkaOffset
from tidemark.checkpoint.reading.state_files import Provider
from tidemark.checkpoint.reading.state_metadata import StateSchema

ID = "aaaaaaaa-0000-4000-8000-00000000000{}"
# A stream of LZ4 without a block.
CHANGES = b"LZ4Block\x15" + bytes(12)
SST = "000008-0f1c2d3e-4a5b-6c7d-8e9f-001122334455.sst"


def snapshot(path: Path, sst: str = SST, size: int = 3) -> None:
    """The zip of a RocksDB version, with the one file that it shares."""
    metadata = {
        "sstFiles": [{"localFileName": "000008.sst", "dfsSstFileName": sst, "sizeBytes": size}],
        "numKeys": 1,
    }
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("metadata", f"v1\n{json.dumps(metadata)}")
        out.writestr("CURRENT", "MANIFEST-000005\n")


@pytest.fixture
def rocksdb(tmp_path: Path) -> Path:
    """The state of both partitions: a snapshot of version 2, and changelogs 1 to 4."""
    folder = copy_of("aggregate", tmp_path)
    for partition in ("0", "1"):
        store = folder / "state/0" / partition
        for version in range(1, 5):
            remove(store / f"{version}.delta")
            (store / f"{version}.changelog").write_bytes(CHANGES)
        snapshot(store / "2.zip")
        (store / "SSTs").mkdir()
        (store / "SSTs" / SST).write_bytes(b"sst")
    return folder


def test_rocksdb_with_changelog_is_built_from_a_snapshot_and_the_changes_after_it(
    rocksdb: Path,
) -> None:
    assert diagnosis_of(rocksdb).verdict is CheckpointVerdict.CLEAN_END
    (operator,) = facts_of(rocksdb).operators
    assert {store.provider for store in operator.stores} == {Provider.ROCKSDB_CHANGELOG}
    remove(rocksdb / "state/0/1/1.changelog")
    assert diagnosis_of(rocksdb).verdict is CheckpointVerdict.CLEAN_END
    remove(rocksdb / "state/0/1/3.changelog")
    told = diagnosis_of(rocksdb)
    assert told.verdict is CheckpointVerdict.DAMAGED
    assert finding_of(told, FindingKind.STATE).files == ("state/0/1/3.changelog",)


def test_a_file_that_a_rocksdb_snapshot_shares_is_needed(rocksdb: Path) -> None:
    (rocksdb / "state/0/0/SSTs" / SST).unlink()
    told = diagnosis_of(rocksdb)
    assert told.verdict is CheckpointVerdict.DAMAGED
    assert finding_of(told, FindingKind.STATE).files == (f"state/0/0/SSTs/{SST}",)


def test_a_file_that_a_rocksdb_snapshot_shares_has_the_size_that_it_says(rocksdb: Path) -> None:
    (rocksdb / "state/0/0/SSTs" / SST).write_bytes(b"cut")
    assert diagnosis_of(rocksdb).verdict is CheckpointVerdict.CLEAN_END
    (rocksdb / "state/0/0/SSTs" / SST).write_bytes(b"c")
    assert diagnosis_of(rocksdb).verdict is CheckpointVerdict.DAMAGED


def test_a_cut_rocksdb_snapshot_is_damage(rocksdb: Path) -> None:
    path = rocksdb / "state/0/0/2.zip"
    path.write_bytes(path.read_bytes()[:40])
    told = diagnosis_of(rocksdb)
    assert told.verdict is CheckpointVerdict.DAMAGED
    assert "2.zip" in finding_of(told, FindingKind.STATE).files[0]


def test_rocksdb_without_changelog_needs_the_versions_own_snapshot(rocksdb: Path) -> None:
    for partition in ("0", "1"):
        for path in list((rocksdb / "state/0" / partition).glob("*.changelog")):
            path.unlink()
    told = diagnosis_of(rocksdb)
    assert finding_of(told, FindingKind.STATE).files == ("state/0/0/4.zip", "state/0/1/4.zip")
    for partition in ("0", "1"):
        snapshot(rocksdb / "state/0" / partition / "4.zip")
    assert diagnosis_of(rocksdb).verdict is CheckpointVerdict.CLEAN_END


def test_in_format_2_the_commit_names_the_files_of_the_state(rocksdb: Path) -> None:
    for partition in (0, 1):
        for path in [*(rocksdb / f"state/0/{partition}").glob("[1-4].*")]:
            path.rename(path.with_name(f"{path.stem}_{ID.format(partition)}{path.suffix}"))
    ids = {"0": [[ID.format(0)], [ID.format(1)]]}
    commit = {"nextBatchWatermarkMs": 0, "stateUniqueIds": ids}
    write(rocksdb / "commits/3", f"v2\n{json.dumps(commit)}".encode())
    assert FindingKind.STATE not in kinds(diagnosis_of(rocksdb))
    lost = rocksdb / f"state/0/1/4_{ID.format(1)}.changelog"
    lost.rename(lost.with_name(f"4_{ID.format(7)}.changelog"))
    told = diagnosis_of(rocksdb)
    assert finding_of(told, FindingKind.STATE).files == (f"state/0/1/4_{ID.format(1)}.changelog",)


def test_each_store_of_a_join_needs_its_files(tmp_path: Path) -> None:
    folder = copy_of("aggregate", tmp_path)
    names = ("left-keyToNumValues", "left-keyWithIndexToValue", "right-keyToNumValues")
    for partition in ("0", "1"):
        here = folder / "state/0" / partition
        for name in names:
            (here / name).mkdir()
            for version in range(1, 5):
                (here / name / f"{version}.delta").write_bytes(CHANGES)
        for path in list(here.glob("*.delta")):
            remove(path)
    assert diagnosis_of(folder).verdict is CheckpointVerdict.CLEAN_END
    assert facts_of(folder).operators[0].store_names == names
    (folder / "state/0/1" / names[1] / "2.delta").unlink()
    found = finding_of(diagnosis_of(folder), FindingKind.STATE)
    assert "partition 1, store left-keyWithIndexToValue" in found.known


def test_arbitrary_state_has_metadata_by_batch_and_schemas_of_version_3(tmp_path: Path) -> None:
    folder = copy_of("aggregate", tmp_path)
    metadata = folder / "state/0/_metadata/v2"
    metadata.mkdir()
    content = {
        "operatorInfo": {"operatorId": 0, "operatorName": "transformWithStateInPandasExec"},
        "stateStoreInfo": [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2}],
        "operatorPropertiesJson": "{}",
    }
    (metadata / "0").write_text(f"v2\n{json.dumps(content)}")
    schemas = folder / "state/0/_stateSchema/default"
    schemas.mkdir(parents=True)
    (schemas / f"0_{ID.format(1)}").write_bytes(b"\0\2v3\0\0\0\1")
    (operator,) = facts_of(folder).operators
    assert operator.metadata is not None
    assert (operator.metadata.version, operator.metadata.name) == (
        2,
        "transformWithStateInPandasExec",
    )
    assert operator.schemas[f"_stateSchema/default/0_{ID.format(1)}"] == StateSchema(3)
    assert not operator.unreadable


def set_source(folder: Path, offset: str) -> None:
    for batch in range(4):
        path = folder / "offsets" / str(batch)
        version, metadata, _ = path.read_text().split("\n")
        write(path, "\n".join([version, metadata, offset]).encode())


def test_the_first_offsets_of_kafka_have_a_zero_byte_before_them(tmp_path: Path) -> None:
    folder = copy_of("aggregate", tmp_path)
    set_source(folder, '{"clicks":{"0":12,"1":30}}')
    (folder / "sources/0").mkdir(parents=True)
    (folder / "sources/0/0").write_bytes(b'\0v1\n{"clicks":{"0":0,"1":0}}')
    (source,) = facts_of(folder).sources
    assert (source.kind, source.offset) == ("Kafka", KafkaOffset({"clicks": {0: 12, 1: 30}}))
    assert (source.initial, source.file_list) == ('{"clicks":{"0":0,"1":0}}', None)
    assert diagnosis_of(folder).verdict is CheckpointVerdict.CLEAN_END


@pytest.mark.parametrize(("began", "kind"), [(True, "rate"), (False, "rate, socket or memory")])
def test_a_number_is_a_rate_source_only_where_its_beginning_is_recorded(
    tmp_path: Path, began: bool, kind: str
) -> None:
    folder = copy_of("aggregate", tmp_path)
    set_source(folder, "42")
    if began:
        (folder / "sources/0").mkdir(parents=True)
        (folder / "sources/0/0").write_bytes(b"v1\n1795294348791")
    (source,) = facts_of(folder).sources
    assert (source.kind, source.offset) == (kind, CountOffset(42))


def test_a_checksum_of_the_engines_own_file_manager_is_compared_by_size(tmp_path: Path) -> None:
    folder = copy_of("aggregate", tmp_path)
    path = folder / "state/0/0/4.delta"
    checksum = {"algorithm": "CRC32C", "value": 1, "mainFileSize": path.stat().st_size}
    twin = path.with_name("4.delta.crc")
    twin.write_text(json.dumps(checksum))
    assert diagnosis_of(folder).verdict is CheckpointVerdict.CLEAN_END
    twin.write_text(json.dumps(checksum | {"mainFileSize": 7}))
    assert finding_of(diagnosis_of(folder), FindingKind.CHECKSUM).files == ("state/0/0/4.delta",)


def packed(path: Path, metadata: bytes) -> bytes:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("metadata", metadata)
    return path.read_bytes()


@pytest.mark.parametrize("damage", ["byte", "method", "encrypted", "huge"])
def test_a_snapshot_whose_metadata_cannot_be_unpacked_is_none(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = b'v1\n{"sstFiles": [], "numKeys": 1}'
    data = bytearray(packed(tmp_path / "1.zip", sound))
    assert shared_files(bytes(data)) == {}
    # In the entry's own head, and in the directory behind it.
    flags, method, begin = (6, 8), (8, 10), 30 + len("metadata")
    directory = data.index(b"PK\x01\x02")
    if damage == "byte":
        data[begin] ^= 0xFF
    elif damage == "method":
        data[method[0]] = data[directory + method[1]] = 99
    elif damage == "encrypted":
        data[flags[0]] |= 1
        data[directory + flags[1]] |= 1
    else:
        monkeypatch.setattr(read_state, "_LARGEST_METADATA", len(sound) - 1)
    with pytest.raises(NotTheFormat):
        shared_files(bytes(data))
