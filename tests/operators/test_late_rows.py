"""Late rows counted from bronze, against the rule written down in plain Python."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, composite

from tests.kit.late_model import EPOCH, MILLISECOND, Group, late_counts
from tidemark.errors import StorageUnavailable
from tidemark.operators.touched import BatchRead, Touched
from tidemark.operators.windows.late_rows import find_late_rows
from tidemark.pipeline.model import Window, WindowTable
from tidemark.storage.delta.place import TablePlace

DAY = datetime(2026, 7, 1, 23, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SCHEMA = pa.schema(
    [("at", pa.timestamp("us", "UTC")), ("key", pa.string()), ("_event_date", pa.date32())]
)
SLIDING = Window(length=10 * MINUTE, slide=5 * MINUTE)

Row = dict[str, Any]


def row(minutes: float, key: str | None = "a") -> Row:
    at = DAY + minutes * MINUTE
    return {"at": at, "key": key, "_event_date": at.date()}


def append(folder: Path, rows: Sequence[Row]) -> None:
    """One version of bronze."""
    values = pa.Table.from_pylist(list(rows), SCHEMA)
    write_deltalake(str(folder), values, mode="append", partition_by=["_event_date"])


def millis(minutes: float) -> int:
    return (DAY + minutes * MINUTE - EPOCH) // MILLISECOND


def table_of(window: Window, *keys: str) -> WindowTable:
    return WindowTable(window=window, group_by=keys)


def find(
    folder: Path,
    table: WindowTable,
    batches: Sequence[BatchRead],
    frozen: int | None = None,
    closed: int = 0,
) -> Touched:
    bronze = DeltaTable(str(folder))
    return find_late_rows(bronze, TablePlace(str(folder)), "at", table, batches, frozen, closed)


def groups_of(found: Touched) -> set[Group]:
    return {tuple(window.values()) for window in found.closed.to_pylist()}


@composite
def windows(draw: DrawFn) -> Window:
    slide = draw(st.sampled_from([1, 7, 300, 240])) * timedelta(seconds=1)
    slide += draw(st.sampled_from([0, 0, 0, 1, 333_333])) * timedelta(microseconds=1)
    # Up to twelve windows a row, and lengths that are no multiple of the slide.
    return Window(length=slide * draw(st.sampled_from([1, 1.5, 2, 2.25, 12])), slide=slide)


@composite
def batches_of_rows(draw: DrawFn) -> list[tuple[int, list[Row]]]:
    """Batches, each with its late frontier: somewhere among the events, or none."""
    late = st.none() | st.integers(-30 * 60_000, 30 * 60_000)
    minutes = st.integers(-30, 30) | st.floats(-30, 30, allow_nan=False)
    rows = st.lists(st.builds(row, minutes, st.sampled_from(["a", "B", "", None])), max_size=20)
    drawn = draw(st.lists(st.tuples(late, rows), min_size=1, max_size=4))
    return [(0 if at is None else millis(0) + at, rows) for at, rows in drawn]


@pytest.mark.slow
@given(
    window=windows(),
    keys=st.sampled_from([(), ("key",)]),
    batches=batches_of_rows(),
    in_versions=st.integers(1, 3),
)
# A row at the very end of a window, and a watermark at that end.
@example(
    window=SLIDING, keys=("key",), batches=[(millis(5), [row(0), row(5), row(-5)])], in_versions=1
)
def test_the_counts_and_windows_are_those_of_the_rule(
    window: Window, keys: tuple[str, ...], batches: list[tuple[int, list[Row]]], in_versions: int
) -> None:
    table, reads, expected = table_of(window, *keys), [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "bronze"
        append(folder, [])
        for number, (late_ms, rows) in enumerate(batches):
            first = DeltaTable(str(folder)).version() + 1
            for part in range(in_versions):
                append(folder, rows[part::in_versions])
            reads.append(BatchRead(number, first, first + in_versions - 1, late_ms))
            expected.append(late_counts(rows, table, late_ms))
        found = find(folder, table, reads)
    assert [numbers(found, at) for at in range(len(batches))] == [one.numbers for one in expected]
    assert [one.rows for one in found.batches] == [len(rows) for _, rows in batches]
    assert groups_of(found) == set().union(*(one.groups for one in expected))
    assert found.closed.num_rows == len(groups_of(found))
    assert found.closed.column_names == ["window_start", *keys]


def numbers(found: Touched, at: int) -> tuple[int, ...]:
    """In the order of the model's."""
    one = found.batches[at]
    return one.assigned, one.wholly_late, one.partly_late, one.late_assigned, one.late_groups


