"""Publishing to real Delta tables: which rows, which status, which transactions."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from math import inf, nan
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import types as T

from tests.kit.running import query
from tests.kit.windows import Windows, at, files_by_date, millis, window
from tidemark.errors import StorageUnavailable, TableMismatch
from tidemark.gold.pins import Published
from tidemark.gold.published import published_before
from tidemark.gold.state import gold_state
from tidemark.storage.delta.notes import PublishedNote, note_of

STATE = ("key", "total", "status", "revision", "updated_by")


@pytest.fixture
def windows(tmp_path: Path) -> Windows:
    return Windows(tmp_path)


def rows_written(table: DeltaTable) -> int:
    """Rows in the data files that the newest commit added."""
    adds = [action for action in commit_actions(table) if "add" in action]
    return sum(rows_of(table, action["add"]["path"]) for action in adds)


def commit_actions(table: DeltaTable) -> list[dict[str, Any]]:
    name = f"{table.version():020}.json"
    text = (Path(table.table_uri.removeprefix("file://")) / "_delta_log" / name).read_text()
    return [json.loads(line) for line in text.splitlines()]


def rows_of(table: DeltaTable, path: str) -> int:
    folder = Path(table.table_uri.removeprefix("file://"))
    return int(pq.read_metadata(folder / path.replace("%253A", "%3A")).num_rows)


def same(found: object, expected: object) -> bool:
    """Equal, and of equal sign; NaN is itself."""
    if isinstance(found, float):
        return repr(found) == repr(expected)
    return found == expected


def test_a_new_window_is_added_as_provisional_with_the_run_and_its_date(windows: Windows) -> None:
    windows.change(window(at(10), key="a", total=3, rows=2))
    result = windows.publish_at(at(10), run_id="run-1")
    assert windows.gold(
        "window_start",
        "window_end",
        "key",
        "total",
        "rows",
        "status",
        "revision",
        "updated_by",
        "window_date",
    ) == [(at(10), at(10, 10), "a", 3, 2, "provisional", 0, "run-1", date(2026, 7, 1))]
    assert (result.gold, result.published_windows) == (windows.gold_table().version(), 1)


def test_an_open_window_that_changes_is_updated_and_counts_no_revision(windows: Windows) -> None:
    windows.change(window(at(10), key="a", total=3), window(at(10), key="b", total=1))
    windows.publish_at(at(10), run_id="run-1")
    windows.change(window(at(10), key="a", total=4))
    result = windows.publish_at(at(10), run_id="run-2")
    assert windows.gold(*STATE) == [
        ("a", 4, "provisional", 0, "run-2"),
        ("b", 1, "provisional", 0, "run-1"),
    ]
    assert result.published_windows == 1


def test_a_window_whose_value_is_as_in_gold_is_not_written(windows: Windows) -> None:
    windows.change(window(at(10), key="a", total=3), window(at(10), key="b", total=None))
    windows.publish_at(at(10), run_id="run-1")
    windows.change(window(at(10), key="a", total=3), window(at(10), key="b", total=None))
    result = windows.publish_at(at(10), run_id="run-2")
    assert result.published_windows == 0
    assert not [action for action in commit_actions(windows.gold_table()) if "add" in action]
    assert gold_state(windows.gold_table()).changes == 2
    assert {run for (run,) in windows.gold("updated_by")} == {"run-1"}


def test_only_the_rows_that_count_changes_even_when_no_measure_does(windows: Windows) -> None:
    windows.change(window(at(10), key="a", total=3, rows=1))
    windows.publish_at(at(10))
    windows.change(window(at(10), key="a", total=3, rows=2))
    assert windows.publish_at(at(10)).published_windows == 1
    assert windows.gold("total", "rows") == [(3, 2)]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "old", "new", "differs"), [
    (T.DoubleType(), 1e6, 1e6 + 1e-4, False),
    (T.DoubleType(), 1e6, 1e6 + 2e-3, True),
    (T.DoubleType(), -1e-30, -1.1e-30, True),
    (T.DoubleType(), 1.0, -1.0, True),
    (T.DoubleType(), 0.0, 1e-300, True),
    (T.DoubleType(), 0.0, -0.0, False),
    (T.DoubleType(), 1.0, None, True),
    (T.DoubleType(), None, 1.0, True),
    (T.DoubleType(), nan, nan, False),
    (T.DoubleType(), nan, 1.0, True),
    (T.DoubleType(), 1.0, nan, True),
    (T.DoubleType(), inf, inf, False),
    (T.DoubleType(), inf, -inf, True),
    (T.DoubleType(), inf, 1.0, True),
    (T.DoubleType(), 1.0, inf, True),
    (T.DoubleType(), inf, nan, True),
    (T.DoubleType(), 1.5e308, -1.5e308, True),
    (T.DecimalType(38, 10), Decimal("1000000000000000000.0000000001"),
     Decimal("1000000000000000000.0000000002"), True),
    (T.LongType(), 9_000_000_000_000_000_000, 9_000_000_000_000_000_001, True),
    (T.StringType(), "a", "A", True),
    (T.StringType(), "", None, True),
    (T.TimestampType(), at(10), at(10), False),
    (T.DateType(), date(1500, 1, 1), date(9999, 12, 31), True),
])  # fmt: skip
def test_doubles_differ_above_a_relative_1e_9_and_everything_else_exactly(
    tmp_path: Path, kind: T.DataType, old: object, new: object, differs: bool
) -> None:
    windows = Windows(tmp_path, measures={"value": kind})
    windows.change(window(at(10), key="a", value=old))
    windows.publish_at(at(10))
    windows.change(window(at(10), key="a", value=new))
    assert windows.publish_at(at(10)).published_windows == int(differs)
    (value,) = windows.gold("value")[0]
    assert same(value, new if differs else old)


def test_a_window_is_final_when_its_end_equals_the_frontier(windows: Windows) -> None:
    windows.change(window(at(10), key="a", total=1), window(at(10, 10), key="a", total=2))
    windows.publish_at(at(10, 10))
    assert windows.gold("total", "status") == [(1, "final"), (2, "provisional")]


def test_open_windows_become_final_without_any_change_when_the_frontier_passes_them(
    windows: Windows,
) -> None:
    windows.change(*[window(at(10, minute), key="a", total=1) for minute in (0, 10, 20)])
    windows.publish_at(at(10), run_id="run-1")
    result = windows.publish_at(at(10, 20), run_id="run-2")
    assert windows.gold("status", "revision", "updated_by") == [
        ("final", 0, "run-2"), ("final", 0, "run-2"), ("provisional", 0, "run-1"),
    ]  # fmt: skip
    assert result.published_windows == 2


def test_a_window_that_began_before_midnight_becomes_final_after_it(windows: Windows) -> None:
    windows.change(window(at(23, 55), key="a", total=1), window(at(0, day=2), key="a", total=1))
    windows.publish_at(at(0, 1, day=2))
    windows.publish_at(at(0, 10, day=2))
    assert windows.gold("status") == [("final",), ("final",)]


def test_a_window_that_changes_in_the_publish_that_closes_it_is_final(windows: Windows) -> None:
    windows.change(window(at(10), key="a", total=1))
    windows.publish_at(at(10))
    windows.change(window(at(10), key="a", total=2))
    windows.publish_at(at(10, 10))
    assert windows.gold("total", "status", "revision") == [(2, "final", 0)]


def test_each_change_of_a_closed_window_counts_a_revision(windows: Windows) -> None:
    windows.change(window(at(10), key="a", total=1), window(at(10), key="b", total=1))
    windows.publish_at(at(10, 10))
    found = []
    for total in (2, 2, 3):
        windows.change(window(at(10), key="a", total=total))
        windows.publish_at(at(10, 10))
        found.append(windows.gold("total", "status", "revision"))
    assert found == [
        [(2, "corrected", 1), (1, "final", 0)],
        [(2, "corrected", 1), (1, "final", 0)],
        [(3, "corrected", 2), (1, "final", 0)],
    ]


def test_a_window_first_seen_after_it_closed_is_final_and_the_next_change_corrects_it(
    windows: Windows,
) -> None:
    windows.publish_at(at(11))
    found = []
    for total in (1, 1, 2):
        windows.change(window(at(10), key="late", total=total), cause="late")
        windows.publish_at(at(11))
        found += windows.gold("total", "status", "revision")
    assert found == [(1, "final", 0), (1, "final", 0), (2, "corrected", 1)]


def test_what_a_former_version_called_corrected_when_it_was_first_seen_stays_so(
    windows: Windows,
) -> None:
    windows.change(window(at(10), key="a", total=1), window(at(10), key="b", total=1))
    windows.publish_at(at(11))
    DeltaTable(windows.gold_uri).update({"status": "'corrected'", "revision": "1"})
    windows.change(window(at(10), key="a", total=2))
    windows.publish_at(at(12))
    assert windows.gold("status", "revision") == [("corrected", 2), ("corrected", 1)]


def test_a_corrected_window_stays_corrected_when_the_frontier_moves(windows: Windows) -> None:
    windows.change(window(at(10), key="a", total=1))
    windows.publish_at(at(10, 10))
    windows.change(window(at(10), key="a", total=2), window(at(10, 30), key="a", total=1))
    windows.publish_at(at(10, 20))
    windows.publish_at(at(11))
    assert windows.gold("status", "revision") == [("corrected", 1), ("final", 0)]


def test_of_several_changes_of_a_window_that_of_the_later_commit_counts(windows: Windows) -> None:
    for total in (5, 3, 4):
        windows.change(window(at(10), key="a", total=total))
    windows.publish_at(at(10))
    assert windows.gold("total") == [(4,)]


def test_what_a_seal_computed_counts_only_where_the_publish_closes_it(windows: Windows) -> None:
    """A killed run sealed both windows; rows that came since keep the second one open."""
    windows.change(window(at(10), key="emitted", total=1), window(at(11), key="emitted", total=1))
    windows.change(
        *[window(at(hour), key=key, total=1) for hour in (10, 11) for key in ("emitted", "sealed")],
        cause="seal",
    )
    windows.publish_at(at(10, 30))
    assert windows.gold("window_start", "key", "status") == [
        (at(10), "emitted", "final"),
        (at(10), "sealed", "final"),
        (at(11), "emitted", "provisional"),
    ]


def test_a_pin_takes_no_later_change_along(windows: Windows) -> None:
    pinned = windows.pin(at(10), changes=windows.change(window(at(10), key="a", total=1)))
    windows.change(window(at(10), key="a", total=2))
    windows.publish(pinned)
    assert windows.gold("total") == [(1,)]
    windows.publish_at(at(10))
    assert windows.gold("total") == [(2,)]


KEYS: list[tuple[str, T.DataType, list[Any]]] = [
    ("spotId", T.StringType(), ["it's", 'a "quoted" one', "", " ", "\\", "ä 漢", "null", "a\0b"]),
    ("Select", T.LongType(), [0, -1, 9_223_372_036_854_775_807]),
    ("from", T.TimestampType(), [at(10), at(10).replace(microsecond=1), at(0).replace(year=9999)]),
    ("größe", T.DateType(), [date(1500, 1, 1), date(2026, 7, 1)]),
    ("a-b", T.DoubleType(), [0.1, 1e300, -inf, nan]),
    ("new", T.BooleanType(), [True, False]),
    ("known", T.DecimalType(12, 2), [Decimal("0.01"), Decimal("0.10")]),
    ("gold", T.BinaryType(), [b"", b"\x00", b"\xff"]),
    ("differs", T.ArrayType(T.StringType()), [[], ["a"], ["a", None], [None]]),
    (
        "place",
        T.StructType([T.StructField("x", T.LongType()), T.StructField("Y", T.StringType())]),
        [{"x": 1, "Y": "a"}, {"x": 1, "Y": None}, {"x": None, "Y": None}],
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind", "values"), KEYS, ids=[key[0] for key in KEYS])
def test_keys_of_every_type_and_the_null_key_are_told_apart_and_found_again(
    tmp_path: Path, name: str, kind: T.DataType, values: list[Any]
) -> None:
    windows = Windows(tmp_path, keys={name: kind})
    keys = [*values, None]
    windows.change(*[window(at(10), total=n, **{name: key}) for n, key in enumerate(keys)])
    windows.publish_at(at(10))
    changed = [window(at(10), total=100 + n, **{name: key}) for n, key in enumerate(keys)]
    windows.change(*changed[1:])
    windows.publish_at(at(10, 10))
    found = sorted(windows.gold("total", "status", name))
    expected = sorted((n if n == 0 else 100 + n, "final", key) for n, key in enumerate(keys))
    assert [row[:2] for row in found] == [row[:2] for row in expected]
    assert all(same(a[2], b[2]) for a, b in zip(found, expected, strict=True))


def test_two_keys_are_told_apart_when_nulls_swap_places(tmp_path: Path) -> None:
    windows = Windows(tmp_path, keys={"a": T.StringType(), "b": T.StringType()})
    keys = [("x", None), (None, "x"), (None, None), ("x", "x")]
    for base in (0, 10):
        windows.change(*[window(at(10), a=a, b=b, total=base + n) for n, (a, b) in enumerate(keys)])
        windows.publish_at(at(10))
    assert set(windows.gold("a", "b", "total")) == {(*k, 10 + n) for n, k in enumerate(keys)}
    assert len(windows.gold("a")) == 4


def test_a_table_without_keys_has_one_row_a_window(tmp_path: Path) -> None:
    windows = Windows(tmp_path, keys={})
    for total in (1, 2):
        windows.change(window(at(10), total=total))
        windows.publish_at(at(10))
    assert windows.gold("total") == [(2,)]


@pytest.mark.slow
@pytest.mark.parametrize("name", [
    "known", "differs", "corrects", "old_status", "old_revision", "written", "joined", "b", "n",
])  # fmt: skip
def test_a_measure_may_have_any_name_that_a_pipeline_allows(tmp_path: Path, name: str) -> None:
    windows = Windows(tmp_path, measures={name: T.LongType()})
    for close, value in ((at(10), 1), (at(10, 10), 2), (at(10, 10), 3)):
        windows.change(window(at(10), key="a", **{name: value}))
        windows.publish_at(close)
    assert windows.gold(name, "status", "revision") == [(3, "corrected", 1)]


def test_gold_can_be_filtered_by_text_in_pandas_and_duckdb_after_windows_were_replaced(
    windows: Windows,
) -> None:
    windows.change(window(at(10), key="a", total=1), window(at(10), key="b", total=1))
    windows.publish_at(at(10))
    windows.change(window(at(10), key="a", total=2))
    windows.publish_at(at(10))
    gold = windows.gold_table()
    assert gold.to_pandas(filters=[("key", "=", "a")])["total"].to_list() == [2]
    assert query("SELECT total FROM gold WHERE key = 'a'", gold=gold.to_pyarrow_dataset()) == [(2,)]
    assert windows.publish_at(at(10, 10)).published_windows == 2


def test_publishing_twice_is_publishing_once(windows: Windows) -> None:
    windows.change(window(at(10), key="a", total=1))
    pinned = windows.pin(at(10, 10))
    first = windows.publish(pinned)
    again = windows.publish(pinned, run_id="again")
    assert windows.gold_table().version() == first.gold == again.gold
    assert (first.published_windows, again.published_windows) == (1, 0)
    assert windows.gold("updated_by") == [("run",)]


def test_the_range_of_what_a_run_changed_is_told_again_when_its_publish_is_repeated(
    windows: Windows,
) -> None:
    """Killed behind its commit, the first publish told nobody."""
    windows.change(window(at(10, 50), key="a", total=1), window(at(9, 50), key="b", total=1))
    pinned = windows.pin(at(9))
    first = windows.publish(pinned)
    expected = Published(windows=2, start_ms=millis(at(9, 50)), end_ms=millis(at(11)))
    assert first.published == expected
    # What may come behind it: a fence, and maintenance.
    windows.gold_table().alter.set_table_properties(
        {"tidemark.lease": "7"}, raise_if_not_exists=False
    )
    assert windows.publish(pinned).published == expected
    assert windows.publish(pinned, run_id="another").published is None
    # A backfill may publish between a try that died and the next one; no other run can.
    windows.change(window(at(8), key="mended", total=1))
    mended = windows.publish(windows.pin(at(9)), run_id="mend", trigger="backfill")
    assert mended.published_windows == 1
    assert windows.publish(pinned).published == expected
    assert windows.publish(pinned, run_id="another").published is None


def test_what_a_try_published_that_died_is_told_by_the_next_one_with_what_that_finds(
    windows: Windows,
) -> None:
    """A run that is begun anew is another one by its start."""
    windows.change(window(at(10), key="a", total=1))
    windows.publish(windows.pin(at(9)))
    again = windows.publish(windows.pin(at(9)), began=at(12, 5))
    first = Published(windows=1, start_ms=millis(at(10)), end_ms=millis(at(10, 10)))
    assert (again.published_windows, again.published) == (0, first)
    windows.change(window(at(11), key="b", total=2))
    more = windows.publish(windows.pin(at(9)), began=at(12, 10))
    both = Published(windows=2, start_ms=millis(at(10)), end_ms=millis(at(11, 10)))
    assert (more.published_windows, more.published) == (1, both)
    (last, *_) = windows.gold_table().history(1)
    note = note_of(last)
    assert isinstance(note, PublishedNote)
    assert (note.windows, note.start_ms) == (1, millis(at(11))), "each commit tells its own"


def test_what_the_tries_of_a_backfill_published_is_told_together(windows: Windows) -> None:
    """The first died behind gold's commit, a run published, and the second found more."""
    for start, run_id, trigger in (
        (8, "mend", "backfill"),
        (9, "run", None),
        (7, "mend", "backfill"),
    ):
        windows.change(window(at(start), key="a", total=start))
        windows.publish(windows.pin(at(9)), run_id, trigger)
    expected = Published(windows=2, start_ms=millis(at(7)), end_ms=millis(at(8, 10)))
    assert published_before(windows.gold_table(), "mend", "backfill") == expected


