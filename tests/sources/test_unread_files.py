"""Which files of a source are unread, beside what the engine's own file source takes."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.storage.s3 import s3_server
from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import CheckpointUnreadable, StorageUnavailable
from tidemark.pipeline.model import Advanced
from tidemark.pipeline.settings.storage_options import local_path
from tidemark.pipeline.source_files import SourceFiles
from tidemark.sources.files.pattern import file_pattern, is_hidden
from tidemark.sources.files.unread import facts_of_files, files_to_take, source_files, unread_files
from tidemark.storage.files import write_bytes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMES = (
    "a.json", "b.json", "b.jsonl", "_a.json", ".a.json", "_a=1.json", "_metadata.json",
    "a.json._COPYING_", "a b.json", "ä.json", "a%20b.json", "a#1.json", "a.json#1", "a+b.json",
    "{a}.json", "[a].json", "a,b.json", "^.json", "!.json", "A.JSON", "1-x.json", "2-x.json",
)  # fmt: skip
FOLDERS = ("", "x", "x/y", "_x", ".x", "x=1", "_x=1", "z.json", "x y", "z.json/y")
SOURCES = [
    SourceFiles("landing", recursive, name)
    for recursive in (False, True)
    for name in ("*.json", "*.json*", "*", "[ab].json", "[!a]*.json", "{a,b}.json", "?-x.json")
] + [
    SourceFiles("landing/*", False, "*.json"),
    SourceFiles("landing/{x,_x}", True, "*.json"),
    SourceFiles("landing/x*", False, "[0-9]-x.json"),
    SourceFiles("landing/*/y", False, "*.json"),
    SourceFiles("landing/z*", True, "*.json"),
]


def make(root: Path, paths: list[str]) -> None:
    for path in paths:
        file = root / "landing" / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}\n")


def placed(source: SourceFiles, root: Path) -> SourceFiles:
    return SourceFiles(f"{root}/{source.folder}", source.recursive, source.name)


def taken_by_spark(spark: SparkSession, source: SourceFiles, place: Path) -> Checkpoint:
    """The checkpoint of a query that has read the source as an ingest does."""
    from tidemark.streaming.sources.streams import stream_of_files

    return taken(stream_of_files(spark, source, Advanced()), place)


def taken(stream: DataFrame, place: Path) -> Checkpoint:
    writer = stream.writeStream.format("noop")
    query = writer.option("checkpointLocation", str(place)).trigger(availableNow=True).start()
    query.awaitTermination()
    return Checkpoint(str(place), {})


def files_of(checkpoint: Checkpoint) -> set[str]:
    batches = checkpoint.batches("offsets")
    return {local_path(one.uri) for batch in batches for one in checkpoint.source_files(batch)}


# One of each shape at every run; the others take as long again.
SHORT = {"*", "[!a]*.json", "[0-9]-x.json"}


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(one, marks=() if one.name in SHORT else pytest.mark.long, id=str(one))
        for one in SOURCES
    ],
)
def test_what_is_unread_is_what_spark_takes(
    spark: SparkSession, tmp_path: Path, source: SourceFiles
) -> None:
    folders = [one for one in FOLDERS if "z.json" not in one]
    make(tmp_path, [f"{folder}/{name}" for folder in folders for name in NAMES])
    (tmp_path / "landing" / "link.json").symlink_to(tmp_path / "landing" / "a.json")
    (tmp_path / "landing" / "broken.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / "landing" / "x-link").symlink_to(tmp_path / "landing" / "x")
    make(tmp_path, ["z.json/b.json", "z.json/y/b.json"])
    source = placed(source, tmp_path)
    new = set(unread_files(source, Checkpoint(str(tmp_path / "none"), {})))
    assert new == set(files_to_take(source, {}))
    checkpoint = taken_by_spark(spark, source, tmp_path / "checkpoint")
    assert new == files_of(checkpoint)
    assert unread_files(source, checkpoint) == []


@settings(max_examples=max(5, settings.default.max_examples // 6))
@given(
    paths=st.lists(
        st.tuples(st.sampled_from(FOLDERS), st.sampled_from(NAMES)).map("/".join),
        min_size=1, max_size=12, unique=True,
    ),
    source=st.sampled_from(SOURCES),
)  # fmt: skip
def test_what_spark_would_take_is_never_missed(
    spark: SparkSession, paths: list[str], source: SourceFiles
) -> None:
    """Also where a folder has a name that the pattern fits."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make(root, paths)
        source = placed(source, root)
        new = set(unread_files(source, Checkpoint(str(root / "none"), {})))
        checkpoint = taken_by_spark(spark, source, root / "checkpoint")
        assert new >= files_of(checkpoint) >= set(files_to_take(source, {}))


def test_files_further_down_may_be_taken_where_a_folder_there_is_a_partition(
    tmp_path: Path,
) -> None:
    """The engine takes them, or ends with an error (CONFLICTING_DIRECTORY_STRUCTURES)."""
    source = placed(SourceFiles("landing", False, "*"), tmp_path)
    make(tmp_path, ["a.json", "x/b.json", "x/y/c.json"])
    assert len(source_files(source, {})) == 2
    make(tmp_path, ["x/k=1/d.json"])
    assert len(source_files(source, {})) == 4
    assert len(files_to_take(source, {})) == 2


def test_a_file_that_changed_since_is_not_read_again(spark: SparkSession, tmp_path: Path) -> None:
    make(tmp_path, ["a.json"])
    source = placed(SourceFiles("landing", False, "*.json"), tmp_path)
    checkpoint = taken_by_spark(spark, source, tmp_path / "checkpoint")
    (tmp_path / "landing" / "a.json").write_text("{}\n{}\n")
    os.utime(tmp_path / "landing" / "a.json", (2_000_000_000, 2_000_000_000))
    assert unread_files(source, checkpoint) == []
    taken_by_spark(spark, source, tmp_path / "checkpoint")
    assert checkpoint.batches("offsets") == (0,)


