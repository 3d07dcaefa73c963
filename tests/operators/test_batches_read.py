"""Which versions of bronze each batch of a query read, and up to where its rows were late."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tidemark.checkpoint.log import Checkpoint
from tidemark.operators.batches_read import ReadTo, batches_read
from tidemark.operators.touched import BatchRead

Planned = tuple[int, int]


TABLE_ID = "2f1cb0c4-7a4e-4f0e-9a40-6d3c41b1d0aa"


def checkpoint(folder: Path, planned: Sequence[Planned], committed: int) -> Checkpoint:
    """A checkpoint as the engine writes it: of each batch the version of bronze that the next one
    begins with, and the watermark that it ran by; so many of them are committed."""
    for batch, (version, watermark) in enumerate(planned):
        metadata = {"batchWatermarkMs": watermark, "batchTimestampMs": 1_780_000_000_000 + batch}
        offset = {
            "sourceVersion": 1,
            "reservoirId": TABLE_ID,
            "reservoirVersion": version,
            "index": -1,
        }
        write(folder / "offsets" / str(batch), metadata, offset)
        if batch < committed:
            write(folder / "commits" / str(batch), {"nextBatchWatermarkMs": 0})
    return Checkpoint(str(folder), {})


def write(path: Path, *lines: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["v1", *(json.dumps(line) for line in lines)]))


def read(log: Checkpoint, after: int, close_ms: int = 0) -> list[tuple[int | None, int, int, int]]:
    return [_told(batch) for batch in batches_read(log, after, lambda *_: close_ms)]


def _told(batch: BatchRead) -> tuple[int | None, int, int, int]:
    return batch.number, batch.first, batch.last, batch.late_ms


# Data, no data, data, data, no data.
PLANNED = [(2, 0), (2, 500), (4, 500), (7, 700), (7, 900)]


def test_each_batch_that_read_has_its_versions_and_the_watermark_of_the_batch_before(
    tmp_path: Path,
) -> None:
    log = checkpoint(tmp_path, PLANNED, committed=5)
    assert read(log, -1) == [(0, 0, 1, 0), (2, 2, 3, 500), (3, 4, 6, 500)]


def test_only_what_is_not_published_is_read(tmp_path: Path) -> None:
    log = checkpoint(tmp_path, PLANNED, committed=5)
    assert read(log, 1) == [(2, 2, 3, 500), (3, 4, 6, 500)]
    assert read(log, 3) == [(3, 4, 6, 500)]
    assert read(log, 6) == []


def test_a_batch_of_which_a_part_was_published_counts_from_there(tmp_path: Path) -> None:
    assert read(checkpoint(tmp_path, PLANNED, committed=5), 4) == [(3, 5, 6, 500)]


def test_a_batch_that_is_not_committed_has_not_read(tmp_path: Path) -> None:
    assert read(checkpoint(tmp_path, PLANNED, committed=3), 1) == [(2, 2, 3, 500)]


@pytest.mark.parametrize(("close", "late"), [(400, 500), (500, 500), (501, 501)])
def test_the_close_frontier_counts_where_it_is_further_than_the_watermark(
    tmp_path: Path, close: int, late: int
) -> None:
    assert read(checkpoint(tmp_path, PLANNED, committed=3), 1, close) == [(2, 2, 3, late)]


def test_batches_that_the_engine_no_longer_keeps_are_one_of_unknown_number(
    tmp_path: Path,
) -> None:
    log = checkpoint(tmp_path, PLANNED, committed=5)
    for batch in (0, 1):
        (tmp_path / "offsets" / str(batch)).unlink()
    # Batch 2 begins where offsets/1 says: gone. No batch before it had a later watermark.
    assert read(log, -1) == [(None, 0, 3, 500), (3, 4, 6, 500)]


def test_batches_that_were_copied_count_as_if_they_were_kept(tmp_path: Path) -> None:
    log = checkpoint(tmp_path, PLANNED, committed=5)
    whole = batches_read(log, -1, lambda *_: 0)
    copied = {batch: ReadTo(*planned) for batch, planned in enumerate(PLANNED)}
    for batch in (0, 1, 2):
        (tmp_path / "offsets" / str(batch)).unlink()
    assert batches_read(log, -1, lambda *_: 0, copied) == whole
    del copied[0]
    # Batch 1 begins where offsets/0 says, and that is in neither: its rows and those before it
    # count as one batch.
    assert [_told(b) for b in batches_read(log, -1, lambda *_: 0, copied)] == [
        (None, 0, 1, 500), (2, 2, 3, 500), (3, 4, 6, 500),
    ]  # fmt: skip


def test_where_no_batch_was_committed_nothing_was_read(tmp_path: Path) -> None:
    assert read(Checkpoint(str(tmp_path / "none"), {}), -1) == []
