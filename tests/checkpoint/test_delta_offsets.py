"""Where a query's batches stand in a Delta table, and how a query finds its checkpoint."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from tests.kit.running import Place, succeed
from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import CheckpointUnreadable
from tidemark.pipeline.instants import epoch_ms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STAMPS = [datetime(2026, 7, 1, 10, minute, 0, 123_000, tzinfo=UTC) for minute in range(40)]
ROWS = [{"at": stamp.isoformat(), "key": "a", "amount": 1} for stamp in STAMPS]


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Two runs with rows; between them the query also runs a batch without data."""
    place = Place(tmp_path_factory.mktemp("offsets"))
    for number in range(2):
        place.land(f"{number}.json", ROWS[number * 20 : number * 20 + 20])
        succeed(spark, place, f"run-{number}")
    return place


@pytest.fixture
def copied(written: Place, tmp_path: Path) -> Path:
    """A copy of the table's checkpoint, to be changed."""
    folder = tmp_path / "checkpoint"
    shutil.copytree(written.places.query_checkpoint("per_10m", 1), folder)
    return folder


def checkpoint(folder: Path) -> Checkpoint:
    return Checkpoint(str(folder), {})


def test_a_batch_ends_before_the_version_that_the_next_one_begins_with(
    written: Place, copied: Path
) -> None:
    log = checkpoint(copied)
    assert log.batches("offsets") == log.batches("commits") == (0, 1, 2, 3)
    newest = DeltaTable(written.places.bronze).version()
    # Version 0 made the table; each run appended one.
    assert newest == 2
    assert [log.delta_version(batch) for batch in range(4)] == [2, 2, 3, 3]
    assert [log.has_new_input(batch) for batch in range(4)] == [True, False, True, False]


def test_a_checkpoint_tells_its_watermark(copied: Path) -> None:
    log = checkpoint(copied)
    first, second = (epoch_ms(STAMPS[last] - timedelta(minutes=10)) for last in (19, 39))
    assert [log.next_watermark_ms(batch) for batch in range(4)] == [first, first, second, second]
    assert [log.offsets(batch).watermark_ms for batch in range(4)] == [0, first, first, second]


def test_a_row_of_bronze_is_stamped_with_its_batch_s_time(written: Place) -> None:
    log = Checkpoint(written.places.ingest_checkpoint, {})
    times = {log.offsets(batch).batch_time_ms for batch in range(2)}
    assert {epoch_ms(stamp) for stamp in written.bronze()["_batch_time"].to_pylist()} == times


def test_batches_come_in_the_order_of_their_numbers(copied: Path) -> None:
    for batch in (9, 10, 100):
        shutil.copy(copied / "offsets" / "3", copied / "offsets" / str(batch))
    (copied / "offsets" / ".10.crc").touch()
    (copied / "offsets" / "11.tmp").touch()
    assert checkpoint(copied).batches("offsets") == (0, 1, 2, 3, 9, 10, 100)


def test_old_batches_that_the_engine_removed_are_not_listed(copied: Path) -> None:
    (copied / "offsets" / "0").unlink()
    assert checkpoint(copied).batches("offsets") == (1, 2, 3)


def test_a_folder_without_a_query_has_no_batches(tmp_path: Path) -> None:
    assert checkpoint(tmp_path / "none").batches("offsets") == ()


def set_source(folder: Path, batch: int, source: str) -> None:
    path = folder / "offsets" / str(batch)
    version, metadata, _ = path.read_text().splitlines()
    path.write_text("\n".join([version, metadata, source]))


@pytest.mark.parametrize("index", [0, 1, 7])
def test_a_batch_that_ended_in_the_middle_of_a_version_is_refused(copied: Path, index: int) -> None:
    _, _, source = (copied / "offsets" / "2").read_text().splitlines()
    set_source(copied, 2, json.dumps(json.loads(source) | {"index": index}))
    with pytest.raises(CheckpointUnreadable, match="offsets/2 does not stand between") as raised:
        checkpoint(copied).delta_version(2)
    assert "limit of files" in str(raised.value)


def test_a_batch_without_an_offset_of_its_source_is_refused(copied: Path) -> None:
    set_source(copied, 2, "-")
    with pytest.raises(CheckpointUnreadable, match=r"offsets/2 .* holds \(None,\)"):
        checkpoint(copied).delta_version(2)


def test_a_cut_offset_is_named(copied: Path) -> None:
    set_source(copied, 2, '{"sourceVersion":1,"reser')
    with pytest.raises(CheckpointUnreadable, match="offsets/2 is cut off"):
        checkpoint(copied).delta_version(2)


def test_a_query_finds_its_checkpoint_new_ended_or_in_the_middle_of_a_batch(
    copied: Path, tmp_path: Path
) -> None:
    assert checkpoint(tmp_path / "none").restart_case() == "new"
    assert checkpoint(copied).restart_case() == "clean end"
    (copied / "commits" / "3").unlink()
    assert checkpoint(copied).restart_case() == "repeats batch 3"


def test_a_query_that_never_committed_repeats_its_first_batch(copied: Path) -> None:
    shutil.rmtree(copied / "commits")
    for batch in (1, 2, 3):
        (copied / "offsets" / str(batch)).unlink()
    assert checkpoint(copied).restart_case() == "repeats batch 0"
