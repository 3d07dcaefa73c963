"""Windows that were computed again: which of them go to `changes`."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from tests.kit.windows import Windows, at, millis, window
from tidemark.gold.recomputed import KnownRows, differing_rows, known_to_gold
from tidemark.gold.state import gold_state

ELEVEN = at(11)
COLUMNS = ("window_start", "window_end", "key", "total", "rows", "_failure")


def differing(
    windows: Windows, computed: pa.Table, closed_to: datetime = ELEVEN
) -> list[tuple[object, ...]]:
    gold, changes = windows.gold_table(), DeltaTable(windows.changes_uri)
    found = differing_rows(
        gold, changes, gold_state(gold), windows.operator, computed, None, millis(closed_to)
    )
    return [(row["key"], row["total"]) for row in found.to_pylist()]


def computed_windows(windows: Windows, **totals: int) -> pa.Table:
    """Windows of ten o'clock by their keys, in the columns of what Spark computes."""
    schema = pa.schema(windows.changes_schema())
    rows = [window(at(10), key=key, total=total) for key, total in totals.items()]
    return pa.Table.from_pylist(rows, pa.schema([schema.field(name) for name in COLUMNS]))


def test_windows_that_are_new_or_have_another_value_differ(tmp_path: Path) -> None:
    windows = Windows(tmp_path)
    windows.change(window(at(10), key="a", total=1), window(at(10), key="b", total=2))
    windows.publish_at(at(11))
    assert differing(windows, computed_windows(windows, a=1, b=3, c=4)) == [("b", 3), ("c", 4)]


def test_a_value_that_waits_in_changes_counts_before_that_in_gold(tmp_path: Path) -> None:
    windows = Windows(tmp_path)
    windows.change(window(at(10), key="a", total=1))
    windows.publish_at(at(11))
    windows.change(window(at(10), key="a", total=5))
    assert differing(windows, computed_windows(windows, a=5)) == []
    assert differing(windows, computed_windows(windows, a=1)) == [("a", 1)]


def test_what_an_unpublished_seal_closed_is_known_only_once_it_is_closed(tmp_path: Path) -> None:
    windows = Windows(tmp_path)
    windows.change(window(at(10), key="a", total=1))
    windows.publish_at(at(9))
    windows.change(window(at(10), key="a", total=5), cause="seal")
    assert differing(windows, computed_windows(windows, a=5), at(10, 10)) == []
    assert differing(windows, computed_windows(windows, a=5), at(10, 9)) == [("a", 5)]


def test_where_no_window_was_computed_none_differs(tmp_path: Path) -> None:
    """A seal that has reached the end of no window with rows yet."""
    windows = Windows(tmp_path)
    windows.change(window(at(10), key="a", total=1))
    windows.publish_at(at(11))
    assert differing(windows, computed_windows(windows)) == []


def test_what_gold_holds_as_closed_is_told_from_what_it_has_open_or_not_at_all(
    tmp_path: Path,
) -> None:
    windows = Windows(tmp_path)
    windows.change(window(at(10), key="a", total=1), window(at(10), key=None, total=2))
    windows.publish_at(at(10, 5))
    # What only `changes` has was never in gold.
    windows.change(window(at(10), key="held", total=1))
    computed = computed_windows(windows, a=2, b=3, held=4)
    gold = windows.gold_table()
    assert known_to_gold(gold, gold_state(gold), windows.operator, computed) == KnownRows(1, 0)
    windows.publish(windows.pin(at(11), changes=1))
    gold = windows.gold_table()
    assert known_to_gold(gold, gold_state(gold), windows.operator, computed) == KnownRows(1, 1)
    nothing = computed.slice(0, 0)
    assert known_to_gold(gold, gold_state(gold), windows.operator, nothing) == KnownRows(0, 0)
