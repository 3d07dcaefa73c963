"""Random pipelines and random runs of rows for them, each made by one number."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from tests.kit.running import clicks

DAY = datetime(2026, 7, 1, 10, tzinfo=UTC)
# The batch's time is the wall clock's: a row of the future must be so for years to come.
FUTURE = datetime(2999, 1, 1, tzinfo=UTC)

# Length and slide in minutes: tumbling, sliding, and lengths that are no multiple of the slide.
WINDOWS = [(10, 10), (10, 5), (10, 4), (15, 10), (7, 3), (30, 10)]
MODES = ["update", "append", "complete"]
MEASURES = {"events": "count(*)", "amount": "sum(amount)", "biggest": "max(amount)"}

# Minutes behind the run's own time; most rows come soon.
LATENESS = [0, 0, 1, 2, 3, 5, 8, 13, 20, 34, 60]
# A good part on whole minutes, so that ends of windows and watermarks meet exactly.
SECONDS = [0, 0, 0, 30, 59.999, 59.999999]


@dataclass(frozen=True)
class OneRun:
    """A run: its files of lines, its scheduled time, and whether its publish is held.

    `then_publish` is the number of an earlier held run whose publish is tried after this run.
    """

    files: tuple[tuple[str, ...], ...]
    scheduled: datetime
    hold: bool
    then_publish: int | None


@dataclass(frozen=True)
class Case:
    """A pipeline's content, and its runs, the last of which is published."""

    content: Mapping[str, Any]
    runs: tuple[OneRun, ...]

    @property
    def text(self) -> str:
        """The case as code that builds it again."""
        return f"{self.content!r}\n" + "\n".join(repr(run) for run in self.runs)


def random_case(seed: int, most_runs: int) -> Case:
    """The case of a number: the same number gives the same case."""
    chance = Random(seed)
    content = _content(chance)
    runs: list[OneRun] = []
    now, number = 0, 0
    # Mostly few: a rule that fails at the fifth run fails at a third one in some other case.
    count = chance.choice([*[2] * 5, *[3] * 3, min(4, most_runs), most_runs])
    for at in range(count):
        now += chance.choice([0, 5, 15, 40])
        files = _files(chance, now, number)
        number += sum(len(lines) for lines in files)
        scheduled = DAY + timedelta(minutes=now + chance.choice([0, 15, 45, 200]))
        earliest = runs[-1].scheduled if runs else scheduled
        hold = at < count - 1 and chance.random() < 0.4
        held = [earlier for earlier, run in enumerate(runs) if run.hold]
        then_publish = chance.choice(held) if held and chance.random() < 0.6 else None
        runs.append(OneRun(files, max(scheduled, earliest), hold, then_publish))
    return Case(content, tuple(runs))


def _content(chance: Random) -> dict[str, Any]:
    """A pipeline of up to three tables, each of another output mode."""
    modes = chance.sample(MODES, chance.choice([1, 1, 2, 3]))
    source = clicks()["source"]
    source["columns"] |= {"n": "long not null", "id": "long"}
    if chance.random() < 0.5:
        source["unique"] = {"by": "id", "within": f"{chance.choice([1, 10, 30])} minutes"}
    watermark = {"delay": f"{chance.choice([5, 10])} minutes"}
    if chance.random() < 0.6:
        watermark["seal_after_idle"] = f"{chance.choice([10, 30])} minutes"
    in_a_batch = chance.choice([None, None, None, 1, 2])
    return clicks(
        source=source,
        watermark=watermark,
        tables={f"{mode}_table": _table(chance, mode) for mode in modes},
        advanced={"max_files_per_batch": in_a_batch} if in_a_batch else {},
    )


def _table(chance: Random, mode: str) -> dict[str, Any]:
    length, slide = chance.choice(WINDOWS)
    return {
        "window": {"length": f"{length} minutes", "slide": f"{slide} minutes"},
        "group_by": chance.choice([["key"], ["key"], []]),
        "measures": MEASURES,
        "output_mode": mode,
        "accept_unbounded_state": mode == "complete",
    }


def _files(chance: Random, now: int, number: int) -> tuple[tuple[str, ...], ...]:
    """The files of one run; a third of the runs is idle."""
    files = []
    for _ in range(chance.choice([0, 0, 1, 1, 2, 3])):
        lines = chance.randint(1, 15)
        files.append(tuple(_line(chance, now, number + at) for at in range(lines)))
        number += lines
    return tuple(files)


def _line(chance: Random, now: int, number: int) -> str:
    kind = chance.random()
    if kind < 0.05:
        return f'{{"cut off": {number}'
    minutes = now - chance.choice(LATENESS)
    at = DAY + timedelta(minutes=minutes, seconds=chance.choice(SECONDS))
    row = {
        "at": (FUTURE if kind < 0.1 else at).isoformat(),
        "key": chance.choice(["a", "b", "ä c", None]),
        "amount": chance.choice([None, -5, 0, 1, 2]),
        "id": chance.choice([None, *range(40)]),
        "n": number,
    }
    return json.dumps(row)
