"""Late repair and retraction against history: 1,000 rows of a small and of a large bronze.

    python -m bench.repairing FOLDER --rows SMALL LARGE --repetitions N    # in an empty folder

The history has the same number of rows a day, so that ten times the rows are ten times the days.
Late rows fall into the same two hours of the first day each time. Measured is the step of the
platform's own run that repairs (counting late rows, computing windows again, comparing, appending)
in a warm session, against a full refresh of the table: the aggregate of all of bronze, written
anew. Then these rows are retracted, and that whole act is held against the whole run that had
repaired them. Interleaved; the first turn is not counted.
"""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
from pyspark.sql import SparkSession

from bench.contenders import NAME, TABLE, pipeline_content
from bench.warm import warm_session, write_measured
from tidemark.operators.kinds import operator_of
from tidemark.pipeline.instants import epoch_ms
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.requests import RetractRequest
from tidemark.runs.results.result import RunResult
from tidemark.runs.run import Run
from tidemark.storage.delta.history import FAILURE
from tidemark.storage.delta.place import TablePlace
from tidemark.streaming.inputs import with_event_time
from tidemark.streaming.jobs.act import JobAct
from tidemark.streaming.jobs.retract import retract_once
from tidemark.streaming.jobs.stream import run_once
from tidemark.streaming.operators.kinds import streamed_operator
from tidemark.streaming.progress import Progress

ROWS_A_DAY = 100_000
LATE_ROWS = 1_000
KEYS = 50
FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)


def pipeline_of(source: Path) -> Pipeline:
    """The contenders' pipeline over these files, late only after an hour."""
    content = pipeline_content(source) | {"watermark": {"delay": "1 hour"}}
    return pipeline_from_mapping(NAME, content)


@dataclass
class Measured:
    """One size of history: seconds of each repetition, and the files that a repair opened."""

    rows: int
    repair: list[float] = field(default_factory=list)
    run: list[float] = field(default_factory=list)
    retraction: list[float] = field(default_factory=list)
    refresh: list[float] = field(default_factory=list)
    files_read: int = 0
    files: int = 0


@dataclass(frozen=True)
class History:
    """A pipeline in a folder of its own, with a bronze of so many rows."""

    spark: SparkSession
    root: Path
    rows: int

    @property
    def places(self) -> Places:
        return Places(str(self.root), NAME)

    @property
    def pipeline(self) -> Pipeline:
        return pipeline_of(self.root / "landing")

    @property
    def settings(self) -> Settings:
        return Settings(root=str(self.root), pipelines=str(self.root))

    def run(self, run_id: str) -> RunResult:
        """One run of the platform; it must succeed."""
        now = datetime.now(UTC)
        run = Run(self.pipeline, self.settings, run_id, epoch_ms(now))
        with (self.root / "progress.txt").open("a") as out:
            progress = Progress(NAME, out=out)
            result = run_once(run, progress, now, False, session=lambda *_: self.spark)
        if result.error:
            raise SystemExit(f"The run {run_id} failed: {result.error.message}")
        return result

    def build(self) -> None:
        """The history in bronze, aggregated and published by a run."""
        folder = self.root / "landing"
        folder.mkdir(parents=True)
        step = 86_400 * 1_000_000 // ROWS_A_DAY
        time = f"make_timestamp({epoch_ms(FIRST_DAY) * 1_000} + i * {step})"
        rows = f"""
            SELECT strftime({time}, '%Y-%m-%dT%H:%M:%S.%fZ') AS at, 'key' || (i % {KEYS}) AS key,
                1 AS amount
            FROM range({self.rows}) numbers(i)
        """
        with duckdb.connect() as connection:
            connection.execute(f"COPY ({rows}) TO '{folder}/history.json' (FORMAT json)")
        self.run("history")

    def land(self, name: str, count: int, second: int) -> None:
        """A file of so many rows within two hours from a second of the history on."""
        folder = self.root / "landing"
        folder.mkdir(parents=True, exist_ok=True)
        start = FIRST_DAY + timedelta(seconds=second)
        rows = [
            {
                "at": (start + timedelta(seconds=7_200 * n // count)).isoformat(),
                "key": f"key{n % KEYS}",
                "amount": 1,
            }
            for n in range(count)
        ]
        (folder / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    def repair(self, number: int) -> tuple[float, float]:
        """Seconds of a run that finds 1,000 late rows: of its repairing step, and of all of it."""
        self.land(f"late-{number}.json", LATE_ROWS, 0)
        begin = time.monotonic()
        result = self.run(f"late-{number}")
        seconds = time.monotonic() - begin
        late = result.tables[TABLE].late
        assert late.rows == LATE_ROWS, late
        assert late.corrected + late.first_seen, late
        return result.seconds["repair"], seconds

    def retract(self, number: int) -> float:
        """Seconds of the act that takes these rows back."""
        now, begin = datetime.now(UTC), time.monotonic()
        run = Run(self.pipeline, self.settings, f"retract-{number}", epoch_ms(now))
        asked = RetractRequest(pipeline=NAME, file=f"late-{number}.json", reason="measured")
        with (self.root / "progress.txt").open("a") as out:
            progress = Progress(NAME, out=out)
            result = retract_once(JobAct(run, asked, progress, now, session=lambda *_: self.spark))
        seconds = time.monotonic() - begin
        if result.error:
            raise SystemExit(f"The retraction {number} failed: {result.error.message}")
        assert result.change is not None
        assert result.change.rows == LATE_ROWS
        return seconds

    def refresh(self) -> float:
        """Seconds of the rival: aggregate all of bronze, and write the table anew."""
        begin = time.monotonic()
        bronze = self.spark.read.format("delta").load(self.places.bronze)
        rows = with_event_time(bronze, self.pipeline)
        windows = streamed_operator(operator_of(self.pipeline, TABLE)).plan({"bronze": rows})
        windows = windows.drop(FAILURE)
        windows.write.format("delta").mode("overwrite").save(str(self.root / "refreshed"))
        return time.monotonic() - begin

    def files_of_a_repair(self) -> tuple[int, int]:
        """Files of the late rows' date, which is what a repair opens, and of all of bronze."""
        bronze = TablePlace(self.places.bronze).existing()
        first_day = f"_event_date = DATE '{FIRST_DAY.date()}'"
        opened = bronze.file_uris(file_pruning_predicate=first_day)
        return len(opened), len(bronze.file_uris())


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and write the numbers as JSON."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, nargs=2, required=True)
    parser.add_argument("--repetitions", type=int, required=True)
    given = parser.parse_args(argv)
    with warm_session(pipeline_of(given.folder)) as spark:
        measured = measure(spark, given.rows, given.repetitions, given.folder)
    write_measured(given.folder, measured)


def measure(
    spark: SparkSession, sizes: Sequence[int], repetitions: int, folder: Path
) -> list[Measured]:
    """Build both histories, then repair and refresh each in turn; the first turn is not counted."""
    histories = [History(spark, folder / str(rows), rows) for rows in sizes]
    for history in histories:
        history.root.mkdir(parents=True)
        history.build()
    measured = [Measured(history.rows) for history in histories]
    for number in range(repetitions + 1):
        for history, one in zip(histories, measured, strict=True):
            repair, run = history.repair(number)
            refresh, retraction = history.refresh(), history.retract(number)
            if number:
                one.repair.append(round(repair, 3))
                one.run.append(round(run, 3))
                one.retraction.append(round(retraction, 3))
                one.refresh.append(round(refresh, 3))
            one.files_read, one.files = history.files_of_a_repair()
    return measured


if __name__ == "__main__":
    main()
