"""Publishing the same pins twice at once: one commit, and no row twice."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import datetime
from multiprocessing import get_context
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from tests.kit.windows import Windows, at, window
from tidemark.errors import NotPublishable, StorageUnavailable
from tidemark.gold.pins import TableResult


@pytest.fixture
def windows(tmp_path: Path) -> Windows:
    return Windows(tmp_path)


def twice_at_once(windows: Windows, pinned: TableResult) -> list[Any]:
    """Two publishes that have both read gold before one of them commits; results or errors."""
    barrier = Barrier(2, timeout=30)

    def both_have_read() -> None:
        barrier.wait()

    def publish() -> TableResult:
        return windows.publish(pinned, fence=both_have_read)

    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(publish) for _ in range(2)]
    return [one.exception() or one.result() for one in running]


def check_one_won(windows: Windows, ends: list[Any], version: int) -> None:
    lost = [end for end in ends if isinstance(end, StorageUnavailable)]
    assert len(lost) == len(ends) - 1
    assert "got another commit while this publish read version" in str(lost[0])
    assert windows.gold_uri in str(lost[0])
    assert windows.gold_table().version() == version


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "close"),
    [
        ([window(at(11), key="new", total=1)], at(10)),
        ([window(at(10), key="a", total=2)], at(10)),
        ([window(at(10), key="a", total=2), window(at(11), key="new", total=1)], at(10, 10)),
        ([], at(10, 10)),
        ([], at(10, 5)),
    ],
    ids=["new windows", "changed", "both, and closed", "only closed", "only the frontier"],
)
def test_of_two_publishes_that_read_the_same_gold_one_commits_and_the_other_fails(
    windows: Windows,
    changed: list[dict[str, Any]],
    close: datetime,
) -> None:
    windows.change(window(at(10), key="a", total=1))
    windows.publish_at(at(10))
    if changed:
        windows.change(*changed)
    pinned = windows.pin(close)
    ends = twice_at_once(windows, pinned)
    check_one_won(windows, ends, version=2)
    total = 2 if any(row["key"] == "a" for row in changed) else 1
    status = "final" if close == at(10, 10) else "provisional"
    new = [("new", 1, "provisional")] if any(row["key"] == "new" for row in changed) else []
    expected = [("a", total, status), *new]
    assert windows.gold("key", "total", "status") == expected
    assert windows.publish(pinned).published_windows == 0, "the loser's next try"
    assert windows.gold_table().version() == 2


def test_the_first_two_publishes_at_once_append_each_window_once(windows: Windows) -> None:
    windows.change(window(at(10), key="a", total=1))
    pinned = windows.pin(at(10))
    ends = twice_at_once(windows, pinned)
    check_one_won(windows, ends, version=1)
    assert windows.gold("key", "total") == [("a", 1)]


def test_what_a_later_run_left_after_a_held_one_was_published_first_is_published_by_the_next(
    windows: Windows,
) -> None:
    windows.change(window(at(10), key="a", total=1))
    held = windows.pin(at(10))
    windows.change(window(at(10), key="a", total=2))
    later = windows.pin(at(10, 10))
    windows.publish(held)
    with pytest.raises(NotPublishable, match="another publish closed"):
        windows.publish(later)
    windows.publish(windows.pin(at(10, 10)))
    assert windows.gold("key", "total", "status", "revision") == [("a", 2, "final", 0)]


def publish_in_process(folder: Path, pinned: TableResult) -> str:
    try:
        return str(Windows(folder).publish(pinned).published_windows)
    except StorageUnavailable:
        return "lost"


@pytest.mark.slow
def test_processes_that_publish_the_same_pins_leave_each_window_in_gold_once(
    windows: Windows,
) -> None:
    tries = 2
    with ProcessPoolExecutor(tries, mp_context=get_context("spawn")) as pool:
        for number in range(1, 6):
            windows.change(*[window(at(number), key=key, total=number) for key in "abc"])
            pinned = windows.pin(at(number))
            folders = [windows.folder] * tries
            ends = list(pool.map(publish_in_process, folders, [pinned] * tries))
            assert sorted(set(ends) - {"0", "lost"}) in (["3"], ["6"]), ends
            assert windows.gold_table().version() == number
            assert len(windows.gold("key")) == 3 * number
