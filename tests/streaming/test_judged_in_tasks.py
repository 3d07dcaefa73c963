"""Lines judged in Spark's tasks: shared out, written, and gone on with where a reader crashes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.killed import killed
from tests.kit.running import Place, run_warm, succeed
from tidemark.judge.block import BlockReader
from tidemark.sources.files.slices import FileSlice
from tidemark.sources.source import Slice
from tidemark.streaming.ingest import judged_lines
from tidemark.streaming.ingest.task_files import shared_out

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def row(key: str) -> dict[str, Any]:
    return {"at": "2026-07-01T10:00:00Z", "key": key, "amount": 1}


@given(sizes=st.lists(st.integers(1, 200_000_000), max_size=60), cores=st.integers(1, 16))
def test_every_slice_is_one_tasks_work_in_its_order(sizes: list[int], cores: int) -> None:
    slices = [FileSlice(str(n), 0, size, size, 0, {}) for n, size in enumerate(sizes)]
    groups = shared_out(slices, cores)
    assert [one for group in groups for one in group] == slices
    assert all(groups)


@dataclass(frozen=True)
class CrashingSlice(Slice):
    """Makes the block tier of the process that reads it crash, as a fault of the reader would."""

    inner: Slice
    part: str

    @property
    def label(self) -> str:
        return self.inner.label

    @property
    def estimated_bytes(self) -> int:
        return self.inner.estimated_bytes

    def lines(self, most_bytes: int) -> Iterator[pa.Table]:
        def crash(*_: Any) -> None:
            os.kill(os.getpid(), signal.SIGSEGV)

        BlockReader.read = crash  # type: ignore[assignment]  # what native code would do
        return self.inner.lines(most_bytes)


def test_where_a_tasks_reader_crashes_the_same_run_judges_line_by_line(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)
    place.land("a.json", [*[row(str(n)) for n in range(200)], "bad"])
    original = judged_lines.judge_in_tasks
    tries = []

    def crashing(session: Any, by: Any, slices: Any, *to: Any) -> Any:
        tries.append(by.by_line)
        return original(session, by, [CrashingSlice(one, one.part) for one in slices], *to)

    monkeypatch.setattr(judged_lines, "FEW_BYTES", -1)
    monkeypatch.setattr(judged_lines, "judge_in_tasks", crashing)
    rows = succeed(spark, place).rows
    assert (rows.read, rows.accepted, rows.rejected) == (201, 200, {"malformed": 1})
    assert tries == [False, True]


def test_after_a_death_while_a_batch_was_judged_it_is_judged_line_by_line(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)
    place.land("a.json", [*[row(str(n)) for n in range(200)], "bad"])
    with killed("after", "batch being judged"):
        assert run_warm(spark, place, "dead").error is not None
    mark = tmp_path / "clicks/checkpoints/ingest.judging.json"
    assert mark.exists()

    def crash(*_: Any) -> None:
        raise AssertionError

    with monkeypatch.context() as patch:
        patch.setattr(BlockReader, "read", crash)
        rows = run_warm(spark, place, "again").rows
    assert (rows.accepted, rows.rejected) == (200, {"malformed": 1})
    assert not mark.exists()
    # The next batch is judged in blocks again.
    place.land("b.json", [row(str(n)) for n in range(200)])
    with monkeypatch.context() as patch:
        patch.setattr(BlockReader, "read", crash)
        assert run_warm(spark, place, "blocks").error is not None