# ext4 knows times from 1901 to 2446.
OLD, FAR = -2_000_000_000, 14_831_769_600


@pytest.mark.parametrize("name", ["*.json", "*"])
def test_a_file_hides_no_other_whatever_its_time(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    source = placed(SourceFiles("landing", False, name), tmp_path)
    for file, seconds in (("far.json", FAR), ("now.json", None), ("old.json", OLD)):
        make(tmp_path, [file])
        if seconds is not None:
            os.utime(tmp_path / "landing" / file, (seconds, seconds))
        checkpoint = taken_by_spark(spark, source, tmp_path / "checkpoint")
        assert unread_files(source, checkpoint) == []
    assert {Path(file).name for file in files_of(checkpoint)} == {
        "far.json",
        "now.json",
        "old.json",
    }


def test_what_a_far_file_hid_in_an_earlier_version_is_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The checkpoint keeps that file's time; the age was 100,000 days once."""
    source = placed(SourceFiles("landing", False, "*.json"), tmp_path)
    make(tmp_path, ["far.json"])
    os.utime(tmp_path / "landing/far.json", (FAR, FAR))
    for file in ("hidden.json", "too.json"):
        reader = spark.readStream.format("text").option("maxFileAge", "100000d")
        checkpoint = taken(reader.load(f"{source.folder}/{source.name}"), tmp_path / "checkpoint")
        make(tmp_path, [file])
    assert len(unread_files(source, checkpoint)) == 2
    taken_by_spark(spark, source, tmp_path / "checkpoint")
    assert unread_files(source, checkpoint) == []
    assert len(files_of(checkpoint)) == 3


def test_compacted_lists_are_read_with_those_since(spark: SparkSession, tmp_path: Path) -> None:
    source = placed(SourceFiles("landing", False, "*.json"), tmp_path)
    for number in range(12):
        make(tmp_path, [f"{number}.json"])
        checkpoint = taken_by_spark(spark, source, tmp_path / "checkpoint")
        assert unread_files(source, checkpoint) == []
    assert checkpoint.batches("sources/0", ".compact") == (9,)
    make(tmp_path, ["new.json"])
    assert unread_files(source, checkpoint) == [str(tmp_path / "landing" / "new.json")]
    (tmp_path / "checkpoint/sources/0/10").unlink()
    with pytest.raises(CheckpointUnreadable, match="sources/0/10 is missing"):
        unread_files(source, checkpoint)


@pytest.mark.parametrize("lost", ["offsets/1", "commits/1"])
def test_files_of_a_batch_that_is_not_committed_are_unread_also_where_they_are_gone(
    spark: SparkSession, tmp_path: Path, lost: str
) -> None:
    source = placed(SourceFiles("landing", False, "*.json"), tmp_path)
    for name in ("a.json", "b.json"):
        make(tmp_path, [name])
        checkpoint = taken_by_spark(spark, source, tmp_path / "checkpoint")
    for name in dict.fromkeys((lost, "commits/1")):
        (tmp_path / "checkpoint" / name).unlink()
    unread = [str(tmp_path / "landing" / "b.json")]
    assert unread_files(source, checkpoint) == unread
    Path(unread[0]).unlink()
    assert unread_files(source, checkpoint) == unread
    assert facts_of_files(source, unread, {}) == {}


def test_a_folder_that_is_not_there_cannot_be_told(tmp_path: Path) -> None:
    with pytest.raises(StorageUnavailable, match="could not be listed"):
        unread_files(
            SourceFiles(f"{tmp_path}/landing", False, "*"), Checkpoint(f"{tmp_path}/none", {})
        )


@pytest.mark.parametrize("name", ["{a", "a}", "[]", "[z-a]", "{a/b}"])
def test_a_pattern_that_hadoop_does_not_read_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no pattern that Hadoop reads"):
        file_pattern(SourceFiles(f"/landing/{name}", False, "*"))


def test_hidden_names_are_the_engines() -> None:
    hidden = [name for name in NAMES if is_hidden(name)]
    assert hidden == ["_a.json", ".a.json", "a.json._COPYING_"]


@pytest.mark.slow
def test_files_on_object_storage_are_told_by_the_same_rules(tmp_path: Path) -> None:
    with s3_server() as options:
        for key in ("a b.json", "sub/b.json", "_sub/c.json", ".d.json", "e.txt"):
            write_bytes(f"s3://lake/landing/{key.replace(' ', '%20')}", b"{}", options)
        checkpoint = "s3://lake/checkpoint"
        source = SourceFiles("s3://lake/landing", True, "*.json")
        new = ["s3://lake/landing/a b.json", "s3://lake/landing/sub/b.json"]
        assert sorted(unread_files(source, Checkpoint(checkpoint, options))) == new
        facts = facts_of_files(source, new, options)
        assert {place: one.size for place, one in facts.items()} == dict.fromkeys(new, 2)
        offsets = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}\n{"logOffset":0}'
        write_bytes(f"{checkpoint}/offsets/0", offsets.encode(), options)
        write_bytes(f"{checkpoint}/commits/0", b"v1\n{}", options)
        listed = '{"path":"s3a://lake/landing/a%20b.json","timestamp":1,"batchId":0}'
        write_bytes(f"{checkpoint}/sources/0/0", f"v1\n{listed}".encode(), options)
        assert unread_files(source, Checkpoint(checkpoint, options)) == new[1:]
