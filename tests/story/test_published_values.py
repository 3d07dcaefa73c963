"""Which values gold ever showed, held against a gold that is published to step by step."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.running import Place
from tidemark.story.known_runs import KnownPublish, KnownRuns
from tidemark.story.story import RowValue
from tidemark.story.values import judged

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
