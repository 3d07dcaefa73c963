"""Random sessions: a table, and runs of rows that touch, join and come late, made by one number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Literal

from tests.kit.running import clicks
from tests.operators.contract.kinds import (
    DAY,
    MINUTE,
    TABLE,
    Kind,
    KindPlace,
    Row,
    session_table,
    sessions,
)
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.model import Pipeline, SessionTable

# In seconds; the delay of the watermark is shorter than some and longer than others.
GAPS = [1, 60, 180, 360, 450, 900, 2_400]
DELAYS = [1, 300, 600]
# Behind the run's own time, in minutes; most rows come soon.
LATENESS = [0, 0, 0, 1, 2, 3, 5, 8, 13, 20, 34, 60, 100]
POINTS = ("accepted rows", "windows of the stream", "recomputed windows", "gold")
TICK = timedelta(microseconds=1)


@dataclass(frozen=True)
class OneRun:
    """A run: its files of rows, its scheduled time, whether its publish is held, and where its
    process ends first (None: nowhere)."""

    files: Sequence[Sequence[Row]]
    scheduled: datetime
    hold: bool
    ends: tuple[Literal["before", "after"], str] | None

    @property
    def rows(self) -> list[Row]:
        return [row for rows in self.files for row in rows]


@dataclass(frozen=True)
class Case:
    """A table with its watermark, and its runs, the last of which is published."""

    table: SessionTable
    watermark: dict[str, str]
    advanced: dict[str, Any]
    runs: Sequence[OneRun]

    def at(self, root: Path) -> CasePlace:
        kind = Kind("sessions", self.table, sessions(self.table))
        return CasePlace(root, kind=kind, case=self)


@dataclass
class CasePlace(KindPlace):
    """A root whose pipeline is that of a case."""

    case: Case = field(kw_only=True)

    @property
    def pipeline(self) -> Pipeline:
        content = clicks(watermark=self.case.watermark, advanced=self.case.advanced)
        pipeline = pipeline_from_mapping(self.name, content)
        return pipeline.model_copy(update={"tables": {TABLE: self.case.table}})


def random_sessions(seed: int) -> Case:
    """The case of a number: the same number gives the same case."""
    draw = Random(seed)
    gap, delay = draw.choice(GAPS), draw.choice(DELAYS)
    mode = draw.choice(["append", "append", "append", "complete"])
    watermark = {"delay": f"{delay} seconds"}
    if draw.random() < 0.5:
        watermark["seal_after_idle"] = f"{draw.choice([10, 30])} minutes"
    in_a_batch = draw.choice([None, None, 1, 2])
    return Case(
        session_table(mode, timedelta(seconds=gap)),
        watermark,
        {"max_files_per_batch": in_a_batch} if in_a_batch else {},
        _runs(draw, gap, delay),
    )


def _runs(draw: Random, gap: int, delay: int) -> Sequence[OneRun]:
    runs: list[OneRun] = []
    # A number of times around which many rows lie a gap apart, or a microsecond more.
    now, count, scheduled = 0, draw.choice([2, 3, 3, 4, 5]), datetime.min.replace(tzinfo=UTC)
    seen: list[datetime] = [DAY]
    for number in range(count):
        now += draw.choice([0, 3, 10, 20, 45])
        files = [
            [_row(draw, now, gap, delay, seen) for _ in range(draw.randint(1, 8))]
            for _ in range(draw.choice([0, 1, 1, 2, 3]))
        ]
        scheduled = max(scheduled, DAY + (now + draw.choice([0, 0, 15, 45, 200])) * MINUTE)
        hold = number < count - 1 and draw.random() < 0.25
        when: Literal["before", "after"] = draw.choice(["before", "after"])
        ends = (when, draw.choice(POINTS)) if draw.random() < 0.3 else None
        runs.append(OneRun(files, scheduled, hold, ends))
    return runs


def _row(draw: Random, now: int, gap: int, delay: int, seen: list[datetime]) -> Row:
    """At some time, or exactly, or nearly, so far from another row or from the watermark that it
    touches it."""
    near, away = draw.random(), timedelta(seconds=gap)
    at = DAY + (now - draw.choice(LATENESS)) * MINUTE
    if near < 0.25:
        at = draw.choice(seen[-12:]) + draw.choice([-away, away])
    elif near < 0.35:
        at = max(seen) - timedelta(seconds=delay) - draw.choice([away, away * 2])
    elif near < 0.5:
        at += timedelta(seconds=draw.choice([30, 59.999, 59.999999]))
    at += draw.choice([0, 0, 0, 0, -1, 1]) * TICK
    seen.append(at)
    key = draw.choice(["a", "a", "b", "ä c", None])
    return {"at": at, "key": key, "amount": draw.choice([-5, 0, 1, 2])}
