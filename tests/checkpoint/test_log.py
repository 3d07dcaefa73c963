"""Checkpoints as Spark really writes them, read without Spark."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit.running import Place, clicks, succeed
from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import CheckpointUnreadable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = 12
NAMES = [f"part {number:02} ä%.json" for number in range(FILES)]


@dataclass(frozen=True)
class Written:
    """The checkpoints of a pipeline that read its files one a batch."""

    place: Place
    ingest: Path
    table: Path


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """More than ten batches, so that the engine has compacted the log of its files."""
    root = tmp_path_factory.mktemp("checkpoints")
    place = Place(root, clicks(advanced={"max_files_per_batch": 1}))
    for number, name in enumerate(NAMES):
        row = {"at": f"2026-07-01T10:{number:02}:00.123Z", "key": "a", "amount": number}
        path = place.land(name, [row])
        os.utime(path, ns=(0, (1_780_000_000_000 + number) * 1_000_000 + 999))
    succeed(spark, place)
    ingest = Path(place.places.ingest_checkpoint)
    assert list(ingest.glob("sources/0/*.compact")), "the log was not compacted"
    return Written(place, ingest, Path(place.places.query_checkpoint("per_10m", 1)))


@pytest.fixture
def damaged(written: Written, tmp_path: Path) -> Path:
    """A copy of the ingest checkpoint, to be damaged."""
    copy = tmp_path / "ingest"
    shutil.copytree(written.ingest, copy)
    return copy


def checkpoint(folder: Path) -> Checkpoint:
    return Checkpoint(str(folder), {})


def test_each_batch_names_its_files_also_those_in_a_compacted_log(written: Written) -> None:
    log = checkpoint(written.ingest)
    landing = (written.place.root / "landing").as_uri()
    found = [log.source_files(batch) for batch in range(FILES)]
    assert [len(files) for files in found] == [1] * FILES
    assert [files[0].uri for files in found] == [
        f"{landing}/part%20{number:02}%20ä%25.json" for number in range(FILES)
    ]
    assert [files[0].modified_ms for files in found] == [
        1_780_000_000_000 + number for number in range(FILES)
    ]


def test_the_identity_is_that_of_the_metadata_file(written: Written) -> None:
    text = (written.ingest / "metadata").read_text()
    assert checkpoint(written.ingest).query_id() == json.loads(text)["id"]


def test_the_last_batches_are_those_of_the_logs(written: Written) -> None:
    log = checkpoint(written.ingest)
    assert (log.last_batch("offsets"), log.last_batch("commits")) == (FILES - 1, FILES - 1)


def test_a_batch_has_a_time_and_the_offsets_that_it_ends_at(written: Written) -> None:
    log = checkpoint(written.ingest)
    offsets = [log.offsets(batch) for batch in range(FILES)]
    times = [one.batch_time_ms for one in offsets]
    now = datetime.now(UTC).timestamp() * 1000
    assert times == sorted(times)
    assert now - 3_600_000 < times[0] < times[-1] < now
    assert [json.loads(str(one.sources[0]))["logOffset"] for one in offsets] == list(range(FILES))
    assert all(log.has_new_input(batch) for batch in range(FILES))
    assert {one.watermark_ms for one in offsets} == {0}
    stamped = written.place.bronze().to_pydict()["_batch_time"]
    assert sorted(int(stamp.timestamp() * 1000) for stamp in stamped) == times


def test_a_table_checkpoint_tells_its_watermark_and_its_batch_without_input(
    written: Written,
) -> None:
    log = checkpoint(written.table)
    last = log.last_batch("commits")
    assert last == 1
    newest = datetime(2026, 7, 1, 10, FILES - 1, 0, 123_000, tzinfo=UTC)
    watermark = int(newest.timestamp() * 1000) - 600_000
    assert log.next_watermark_ms(0) == watermark
    assert log.next_watermark_ms(1) == watermark
    assert [log.offsets(batch).watermark_ms for batch in (0, 1)] == [0, watermark]
    assert [log.has_new_input(batch) for batch in (0, 1)] == [True, False]


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
