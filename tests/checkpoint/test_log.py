"""Checkpoints as Spark really writes them, read without Spark."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit.running import Place
from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import CheckpointUnreadable
from tidemark.pipeline.model import Advanced
from tidemark.sources.files.handle import FilesSourceHandle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = 12
NAMES = [f"part {number:02} ä%.json" for number in range(FILES)]


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a query that took its files one a batch: more than ten batches, so that
    the engine has compacted the log of its files."""
    from tidemark.streaming.sources.streams import stream_of_files

    place = Place(tmp_path_factory.mktemp("checkpoints"))
    for number, name in enumerate(NAMES):
        path = place.land(name, [{}])
        os.utime(path, ns=(0, (1_780_000_000_000 + number) * 1_000_000 + 999))
    source, folder = FilesSourceHandle(place.pipeline, place.settings).files, place.root / "ingest"
    writer = stream_of_files(spark, source, Advanced(max_files_per_batch=1)).writeStream.format(
        "noop"
    )
    query = writer.option("checkpointLocation", str(folder)).trigger(availableNow=True).start()
    query.awaitTermination()
    assert list(folder.glob("sources/0/*.compact")), "the log was not compacted"
    return folder


@pytest.fixture
def damaged(written: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(written, tmp_path / "ingest"))


def checkpoint(folder: Path) -> Checkpoint:
    return Checkpoint(str(folder), {})


def test_each_batch_names_its_files_also_those_in_a_compacted_log(written: Path) -> None:
    log = checkpoint(written)
    landing = (written.parent / "landing").as_uri()
    found = [log.source_files(batch) for batch in range(FILES)]
    assert [len(files) for files in found] == [1] * FILES
    assert [files[0].uri for files in found] == [
        f"{landing}/part%20{number:02}%20ä%25.json" for number in range(FILES)
    ]
    assert [files[0].modified_ms for files in found] == [
        1_780_000_000_000 + number for number in range(FILES)
    ]


def test_the_identity_is_that_of_the_metadata_file(written: Path) -> None:
    text = (written / "metadata").read_text()
    assert checkpoint(written).query_id() == json.loads(text)["id"]


def test_the_last_batches_are_those_of_the_logs(written: Path) -> None:
    log = checkpoint(written)
    assert (log.last_batch("offsets"), log.last_batch("commits")) == (FILES - 1, FILES - 1)


def test_a_batch_has_a_time_and_the_offsets_that_it_ends_at(written: Path) -> None:
    log = checkpoint(written)
    offsets = [log.offsets(batch) for batch in range(FILES)]
    times = [one.batch_time_ms for one in offsets]
    now = datetime.now(UTC).timestamp() * 1000
    assert times == sorted(times)
    assert now - 3_600_000 < times[0] < times[-1] < now
    assert [json.loads(str(one.sources[0]))["logOffset"] for one in offsets] == list(range(FILES))
    assert all(log.has_new_input(batch) for batch in range(FILES))
    assert {one.watermark_ms for one in offsets} == {0}


def test_where_no_query_has_started_there_is_no_identity_and_no_batch(tmp_path: Path) -> None:
    log = checkpoint(tmp_path / "nothing")
    assert log.query_id() is None
    assert log.last_batch("offsets") is None


@pytest.mark.parametrize("name", ["offsets/3", "offsets/2", "sources/0/3"])
def test_a_missing_file_is_named(damaged: Path, name: str) -> None:
    (damaged / name).unlink()
    with pytest.raises(CheckpointUnreadable, match=f"{name}.* is missing") as raised:
        checkpoint(damaged).source_files(3)
    assert str(damaged) in str(raised.value)
    assert "Restore" in str(raised.value)


@pytest.mark.parametrize("name", ["offsets/3", "sources/0/3"])
def test_an_empty_file_is_named(damaged: Path, name: str) -> None:
    (damaged / name).write_bytes(b"")
    with pytest.raises(CheckpointUnreadable, match=f"{name} is empty"):
        checkpoint(damaged).source_files(3)


@pytest.mark.parametrize("name", ["offsets/3", "sources/0/3", "sources/0/9.compact"])
@pytest.mark.parametrize("keep", [0.3, 0.6, 0.95])
def test_a_file_that_is_cut_off_is_named(damaged: Path, name: str, keep: float) -> None:
    path = damaged / name
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    batch = 9 if name.endswith("compact") else 3
    with pytest.raises(CheckpointUnreadable, match=name):
        checkpoint(damaged).source_files(batch)


@pytest.mark.parametrize(
    ("name", "lines", "held"),
    [("offsets/3", 2, "no source's offset"), ("sources/0/3", 1, "no file")],
)
def test_a_file_that_is_cut_between_two_lines_is_named(
    damaged: Path, name: str, lines: int, held: str
) -> None:
    path = damaged / name
    path.write_text("\n".join(path.read_text().splitlines()[:lines]))
    with pytest.raises(CheckpointUnreadable, match=f"{name} is cut off .* it holds {held}"):
        checkpoint(damaged).source_files(3)


def test_a_cut_identity_is_named(damaged: Path) -> None:
    (damaged / "metadata").write_text('{"id":"4f2')
    with pytest.raises(CheckpointUnreadable, match="metadata is cut off"):
        checkpoint(damaged).query_id()


def test_a_cut_commit_is_named(damaged: Path) -> None:
    (damaged / "commits/3").write_text('v1\n{"nextBatchWater')
    with pytest.raises(CheckpointUnreadable, match="commits/3 is cut off"):
        checkpoint(damaged).next_watermark_ms(3)


def test_a_log_of_another_format_is_refused(damaged: Path) -> None:
    (damaged / "offsets/3").write_text("v2\n{}\n")
    with pytest.raises(CheckpointUnreadable, match="log format 'v2'; v1 is known"):
        checkpoint(damaged).offsets(3)


def test_offsets_without_a_batch_time_are_refused(damaged: Path) -> None:
    (damaged / "offsets/3").write_text('v1\n{"batchWatermarkMs":0}\n{"logOffset":3}')
    with pytest.raises(CheckpointUnreadable, match=r"offsets/3 is cut off .* no batch time"):
        checkpoint(damaged).offsets(3)
