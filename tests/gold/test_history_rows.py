"""What gold held, by its history alone, and a refusal where maintenance has packed that."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from tests.kit.windows import at, millis
from tidemark.errors import MigrationRefused
from tidemark.operators.windows.windows import Windows
from tidemark.pipeline.model import Window, WindowTable
from tidemark.recompute.gold_before import closed_by_history, rows_of_history
from tidemark.storage.delta.notes import EmittedNote, as_metadata

LENGTH = timedelta(minutes=10)
OPERATOR = Windows(
    "at", WindowTable(window=Window(length=LENGTH), group_by=("key",), measures={"total": "sum(x)"})
)
TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        ("window_start", TIME),
        ("window_end", TIME),
        ("key", pa.string()),
        ("total", pa.int64()),
        ("rows", pa.int64()),
        ("_failure", pa.string()),
        ("cause", pa.string()),
        ("run", pa.string()),
        ("batch", pa.int64()),
    ]
)


def commit(folder: Path, key: str, total: int | None, rows: int, cause: str, **more: Any) -> None:
    row = {
        "window_start": at(10),
        "window_end": at(10) + LENGTH,
        "key": key,
        "total": total,
        "rows": rows,
        "_failure": more.get("failure"),
        "cause": cause,
        "run": f"{cause}-{total}",
        "batch": more.get("batch"),
    }
    note = EmittedNote(query="q", batch=more.get("batch", 0), close_ms=more.get("close_ms"))
    write_deltalake(
        str(folder),
        pa.Table.from_pylist([row], SCHEMA),
        mode="append",
        configuration={"delta.enableChangeDataFeed": "true"},
        commit_properties=CommitProperties(custom_metadata=as_metadata(note)),
    )


def totals(table: DeltaTable) -> dict[str, tuple[int, str, int, str]]:
    found = rows_of_history(table, OPERATOR, millis(at(11))).to_pylist()
    return {r["key"]: (r["total"], r["status"], r["revision"], r["updated_by"]) for r in found}


def test_the_last_value_of_each_window_counts(tmp_path: Path) -> None:
    commit(tmp_path, "late", 3, 3, "late")
    commit(tmp_path, "late", 1, 1, "stream", batch=0)
    commit(tmp_path, "late", 2, 2, "stream", batch=1)
    commit(tmp_path, "late", 7, 4, "late")
    commit(tmp_path, "batches", 9, 9, "migration", batch=-1)
    commit(tmp_path, "batches", 5, 10, "stream", batch=0)
    commit(tmp_path, "gone", 1, 1, "stream", batch=0)
    commit(tmp_path, "gone", None, 0, "late")
    commit(tmp_path, "fails", None, 2, "late", failure="total: sum(x) failed")
    commit(tmp_path, "aside", 4, 1, "stream", batch=0)
    commit(tmp_path, "aside", None, 2, "failed", batch=1, failure="overflow")
    found = totals(DeltaTable(str(tmp_path)))
    assert found == {
        "late": (7, "final", 0, "late-7"),
        "batches": (5, "final", 0, "stream-5"),
        "aside": (4, "final", 0, "stream-4"),
    }


def test_without_the_commits_that_tell_the_last_value_nobody_knows_it(tmp_path: Path) -> None:
    for total in (1, 2):
        commit(tmp_path, "a", total, total, "late")
    table = DeltaTable(str(tmp_path))
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    packed = DeltaTable(str(tmp_path))
    with pytest.raises(MigrationRefused, match="was the last one of 1 windows"):
        totals(packed)
    assert not rows_of_history(packed, OPERATOR, millis(at(10))).num_rows


def test_rows_that_start_later_are_left_out(tmp_path: Path) -> None:
    commit(tmp_path, "a", 5, 5, "stream", batch=0)
    assert not rows_of_history(DeltaTable(str(tmp_path)), OPERATOR, millis(at(10))).num_rows


def test_what_batches_noted_and_seals_closed_is_closed(tmp_path: Path) -> None:
    commit(tmp_path, "a", 5, 5, "stream", batch=0, close_ms=millis(at(9)))
    assert closed_by_history(DeltaTable(str(tmp_path))) == millis(at(9))
    commit(tmp_path, "a", 5, 5, "seal")
    assert closed_by_history(DeltaTable(str(tmp_path))) == millis(at(10) + LENGTH)
