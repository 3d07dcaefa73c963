"""Whatever is published in whatever groups, gold is what a small model in Python says."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as T

from tests.kit.windows import LENGTH, Windows, at, window
from tidemark.gold import spans

# Windows on both sides of midnight; the frontier may stand at each of their ends.
STARTS = [at(23, 30) + LENGTH * n for n in range(8)]
KEYS = [None, "", "a"]
# Stands for a measure that cannot be computed.
FAILS = -1.0
WINDOW_KEYS = [(start, key) for start in STARTS for key in KEYS]

Key = tuple[datetime, Any]


@dataclass(frozen=True)
class Step:
    """A run: the windows that its stream changed, its watermark, and whether it is published."""

    changed: dict[Key, tuple[int, float | None]]
    watermark: int
    published: bool


@dataclass(frozen=True)
class State:
    total: int
    average: float | None
    status: str
    revision: int


@dataclass
class Model:
    close: datetime = STARTS[0]
    gold: dict[Key, State] = field(default_factory=dict)

    def publish(self, changes: dict[Key, tuple[int, float | None]], close: datetime) -> None:
        before, self.close = self.close, max(self.close, close)
        for key, (total, average) in changes.items():
            if average == FAILS:
                self.gold.pop(key, None)
                continue
            old = self.gold.get(key)
            if old is None or (old.total, old.average) != (total, average):
                corrects = old is not None and key[0] + LENGTH <= before
                status = "corrected" if corrects else old.status if old else "provisional"
                revision = (old.revision if old else 0) + corrects
                self.gold[key] = State(total, average, status, revision)
        for key, row in self.gold.items():
            if row.status == "provisional" and key[0] + LENGTH <= self.close:
                self.gold[key] = replace(row, status="final")


steps = st.lists(
    st.builds(
        Step,
        changed=st.dictionaries(
            st.sampled_from(WINDOW_KEYS),
            st.tuples(st.integers(0, 2), st.sampled_from([None, 0.1, 1e9, FAILS])),
            max_size=6,
        ),
        watermark=st.integers(0, len(STARTS)),
        published=st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.slow
@settings(max_examples=15)
@given(steps, st.sampled_from([1, 2, 64]))
def test_gold_is_what_the_model_says_after_each_publish(runs: list[Step], most: int) -> None:
    """Old pins, published again, change nothing."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(spans, "MOST_SPANS", most)
        windows = windows_in(folder)
        grouped, pending = Model(), {}
        held = []
        for run in last_published(runs):
            append(windows, run)
            pending |= run.changed
            held.append(windows.pin(STARTS[0] + LENGTH * run.watermark))
            if not run.published:
                continue
            version = windows.publish(highest(held)).gold
            grouped.publish(pending, datetime_of(held))
            pending = {}
            assert gold(windows) == grouped.gold
            assert {windows.publish(pinned).gold for pinned in held} == {version}


@pytest.mark.slow
@settings(max_examples=10)
@given(steps)
def test_values_do_not_depend_on_which_runs_were_published_together(runs: list[Step]) -> None:
    single = Model()
    with tempfile.TemporaryDirectory() as folder:
        windows = windows_in(folder)
        held = []
        for run in last_published(runs):
            append(windows, run)
            held.append(windows.pin(STARTS[0] + LENGTH * run.watermark))
            single.publish(run.changed, datetime_of(held))
            if run.published:
                windows.publish(highest(held))
        found = {key: (row.total, row.average, is_open(row)) for key, row in gold(windows).items()}
    assert found == {
        key: (row.total, row.average, is_open(row)) for key, row in single.gold.items()
    }


def last_published(runs: Iterable[Step]) -> list[Step]:
    *others, last = runs
    return [*others, replace(last, published=True)]


def windows_in(folder: str) -> Windows:
    windows = Windows(Path(folder), measures={"total": T.LongType(), "average": T.DoubleType()})
    windows.publish(windows.pin(STARTS[0]))
    return windows


def append(windows: Windows, run: Step) -> None:
    if run.changed:
        windows.change(
            *[
                window(start, key=key, total=total, **measured(average))
                for (start, key), (total, average) in run.changed.items()
            ]
        )


def measured(average: float | None) -> dict[str, Any]:
    return (
        {"average": None, "_failure": "average failed"}
        if average == FAILS
        else {"average": average}
    )


def highest(held: list[Any]) -> Any:
    """The newest pins, with a frontier that never goes back, as a run pins it."""
    return held[-1].model_copy(update={"close_after_ms": max(p.close_after_ms for p in held)})


def datetime_of(held: list[Any]) -> datetime:
    return datetime.fromtimestamp(highest(held).close_after_ms / 1000, UTC)


def gold(windows: Windows) -> dict[Key, State]:
    columns = ("window_start", "key", "total", "average", "status", "revision")
    rows = windows.gold(*columns)
    found = {(start, key): State(*rest) for start, key, *rest in rows}
    assert len(found) == len(rows), "no window stands in gold twice"
    return found


def is_open(row: State) -> bool:
    return row.status == "provisional"