def test_a_run_that_changed_no_window_tells_no_range_though_it_committed(windows: Windows) -> None:
    windows.change(window(at(10), key="a", total=3))
    windows.publish_at(at(10), run_id="run-1")
    windows.change(window(at(10), key="a", total=3))
    pinned = windows.pin(at(10))
    assert windows.publish(pinned, run_id="run-2").published is None
    assert windows.publish(pinned, run_id="run-2").published is None


def test_the_pins_of_a_held_run_are_nothing_to_do_once_a_later_run_is_published(
    windows: Windows,
) -> None:
    windows.change(window(at(10), key="a", total=1))
    held = windows.pin(at(10, 10))
    windows.change(window(at(10, 10), key="a", total=2))
    later = windows.publish_at(at(10, 20), run_id="later")
    before = windows.gold("total", "status", "updated_by")
    assert before == [(1, "final", "later"), (2, "final", "later")]
    assert windows.publish(held, run_id="held").gold == later.gold == windows.gold_table().version()
    assert windows.gold("total", "status", "updated_by") == before


def test_a_frontier_that_would_go_back_leaves_windows_final(windows: Windows) -> None:
    windows.change(window(at(10), key="a", total=1))
    windows.publish_at(at(10, 10))
    windows.change(window(at(10), key="b", total=1))
    windows.publish_at(at(9))
    assert windows.gold("key", "status", "revision") == [("a", "final", 0), ("b", "final", 0)]
    assert gold_state(windows.gold_table()).close_ms == millis(at(10, 10))


