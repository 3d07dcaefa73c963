"""Which values gold ever showed, held against a gold that is published to step by step."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.running import Place
from tests.kit.windows import at, window
from tests.runs.pipelines import begun
from tidemark.runs.recorded_runs import record_interrupted_run
from tidemark.storage.delta.notes import AcceptedNote
from tidemark.story import explain
from tidemark.story import values as story_values
from tidemark.story.explain import story_of
from tidemark.story.known_runs import KnownPublish, KnownRuns
from tidemark.story.story import RowValue
from tidemark.story.values import _by_acts, judged
from tidemark.upkeep.accept_changes import _accept
from tidemark.upkeep.record import REWIND, append_upkeep

NOW = datetime(2026, 7, 1, tzinfo=UTC)


class Known(KnownRuns):
    """Runs of which all have a row."""

    def started(self, run: str | None) -> datetime | None:
        return NOW

    publishes = ()  # type: ignore[assignment]


STEPS = st.lists(
    st.tuples(
        # What a run appends: how many values, and whether it ends with a publish.
        st.lists(st.sampled_from(["stream", "late", "seal"]), max_size=3),
        st.booleans(),
        st.integers(-1, 1),
    ),
    max_size=12,
)


@given(STEPS)
def test_a_value_was_shown_where_gold_had_it_after_a_publish(
    steps: list[tuple[list[str], bool, int]],
) -> None:
    values, publishes, shown = list[RowValue](), list[KnownPublish](), dict[int, str]()
    version, pinned = 0, 0
    for number, (causes, publishes_now, close) in enumerate(steps):
        for cause in causes:
            version += 1
            end = {"window_end": NOW}
            values.append(RowValue(end, 1, cause, f"run-{number}", None, 1, version, NOW))
        if publishes_now:
            frontier = NOW + close * timedelta(hours=1)
            publishes.append(KnownPublish(f"run-{number}", 1, version, frontier))
            taken = [one for one in values if one.version is not None and one.version > pinned
                     and (one.cause != "seal" or frontier >= NOW)]  # fmt: skip
            if taken:
                assert taken[-1].version is not None
                shown[taken[-1].version] = f"run-{number}"
            pinned = version
    runs = Known(Place(root=None).warehouse, "t")  # type: ignore[arg-type]
    found = {one.version: one for one in judged(values, publishes, runs)}
    assert {v: one.published_by for v, one in found.items() if one.published} == shown
    assert all(one.published is not None for one in found.values())


# What is undone, and the runs since, which it takes back.
Rewind = tuple[str | None, list[str]]
BACK: Rewind = (None, ["r2"])


@pytest.mark.parametrize(
    ("rewinds", "undone"),
    [
        ([BACK], "R0"),
        ([BACK, ("R0", ["R0"])], None),
        ([BACK, ("R0", ["R0"]), ("R1", ["R1"])], "R0"),
        # One that went less far, one that went further, and an undo over both.
        ([(None, ["r3"]), (None, ["r2", "R0"]), ("R0", ["R0", "R1"])], None),
        ([(None, ["r3"]), BACK, ("R1", ["R1"])], None),
        ([BACK, (None, ["R0", "r1"]), ("R1", ["R1"])], "R0"),
    ],
)
def test_a_rewind_counts_unless_an_undo_that_counts_goes_behind_it(
    tmp_path: Path, rewinds: list[Rewind], undone: str | None
) -> None:
    warehouse = Place(tmp_path).warehouse
    for number, (undoes, runs) in enumerate(rewinds):
        one = {"id": f"R{number}", "undoes": undoes, "runs": runs}
        row = {"run": f"R{number}", "time": NOW + timedelta(hours=number), "rewind": one}
        append_upkeep(warehouse.upkeep, [{"pipeline": "clicks", "kind": REWIND, **row}])
    before = NOW - timedelta(hours=1)
    value = RowValue({}, 1, "stream", "r2", None, 1, 2, before)
    assert _by_acts(value, KnownRuns(warehouse, "per_10m")).undone == undone


@pytest.mark.parametrize(("close", "shown"), [(at(10, 10), "run"), (at(10, 9), None)])
def test_a_seal_of_a_run_that_was_killed_behind_its_publish_is_in_gold_once_gold_is_closed(
    tmp_path: Path, close: datetime, shown: str | None
) -> None:
    place = Place(tmp_path)
    windows = place.windows()
    begun(place)
    windows.change(window(at(10), key="a", total=1), cause="seal", batch=None)
    windows.publish_at(close)
    record_interrupted_run(place.pipeline, place.warehouse)
    assert len(windows.gold("key")) == (1 if shown else 0)
    (value,) = story_of(place.pipeline, place.settings, "per_10m", at(10), {"key": "a"}).values
    assert value.published_by == shown


def test_of_many_values_the_newest_are_told_and_all_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(story_values, "MOST_VALUES", 3)
    place = Place(tmp_path)
    windows = place.windows()
    begun(place)
    for number in range(6):
        one = window(at(10), key="a", rows=number + 1, total=number)
        windows.change(one, cause="late", batch=None, run=f"run-{number}")
    windows.publish_at(at(10, 30), "run-5")
    record_interrupted_run(place.pipeline, place.warehouse)
    story = story_of(place.pipeline, place.settings, "per_10m", at(10), {"key": "a"})
    assert [one.run for one in story.values] == ["run-3", "run-4", "run-5"]
    assert [one.published for one in story.values] == [None, None, True]
    told = "Generation 1 has 6 values of the row; the newest 3 of these are told."
    assert told in story.notes


def test_that_an_acceptance_is_out_of_the_newest_commits_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain, "_RECENT", 2)
    place = Place(tmp_path)
    windows = place.windows()
    begun(place)
    windows.change(window(at(10), key="a", total=1))
    windows.publish_at(at(10, 30))
    note = AcceptedNote(up_to=0, reason="meant", by="me")
    _accept(place.warehouse.gold("per_10m"), note)

    def found() -> tuple[int, list[str]]:
        story = story_of(place.pipeline, place.settings, "per_10m", at(10), {"key": "a"})
        return len(story.accepted), [one for one in story.notes if "by hand" in one]

    assert found() == (1, [])
    for minute in (40, 50):
        windows.change(window(at(10, minute), key="a", total=1))
        windows.publish_at(at(10, minute))
    told = "Changes by hand of gold up to version 0 were accepted; by whom, its newest 2 commits"
    assert found() == (0, [f"{told} do not tell."])
