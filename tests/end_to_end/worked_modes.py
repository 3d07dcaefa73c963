"""The worked examples in each output mode: what every trigger emits, drops, keeps and publishes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable

from tests.end_to_end.kept_queries import kept_queries
from tests.kit.running import REPOSITORY, Place, succeed
from tidemark.gold.pins import TableResult
from tidemark.pipeline.yaml_file import read_document
from tidemark.runs.results.result import RunResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLES = REPOSITORY / "include" / "samples"
MODES = ("update", "append", "complete")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Example:
    """A sample, its pipeline file, table, key and measure, and its triggers' files in order."""

    sample: str
    pipeline: Path
    table: str
    key: str
    measure: str
    files: tuple[str, ...]

    def key_of(self, row: Row) -> tuple[Any, ...]:
        return row["window_start"], row[self.key]

    def place(self, root: Path) -> Place:
        """A root in which the example's table runs in each output mode, under the mode's name."""
        content = read_document(self.pipeline).content
        table = content["tables"][self.table]
        content["tables"] = {
            mode: table | {"output_mode": mode, "accept_unbounded_state": mode == "complete"}
            for mode in MODES
        }
        content["watermark"] = {"delay": "10 minutes", "seal_after_idle": "30 minutes"}
        content["source"].pop("unique", None)
        return Place(root, content, self.sample)


ADS = Example(
    "ad_impressions",
    REPOSITORY / "include" / "pipelines" / "ad_impressions.yaml",
    "spot_10m",
    "spotId",
    "impressions",
    (*(f"trigger-{n}.json" for n in (1, 2, 3)), *(f"further/trigger-{n}.json" for n in (4, 5, 6))),
)
WORDS = Example(
    "words",
    SAMPLES / "words" / "words.yaml",
    "words_10m",
    "word",
    "occurrences",
    tuple(f"trigger-{n}.json" for n in range(1, 6)),
)


@dataclass(frozen=True)
class Step:
    """What one trigger did to one table.

    `emitted` are the rows that it appended to `changes`, by cause. `dropped` is the engine's own
    count; `state` are the state's rows after each of its batches.
    """

    result: TableResult
    emitted: Mapping[str, Sequence[Row]]
    dropped: int
    state: tuple[int, ...]
    gold: Sequence[Row]
    gold_version: int

    @property
    def watermark(self) -> str:
        return clock(datetime.fromtimestamp(self.result.watermark_after_ms / 1000, UTC))


def at(hour: int, minute: int) -> datetime:
    """A time of the examples' day."""
    return datetime(2026, 3, 1, hour, minute, tzinfo=UTC)


def clock(instant: datetime) -> str:
    return instant.astimezone(UTC).strftime("%H:%M")


Steps = dict[str, list[Step]]


def run_example(spark: SparkSession, root: Path, example: Example) -> tuple[Place, Steps]:
    """Run the example trigger by trigger, each a run of its own that is published."""
    place = example.place(root)
    steps: Steps = {mode: [] for mode in MODES}
    seen = dict.fromkeys(MODES, 0)
    for number, file in enumerate(example.files, start=1):
        land(place, example, file, number)
        with kept_queries() as queries:
            result = succeed(spark, place, f"run-{number}", scheduled=at(12, 5 * number))
        for mode in MODES:
            rows = history(place, example, mode)
            progress = [
                one["stateOperators"][0]
                for running in queries
                if running.query.name.endswith(f".{mode}")
                for one in running.query.recentProgress
            ]
            steps[mode].append(
                Step(
                    result.tables[mode],
                    by_cause(rows[seen[mode] :]),
                    sum(one["numRowsDroppedByWatermark"] for one in progress),
                    tuple(one["numRowsTotal"] for one in progress),
                    gold(place, example, mode),
                    DeltaTable(place.places.gold(mode)).version(),
                )
            )
            seen[mode] = len(rows)
    return place, steps


def run_tail(spark: SparkSession, place: Place) -> list[RunResult]:
    """What follows the six triggers of the impressions: the source falls silent, is not idle for
    long enough, is sealed twice, and then a row and a broken line arrive after all."""
    results = [
        succeed(spark, place, f"run-{number}", scheduled=scheduled)
        for number, scheduled in ((7, at(12, 50)), (8, at(13, 0)), (9, at(13, 10)))
    ]
    row = {"timestamp": at(12, 22).isoformat(), "spotId": 303, "impressionId": "imp-90"}
    place.land("trigger-10.json", [row, '{"timestamp": "20'], "landing/ad_impressions")
    return [*results, succeed(spark, place, "run-10", scheduled=at(13, 20))]


def land(place: Place, example: Example, file: str, number: int) -> None:
    """The trigger's file, under a name that the pipeline's pattern matches."""
    folder = place.root / "landing" / example.sample
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"trigger-{number}.json"
    shutil.copyfile(SAMPLES / example.sample / file, target)
    os.utime(target, (1_780_000_000 + number, 1_780_000_000 + number))


def history(place: Place, example: Example, mode: str) -> list[Row]:
    """All rows of `changes` in the order of its commits."""
    changes = DeltaTable(place.places.changes(mode, 1))
    rows = pa.table(changes.load_cdf(starting_version=0)).to_pylist()
    return sorted(rows, key=lambda row: (row["_commit_version"], example.key_of(row)))


def by_cause(rows: Sequence[Row]) -> dict[str, list[Row]]:
    causes = dict.fromkeys(row["cause"] for row in rows)
    return {cause: [row for row in rows if row["cause"] == cause] for cause in causes}


def gold(place: Place, example: Example, mode: str) -> list[Row]:
    return sorted(place.gold(mode).to_pylist(), key=example.key_of)


def windows_text(rows: Sequence[Row], example: Example) -> str:
    """Windows as the page writes them: `12:00: 111 2, 303 1`, one below the other."""
    starts = dict.fromkeys(row["window_start"] for row in rows)
    return "<br>".join(
        f"{clock(start)}: "
        + ", ".join(
            f"{row[example.key]} {row[example.measure]}"
            for row in rows
            if row["window_start"] == start
        )
        for start in starts
    )


def steps_text(steps: Sequence[Step], example: Example) -> str:
    """What each trigger emits, drops and keeps, as a table of the page."""
    lines = [
        "| trigger | watermark after | the stream appends | the repair appends | dropped | "
        "state rows | published |",
        "|---|---|---|---|---|---|---|",
    ]
    for number, step in enumerate(steps, start=1):
        told = [windows_text(step.emitted.get(cause, ()), example) for cause in ("stream", "late")]
        state = " → ".join(str(rows) for rows in step.state)
        cells = [number, step.watermark, *(text or "–" for text in told), step.dropped, state]
        lines.append(f"| {' | '.join(map(str, cells))} | {step.result.published_windows} |")
    return "\n".join(lines) + "\n"


def gold_text(rows: Sequence[Row], example: Example) -> str:
    """Gold as a table of the page."""
    lines = [
        f"| window | {example.key} | {example.measure} | status | revision |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {clock(row['window_start'])}–{clock(row['window_end'])} | {row[example.key]} | "
        f"{row[example.measure]} | {row['status']} | {row['revision']} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"
