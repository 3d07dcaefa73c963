"""What gold held, by its history alone: also where maintenance has packed that."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from tests.kit.windows import at, millis
from tests.operators.contract.joins import join_table
from tidemark.errors import MigrationRefused
from tidemark.gold.history_rows import closed_by_history, rows_of_history
from tidemark.operators.folds.folds import Folds
from tidemark.operators.joins.joins import Joins
from tidemark.operators.operator import Operator
from tidemark.operators.windows.windows import Windows
from tidemark.pipeline.model import FoldTable, Window, WindowTable
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
JOINED = Joins(
    "at", join_table("left").model_copy(update={"group_by": ("key",), "measures": {"total": "x"}})
)
FOLDED = Folds(
    "at",
    FoldTable.model_validate(
        {
            "fold": {"python": "f.py:F", "timeout": "6 minutes", "emits": {"total": "long"}},
            "group_by": ("key",),
        }
    ),
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
    schema = SCHEMA
    for name in ("matches", "number"):
        if name in more:
            row[name] = more[name]
            schema = schema.append(pa.field(name, pa.int64()))
    write_deltalake(
        str(folder),
        pa.Table.from_pylist([row], schema),
        mode="append",
        configuration={"delta.enableChangeDataFeed": "true"},
        commit_properties=CommitProperties(custom_metadata=as_metadata(note)),
    )


def history(folder: Path, packed: bool) -> DeltaTable:
    if packed:
        table = DeltaTable(str(folder))
        table.optimize.compact()
        table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    return DeltaTable(str(folder))


def totals(
    table: DeltaTable, operator: Operator = OPERATOR
) -> dict[str, tuple[int, str, int, str]]:
    found = rows_of_history(table, operator, millis(at(11))).to_pylist()
    return {r["key"]: (r["total"], r["status"], r["revision"], r["updated_by"]) for r in found}


@pytest.mark.parametrize("packed", [False, True])
def test_the_last_value_of_each_window_counts(tmp_path: Path, packed: bool) -> None:
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
    found = totals(history(tmp_path, packed))
    assert found == {
        "late": (7, "final", 0, "late-7"),
        "batches": (5, "final", 0, "stream-5"),
        "aside": (4, "final", 0, "stream-4"),
    }


@pytest.mark.parametrize(
    ("operator", "before", "after"),
    [
        pytest.param(OPERATOR, (5, "late", {}), (4, "backfill", {}), id="a backfill took rows"),
        pytest.param(OPERATOR, (5, "late", {}), (5, "late", {}), id="as many rows"),
        # Of folds, from before what was computed told its batch.
        pytest.param(FOLDED, (3, "stream", {"batch": 3}), (3, "late", {}), id="without a batch"),
        pytest.param(FOLDED, (3, "stream", {"batch": 3}), (0, "late", {}), id="gone without one"),
    ],
)
def test_with_the_commits_that_tell_the_last_value_goes_who_knew_it(
    tmp_path: Path, operator: Operator, before: Any, after: Any
) -> None:
    for total, (rows, cause, more) in enumerate((before, after), 1):
        commit(tmp_path, "a", total, rows, cause, **more, number=1)
    known = totals(history(tmp_path, packed=False), operator)
    assert [total for total, *_ in known.values()] == ([2] if after[0] else [])
    with pytest.raises(MigrationRefused, match="of 1 windows nobody can tell any more"):
        totals(history(tmp_path, packed=True), operator)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("first_is_larger", [False, True])
def test_a_first_match_adds_no_row_and_is_the_later_value(
    tmp_path: Path, packed: bool, first_is_larger: bool
) -> None:
    """Of a left join: its measures say nothing of what was before what."""
    before, after = (9, 1) if first_is_larger else (1, 9)
    commit(tmp_path, "a", before, 3, "late", matches=0)
    commit(tmp_path, "a", after, 3, "late", matches=1)
    assert totals(history(tmp_path, packed), JOINED)["a"][0] == after


@pytest.mark.parametrize("packed", [False, True])
def test_of_an_output_the_batch_tells_the_last_value_whatever_rows_it_counts(
    tmp_path: Path, packed: bool
) -> None:
    """A late row makes another third row: of the same number of rows. One can also go and come."""
    commit(tmp_path, "again", 1, 3, "late", batch=1, number=1)
    commit(tmp_path, "again", 2, 3, "late", batch=2, number=1)
    commit(tmp_path, "streamed", 1, 3, "late", batch=1, number=1)
    commit(tmp_path, "streamed", 2, 3, "stream", batch=2, number=1)
    commit(tmp_path, "within", 1, 3, "late", batch=3, number=1)
    commit(tmp_path, "within", 2, 3, "backfill", batch=3, number=1)
    commit(tmp_path, "came", None, 0, "late", batch=1, number=1)
    commit(tmp_path, "came", 2, 3, "late", batch=2, number=1)
    commit(tmp_path, "went", 1, 3, "stream", batch=0, number=1)
    commit(tmp_path, "went", None, 0, "late", batch=2, number=1)
    found = totals(history(tmp_path, packed), FOLDED)
    assert {key: values[0] for key, values in found.items()} == {
        "again": 2, "streamed": 2, "within": 2, "came": 2,
    }  # fmt: skip


def test_rows_that_start_later_are_left_out(tmp_path: Path) -> None:
    commit(tmp_path, "a", 5, 5, "stream", batch=0)
    assert not rows_of_history(DeltaTable(str(tmp_path)), OPERATOR, millis(at(10))).num_rows


def test_what_batches_noted_and_seals_closed_is_closed(tmp_path: Path) -> None:
    commit(tmp_path, "a", 5, 5, "stream", batch=0, close_ms=millis(at(9)))
    assert closed_by_history(DeltaTable(str(tmp_path))) == millis(at(9))
    commit(tmp_path, "a", 5, 5, "seal")
    assert closed_by_history(DeltaTable(str(tmp_path))) == millis(at(10) + LENGTH)
