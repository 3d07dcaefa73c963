"""Publish takes a window from gold whose newest change has no rows."""

from __future__ import annotations

from pathlib import Path

from tests.kit.windows import Windows, at, window


def test_a_window_without_rows_goes_and_its_neighbours_stay(tmp_path: Path) -> None:
    table = Windows(tmp_path)
    table.change(window(at(10), key="a", total=1), window(at(10), key=None, total=2))
    table.publish_at(at(11))
    table.change(window(at(10), rows=0, key=None, total=None))
    published = table.publish_at(at(11), "again")
    assert table.gold("key", "total", "revision", "updated_by") == [("a", 1, 0, "run")]
    assert published.published_windows == 1


def test_the_last_window_of_a_date_can_go(tmp_path: Path) -> None:
    table = Windows(tmp_path)
    table.change(window(at(10), key="a", total=1), window(at(10, day=2), key="a", total=2))
    table.publish_at(at(11, day=2))
    table.change(window(at(10), rows=0, key="a", total=None))
    table.publish_at(at(11, day=2))
    assert table.gold("window_start") == [(at(10, day=2),)]


def test_a_window_that_gold_never_had_is_not_written(tmp_path: Path) -> None:
    table = Windows(tmp_path)
    table.change(window(at(10), rows=0, key="a", total=None))
    assert table.publish_at(at(11)).published_windows == 0
    assert table.gold("key") == []


def test_of_several_changes_the_last_one_decides_whether_it_goes(tmp_path: Path) -> None:
    table = Windows(tmp_path)
    table.change(window(at(10), key="a", total=1))
    table.publish_at(at(11))
    table.change(window(at(10), rows=0, key="a", total=None))
    table.change(window(at(10), rows=2, key="a", total=7))
    table.publish_at(at(11))
    assert table.gold("key", "total", "status", "revision") == [("a", 7, "corrected", 1)]


def test_a_window_that_went_comes_back_as_a_new_one(tmp_path: Path) -> None:
    table = Windows(tmp_path)
    table.change(window(at(10), key="a", total=1))
    table.publish_at(at(11))
    table.change(window(at(10), rows=0, key="a", total=None))
    table.publish_at(at(11))
    table.change(window(at(10), rows=1, key="a", total=1))
    table.publish_at(at(11))
    assert table.gold("key", "total", "status", "revision") == [("a", 1, "final", 0)]
