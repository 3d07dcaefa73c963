"""A publish whose view cannot be shown says what it published."""

from __future__ import annotations

from pathlib import Path

from tests.kit.windows import at, window
from tests.quality.held import TABLE, Held


def test_a_run_whose_view_is_broken_has_failed_and_says_what_it_published(tmp_path: Path) -> None:
    held = Held(tmp_path, [])
    views = {"large": {"having": "total * 9223372036854775807 > 1"}}
    held.place.content = {**held.place.content, "tables": {"per_10m": TABLE | {"views": views}}}
    broken = held.publish(held.run(window(at(10), key="a", total=3), close=at(11)))
    assert broken.error is not None
    assert (broken.error.type, broken.error.retry_can_help) == ("ViewBroken", False)
    (told,) = held.place.table(held.place.places.runs).to_pylist()
    assert (told["outcome"], broken.held) == ("failed", False)
    assert broken.tables["per_10m"].gold == held.windows.gold_table().version()
    assert broken.tables["per_10m"].published_windows == 1
