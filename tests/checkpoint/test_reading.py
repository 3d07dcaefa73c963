"""What is read from checkpoints that Spark wrote."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.checkpoint.damaged import DATA, copy_of, facts_of, remove, twin, write
from tidemark.checkpoint.reading.facts import FileProblem, Unreadable
from tidemark.checkpoint.reading.layout import Section
from tidemark.checkpoint.reading.read import Limits, read_checkpoint
from tidemark.checkpoint.reading.source_offsets import DeltaOffset, FileOffset
from tidemark.checkpoint.reading.state_files import Provider
from tidemark.checkpoint.reading.state_metadata import StateSchema
from tidemark.storage.file_place import FilePlace


def test_a_stateful_checkpoint_tells_its_batches_sources_and_state() -> None:
    facts = facts_of(DATA / "aggregate")
    assert facts.query_id == json.loads((DATA / "aggregate/metadata").read_text())["id"]
    assert facts.offsets.batches == facts.commits.batches == (0, 1, 2, 3)
    assert facts.next_batch == 4
    newest = facts.offsets.entry(3)
    assert newest is not None
    assert newest.version == 1
    assert newest.batch_time_ms is not None
    commit = facts.commits.entry(3)
    assert commit is not None
    assert commit.next_watermark_ms == newest.watermark_ms
    assert facts.conf["spark.sql.shuffle.partitions"] == "2"
    (source,) = facts.sources
    assert isinstance(source.offset, DeltaOffset)
    assert (source.kind, source.offset.version, source.offset.before_version) == ("Delta", 3, True)


def test_an_operator_tells_its_name_stores_versions_and_columns() -> None:
    (operator,) = facts_of(DATA / "aggregate").operators
    assert operator.metadata is not None
    assert (operator.metadata.name, operator.metadata.partitions) == ("stateStoreSave", 2)
    assert (operator.partitions, operator.store_names) == ((0, 1), ("default",))
    assert [sorted(store.files) for store in operator.stores] == [[1, 2, 3, 4]] * 2
    assert {store.provider for store in operator.stores} == {Provider.HDFS_BACKED}
    assert operator.schemas == {
        "0/_metadata/schema": StateSchema(
            2, ("window: struct", "key: string"), ("count: long", "sum: long")
        )
    }
    assert operator.opened


def test_every_file_is_counted_once() -> None:
    folder = DATA / "aggregate"
    files = [path for path in folder.rglob("*") if path.is_file()]
    sections = facts_of(folder).sections
    assert sections["state"] == Section(8, sum(p.stat().st_size for p in folder.rglob("*.delta")))
    assert sum(section.files for section in sections.values()) == len(files)
    assert sum(s.size for s in sections.values()) == sum(p.stat().st_size for p in files)


def test_a_file_source_tells_its_lists_also_the_compacted_one() -> None:
    (source,) = facts_of(DATA / "files_compacted").sources
    assert (source.kind, source.offset) == ("file", FileOffset(11))
    assert source.file_list is not None
    assert source.file_list.compacted == (9,)
    assert source.file_list.lists == (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11)
    listed = list(source.file_list.newest_files)
    assert [file.batch for file in listed] == list(range(11, -1, -1))
    assert listed[0].uri == "file:///data/landing/part%2011%20ä%25.json"
    assert listed[0].modified_ms == 1_780_000_000_011


def test_of_many_listed_files_the_newest_are_looked_for() -> None:
    (source,) = facts_of(DATA / "files_compacted", Limits(listed_files=4)).sources
    assert source.file_list is not None
    assert [file.batch for file in source.file_list.newest_files] == [11, 10, 9, 8]


def test_of_long_logs_the_newest_files_are_read_and_the_others_counted(tmp_path: Path) -> None:
    folder = copy_of("aggregate", tmp_path)
    for log in ("offsets", "commits"):
        for batch in range(4, 60):
            shutil.copy(folder / log / "3", folder / log / str(batch))
    (folder / "offsets" / "7").write_bytes(b"")
    facts = facts_of(folder)
    assert facts.offsets.batches == tuple(range(60))
    assert sorted(facts.offsets.read) == list(range(50, 60))
    assert facts.offsets.empty == (7,)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("offsets/3", b"", FileProblem.EMPTY),
        ("offsets/3", b'v1\n{"batchWater', FileProblem.NOT_THE_FORMAT),
        ("offsets/3", b"v3\n{}\n{}", FileProblem.UNKNOWN_FORMAT),
        ("commits/3", b"v4\n{}", FileProblem.UNKNOWN_FORMAT),
        ("commits/3", b"v1\n[]", FileProblem.NOT_THE_FORMAT),
    ],
)
def test_a_file_that_cannot_be_used_is_a_fact_and_no_error(
    tmp_path: Path, name: str, content: bytes, problem: FileProblem
) -> None:
    folder = copy_of("aggregate", tmp_path)
    write(folder / name, content)
    facts = facts_of(folder)
    log = facts.offsets if name.startswith("offsets") else facts.commits
    found = log.read[3]
    assert isinstance(found, Unreadable)
    assert (found.name, found.problem) == (name, problem)


def test_a_file_that_does_not_match_its_checksum_is_noted(tmp_path: Path) -> None:
    folder = copy_of("aggregate", tmp_path)
    assert facts_of(folder).wrong_checksums == ()
    for name in ("commits/3", "state/0/1/2.delta"):
        path = folder / name
        path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert set(facts_of(folder).wrong_checksums) == {"commits/3", "state/0/1/2.delta"}


def test_files_of_an_interrupted_write_are_leftovers(tmp_path: Path) -> None:
    folder = copy_of("aggregate", tmp_path)
    uuid = "0f1c2d3e-4a5b-6c7d-8e9f-001122334455"
    left = {
        f"offsets/.4.{uuid}.tmp",
        f"offsets/..4.{uuid}.tmp.crc",
        f"state/0/0/.5.delta.{uuid}.TID12.tmp",
        "state/0/1/_temporary/0/part",
        "commits/.9.crc",
    }
    for name in left:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")
    facts = facts_of(folder)
    assert set(facts.leftovers) == left
    assert not facts.unknown


def test_names_that_the_engine_does_not_give_are_unknown(tmp_path: Path) -> None:
    folder = copy_of("aggregate", tmp_path)
    names = {"offsets/x", "state/0/0/1.parquet", "state/notes", "README"}
    for name in names:
        (folder / name).write_text("x")
    assert set(facts_of(folder).unknown) == names


def test_a_checkpoint_of_spark_before_conf_was_recorded_is_read(tmp_path: Path) -> None:
    """The text of OffsetSeqMetadata and CommitLog in Spark 2.1 and 2.2."""
    folder = copy_of("aggregate", tmp_path)
    for batch in range(4):
        path = folder / "offsets" / str(batch)
        _, _, source = path.read_text().split("\n")
        write(path, f'v1\n{{"batchWatermarkMs":5,"batchTimestampMs":{batch}}}\n{source}'.encode())
        write(folder / "commits" / str(batch), b"v1\n{}")
    facts = facts_of(folder)
    assert facts.conf == {}
    newest, commit = facts.offsets.entry(3), facts.commits.entry(3)
    assert newest is not None
    assert commit is not None
    assert (newest.watermark_ms, newest.batch_time_ms, commit.next_watermark_ms) == (5, 3, 0)


def test_a_checkpoint_is_read_by_uri_as_by_path(tmp_path: Path) -> None:
    folder = copy_of("aggregate", tmp_path / "ä b%20")
    by_path, by_uri = facts_of(folder), read_checkpoint(FilePlace(folder.as_uri()))
    assert replace(by_uri, uri=by_path.uri) == by_path
    assert len(by_path.operators) == 1


def test_without_checksum_files_nothing_is_compared(tmp_path: Path) -> None:
    folder = copy_of("aggregate", tmp_path)
    for path in list(folder.rglob("*.crc")):
        path.unlink()
    facts = facts_of(folder)
    assert facts.wrong_checksums == ()
    assert "checksums" not in facts.sections


def test_a_removed_file_is_no_leftover_when_its_checksum_goes_with_it(tmp_path: Path) -> None:
    folder = copy_of("aggregate", tmp_path)
    assert twin(folder / "commits/0").exists()
    remove(folder / "commits/0")
    facts = facts_of(folder)
    assert facts.commits.batches == (1, 2, 3)
    assert not facts.leftovers
