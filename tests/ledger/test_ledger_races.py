"""Two processes that write the same rows of an ops table at once: each row is there once."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.kit.patience import PATIENCE_SECONDS
from tests.kit.running import query
from tidemark.storage.delta.ops import append_once, ensure_ops_table
from tidemark.storage.delta.ops_place import OpsPlace

SCHEMA = pa.schema([("pipeline", pa.string()), ("batch", pa.int64()), ("by", pa.string())])
ROUNDS = 6
SPAWN = multiprocessing.get_context("spawn")


def at_once(work: Callable[..., None], folder: Path, *names: str) -> None:
    """Start `work(folder, name, ready)` in processes of their own; all have to end well."""
    ready = SPAWN.Barrier(len(names), timeout=PATIENCE_SECONDS)
    processes = [SPAWN.Process(target=work, args=(str(folder), name, ready)) for name in names]
    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE_SECONDS)
    assert [process.exitcode for process in processes] == [0] * len(names)


def append_rounds(folder: str, name: str, ready: Any) -> None:
    """The same rows as the other process at the same moments."""
    for batch in range(ROUNDS):
        ready.wait()
        row = {"pipeline": "clicks", "batch": batch, "by": name}
        append_once(OpsPlace(folder), SCHEMA, "", [("clicks/query", batch, row)])


def append_of_its_own(folder: str, name: str, ready: Any) -> None:
    for batch in range(ROUNDS):
        ready.wait()
        row = {"pipeline": name, "batch": batch, "by": name}
        append_once(OpsPlace(folder), SCHEMA, "", [(f"{name}/query", batch, row)])


def batches(folder: Path, pipeline: str) -> list[int]:
    table = DeltaTable(str(folder)).to_pyarrow_table()
    sql = f"SELECT batch FROM rows WHERE pipeline = '{pipeline}' ORDER BY batch"
    return [batch for (batch,) in query(sql, rows=table)]


@pytest.mark.slow
def test_the_same_rows_by_two_processes_are_written_once(tmp_path: Path) -> None:
    ensure_ops_table(OpsPlace(str(tmp_path)), SCHEMA, "")
    at_once(append_rounds, tmp_path, "one", "two")
    assert batches(tmp_path, "clicks") == list(range(ROUNDS))


@pytest.mark.slow
def test_pipelines_write_at_once_and_lose_nothing(tmp_path: Path) -> None:
    ensure_ops_table(OpsPlace(str(tmp_path)), SCHEMA, "")
    at_once(append_of_its_own, tmp_path, "clicks", "words")
    assert batches(tmp_path, "clicks") == batches(tmp_path, "words") == list(range(ROUNDS))