@pytest.mark.parametrize(
    ("frontier_ms", "late", "partly"),
    [
        (millis(5) - 1, 0, 0),
        (millis(5), 0, 1),  # the end of the first of its two windows
        (millis(10) - 1, 0, 1),
        (millis(10), 1, 0),  # the end of the second
    ],
)
def test_a_window_that_ends_at_the_frontier_is_late_and_one_a_millisecond_later_is_not(
    tmp_path: Path, frontier_ms: int, late: int, partly: int
) -> None:
    append(tmp_path, [row(2)])
    found = find(tmp_path, table_of(SLIDING), [BatchRead(0, 0, 0, frontier_ms)])
    assert (found.batches[0].wholly_late, found.batches[0].partly_late) == (late, partly)


def test_without_a_watermark_nothing_is_late(tmp_path: Path) -> None:
    append(tmp_path, [row(0), row(-10_000)])
    found = find(tmp_path, table_of(SLIDING, "key"), [BatchRead(0, 0, 0, 0)])
    assert numbers(found, 0) == (4, 0, 0, 0, 0)
    assert found.closed.num_rows == 0


def test_null_and_empty_keys_are_keys_of_their_own(tmp_path: Path) -> None:
    append(tmp_path, [row(0, None), row(0, None), row(0, ""), row(0, "a")])
    found = find(tmp_path, table_of(SLIDING, "key"), [BatchRead(0, 0, 0, millis(60))])
    assert found.batches[0].late_groups == found.closed.num_rows == 6
    assert {key for _, key in groups_of(found)} == {None, "", "a"}


def test_a_window_that_is_late_in_two_batches_is_repaired_once(tmp_path: Path) -> None:
    append(tmp_path, [row(0)])
    append(tmp_path, [row(0)])
    reads = [BatchRead(number, number, number, millis(60)) for number in range(2)]
    found = find(tmp_path, table_of(SLIDING, "key"), reads)
    assert [one.late_groups for one in found.batches] == [2, 2]
    assert found.closed.num_rows == 2


def test_frozen_windows_are_counted_and_not_repaired(tmp_path: Path) -> None:
    # The first row is in windows of -10 and -5, the other two in those of 0 and 5.
    append(tmp_path, [row(-2), row(7), row(7)])
    reads = [BatchRead(0, 0, 0, millis(60))]
    found = find(tmp_path, table_of(SLIDING), reads, frozen=millis(0))
    (counts,) = found.batches
    assert (counts.late_assigned, counts.late_groups, counts.frozen) == (6, 4, 2)
    assert groups_of(found) == {(DAY,), (DAY + 5 * MINUTE,)}


def test_rows_that_were_only_moved_do_not_count_again(tmp_path: Path) -> None:
    append(tmp_path, [row(0)])
    append(tmp_path, [row(1)])
    DeltaTable(str(tmp_path)).optimize.compact()
    append(tmp_path, [row(2)])
    found = find(tmp_path, table_of(SLIDING), [BatchRead(0, 0, 3, millis(60))])
    assert found.batches[0].rows == 3
    assert find(tmp_path, table_of(SLIDING), [BatchRead(0, 2, 2, 1)]).batches[0].rows == 0


def test_rows_are_read_though_their_files_were_replaced_since(tmp_path: Path) -> None:
    append(tmp_path, [row(0)])
    append(tmp_path, [row(1)])
    DeltaTable(str(tmp_path)).optimize.compact()
    found = find(tmp_path, table_of(SLIDING), [BatchRead(0, 1, 1, millis(60))])
    assert found.batches[0].rows == 1


def test_a_log_entry_that_is_gone_is_named_and_nothing_is_guessed(tmp_path: Path) -> None:
    append(tmp_path, [row(0)])
    append(tmp_path, [row(1)])
    append(tmp_path, [row(2)])
    bronze = DeltaTable(str(tmp_path))
    gone = tmp_path / "_delta_log" / f"{1:020}.json"
    gone.unlink()
    with pytest.raises(StorageUnavailable, match=f"{gone} is not there") as raised:
        find_late_rows(
            bronze,
            TablePlace(str(tmp_path)),
            "at",
            table_of(SLIDING),
            [BatchRead(1, 1, 2, 0)],
            None,
            0,
        )
    assert "Nothing was written" in str(raised.value)


def test_a_window_that_closed_since_a_batch_is_repaired_though_its_row_was_not_late(
    tmp_path: Path,
) -> None:
    """A held run that sealed it was published after the batch."""
    append(tmp_path, [row(2), row(30)])
    found = find(tmp_path, table_of(SLIDING), [BatchRead(0, 0, 0, millis(5))], closed=millis(10))
    assert numbers(found, 0) == (4, 0, 1, 1, 1)
    assert found.batches[0].closed_groups == 2
    assert groups_of(found) == {(DAY - 5 * MINUTE,), (DAY,)}