def test_a_commit_carries_the_pins_as_transactions(windows: Windows) -> None:
    assert gold_state(windows.gold_table()).changes == -1
    version = windows.change(window(at(10), key="a", total=1))
    windows.publish(windows.pin(at(10, 10), bronze=42))
    gold = windows.gold_table()
    found = {app: gold.transaction_version(app) for app in ("changes", "bronze", "generation")}
    assert found == {"changes": version, "bronze": 42, "generation": 1}
    assert gold.transaction_version("close") == millis(at(10, 10))
    assert gold.version() == 1, "rows and transactions stand in one commit"
    actions = commit_actions(gold)
    assert {next(iter(action)) for action in actions} >= {"add", "txn"}


def test_a_commit_that_replaces_windows_carries_the_pins_too(windows: Windows) -> None:
    windows.change(window(at(10), key="a", total=1))
    windows.publish_at(at(10))
    version = windows.change(window(at(10), key="a", total=2))
    windows.publish(windows.pin(at(10, 10), bronze=43))
    gold = windows.gold_table()
    assert gold_state(gold).changes == version
    assert gold_state(gold).close_ms == millis(at(10, 10))
    assert (gold.transaction_version("bronze"), gold.version()) == (43, 2)


def test_a_frontier_that_moves_over_no_window_is_recorded_without_rows(windows: Windows) -> None:
    windows.change(window(at(10), key="a", total=1))
    windows.publish_at(at(10, 10))
    files = windows.gold_table().file_uris()
    result = windows.publish_at(at(10, 20))
    assert gold_state(windows.gold_table()).close_ms == millis(at(10, 20))
    assert windows.gold_table().file_uris() == files
    assert (result.published_windows, result.gold) == (0, windows.gold_table().version())


