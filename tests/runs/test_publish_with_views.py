"""A publish that fails behind one of its tables, or at a view, or that was killed, says what it
published, and so does its repetition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kit.windows import Windows, at, window
from tests.quality.held import TABLE, Held
from tests.runs.pipelines import begun
from tidemark import commit_point
from tidemark.gold import publish
from tidemark.runs.recorded_runs import record_run
from tidemark.story.explain import story_of


def published(held: Held) -> list[tuple[str, int | None]]:
    """Of each run: how it came out, and how many windows it published."""
    rows = held.place.table(held.place.places.runs).to_pylist()
    return [(one["outcome"], one["tables"][0]["windows_published"]) for one in rows]


def test_a_run_whose_view_is_broken_has_failed_and_says_what_it_published(tmp_path: Path) -> None:
    held = Held(tmp_path, [])
    begun(held.place)
    views = {"large": {"having": "total * 9223372036854775807 > 1"}}
    held.place.content = {**held.place.content, "tables": {"per_10m": TABLE | {"views": views}}}
    broken = held.publish(held.run(window(at(10), key="a", total=3), close=at(11)))
    assert broken.error is not None
    assert (broken.error.type, broken.error.retry_can_help) == ("ViewBroken", False)
    (told,) = held.place.table(held.place.places.runs).to_pylist()
    assert (told["outcome"], broken.held) == ("failed", False)
    assert broken.tables["per_10m"].gold == held.windows.gold_table().version()
    assert broken.tables["per_10m"].published_windows == 1
    assert published(held) == [("failed", 1)]
    assert held.publish(broken).error is not None
    assert published(held) == [("failed", 1)]
    held.place.content = {**held.place.content, "tables": {"per_10m": TABLE}}
    assert held.publish(broken).error is None
    assert published(held) == [("succeeded", 1)]


def test_a_run_that_fails_at_its_second_table_tells_the_publish_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(tmp_path, [])
    place = held.place
    place.content = {**place.content, "tables": {"per_10m": TABLE, "other": TABLE}}
    other = Windows(Path(place.places.gold("other")).parent)
    one = window(at(10), key="a", total=3)
    other.change(one)
    run = held.run(one, close=at(11))
    run = run.model_copy(update={"tables": {**run.tables, "other": other.pin(at(11))}})
    commit = publish._commit

    def failing(gold: Any, *given: Any) -> None:
        if "/other/" in gold.table_uri:
            raise OSError(28, "No space left on device")
        commit(gold, *given)

    monkeypatch.setattr(publish, "_commit", failing)
    with pytest.raises(OSError, match="No space left"):
        held.publish(run)
    (told,) = place.table(place.places.runs).to_pylist()
    found = [
        (one["table"], one["gold_version"], one["windows_published"]) for one in told["tables"]
    ]
    assert (told["outcome"], found) == ("failed", [("per_10m", 1, 1), ("other", None, None)])
    (value,) = story_of(place.pipeline, place.settings, "per_10m", at(10), {"key": "a"}).values
    assert (value.published, value.published_by) == (True, "run")


def test_a_publish_that_is_killed_behind_golds_commit_and_repeated_says_what_both_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(tmp_path, [])
    begun(held.place)
    run = held.run(window(at(10), key="a", total=3), window(at(10), key="b"), close=at(11))
    record_run(held.place.warehouse.runs, run)

    def end(reached: str, moment: str, _: Any) -> None:
        if (reached, moment) == ("gold", "after"):
            # What no step tells, as a kill.
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(commit_point, "on_reach", end)
        with pytest.raises(KeyboardInterrupt):
            held.publish(run)
    assert published(held) == [("held", None)]
    assert held.publish(run).error is None
    assert published(held) == [("succeeded", 2)]