def test_an_empty_first_publish_leaves_gold_empty(windows: Windows) -> None:
    result = windows.publish_at(None)
    assert (windows.gold("key"), result.published_windows) == ([], 0)


def test_files_of_other_dates_are_not_rewritten(windows: Windows) -> None:
    days = range(1, 6)
    windows.change(*[window(at(10, day=day), key=key, total=1) for day in days for key in "ab"])
    windows.publish_at(at(10, 10, day=3))
    before = files_by_date(windows.gold_table())
    windows.change(window(at(10, day=2), key="a", total=2))
    windows.publish_at(at(10, 10, day=4))
    after = files_by_date(windows.gold_table())
    assert list(before) == [f"2026-07-{day:02}" for day in days]
    rewritten = {day for day in after if after[day] != before[day]}
    assert rewritten == {"2026-07-02", "2026-07-04"}
    expected = ["final", "final", "corrected", *["final"] * 5, *["provisional"] * 2]
    assert [row[0] for row in windows.gold("status")] == expected


def test_files_of_other_dates_are_not_even_read(windows: Windows) -> None:
    windows.change(*[window(at(10, day=day), key="a", total=1) for day in range(1, 8)])
    windows.publish_at(at(10, 10, day=5))
    files = files_by_date(windows.gold_table())
    for day in (1, 3, 4, 7):
        Path(files[f"2026-07-{day:02}"][0].removeprefix("file://")).unlink()
    windows.change(window(at(10, day=2), key="a", total=2))
    result = windows.publish_at(at(10, 10, day=6))
    assert result.published_windows == 2
    # Those of the seventh day, whose file is gone, cannot be counted.
    assert result.open_windows is None


def test_a_publish_tells_how_many_windows_are_open_then(windows: Windows) -> None:
    windows.change(*[window(at(10, minute), key="a", total=1) for minute in (10, 20, 40)])
    assert windows.publish_at(at(10, 40)).open_windows == 1
    assert windows.publish_at(at(11)).open_windows == 0
    assert windows.publish_at(at(11)).open_windows == 0


def test_only_changed_windows_stand_in_a_commit_of_new_ones(windows: Windows) -> None:
    windows.change(window(at(10), key="a", total=1))
    windows.publish_at(at(10))
    windows.change(window(at(10), key="a", total=1), window(at(11), key="a", total=1))
    windows.publish_at(at(10))
    assert rows_written(windows.gold_table()) == 1


def test_a_pin_that_the_store_does_not_show_yet_can_be_tried_again(windows: Windows) -> None:
    windows.change(window(at(10), key="a", total=1))
    with pytest.raises(StorageUnavailable, match="is at version 1, the run pinned 2"):
        windows.publish(windows.pin(at(10), changes=2))
    assert windows.gold_table().version() == 0


def test_a_gold_that_is_gone_is_named(tmp_path: Path) -> None:
    windows = Windows(tmp_path)
    pinned = windows.pin(at(10))
    (tmp_path / "gold").rename(tmp_path / "elsewhere")
    with pytest.raises(TableMismatch, match=str(tmp_path / "gold")):
        windows.publish(pinned)


def test_bronze_alone_is_noted_by_a_commit_without_rows(windows: Windows) -> None:
    windows.change(window(at(10), key="a", total=1))
    before = windows.publish_at(at(10))
    result = windows.publish(windows.pin(at(10), bronze=30))
    assert (result.gold, result.published_windows) == ((before.gold or 0) + 1, 0)
    assert gold_state(windows.gold_table()).bronze == 30
    assert windows.publish(windows.pin(at(10), bronze=31)).gold == result.gold


def test_an_older_run_published_late_does_not_seal_what_a_newer_one_found_open(
    windows: Windows,
) -> None:
    """Append mode: the newer publish leaves the seal's rows out, and the engine emits later."""
    windows.change(window(at(10), key="a", total=1), cause="seal")
    sealing = windows.pin(at(10, 10), bronze=1)
    windows.change(window(at(9), key="a", total=1))
    newer = windows.publish(windows.pin(at(9, 10), bronze=2))
    assert windows.gold("window_start") == [(at(9),)]
    assert windows.publish(sealing).gold == newer.gold
    assert gold_state(windows.gold_table()).close_ms == millis(at(9, 10))
