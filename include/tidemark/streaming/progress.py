"""What a job says while it works: plain lines, one for each batch and stage.

Plain text on stderr reads the same in a terminal, in Airflow's task log and in a cluster's
driver log. The clock is asked only here, and only to say how long something took.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Event, Thread
from typing import TextIO

import pyarrow as pa
from pyspark.sql import SparkSession

from tidemark.pipeline.instants import instant_text

_TICK_SECONDS = 10


@dataclass
class BatchReport:
    """What is told of one batch when it ends; filled in by whoever runs it."""

    rows: int | None = None
    windows: int | None = None
    rejected: dict[str, int] = field(default_factory=dict)
    watermark_ms: int | None = None
    place: str = ""
    note: str = ""


@dataclass
class Progress:
    """Lines of one run, and the seconds and batches of its stages."""

    pipeline: str
    out: TextIO = field(default_factory=lambda: sys.stderr)
    seconds: dict[str, float] = field(default_factory=dict)
    batches: dict[str, list[int]] = field(default_factory=dict)

    def say(self, text: str) -> None:
        """One line, with the time (UTC) and the pipeline."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        print(f"{now} {self.pipeline}: {text}", file=self.out, flush=True)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure a stage of the run."""
        self.say(f"{name} …")
        begin = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = round(time.monotonic() - begin, 3)
            # The next stage need not stand beside what this one's rows took.
            pa.default_memory_pool().release_unused()
        self.say(f"{name} done in {self.seconds[name]:.1f} s")

    @contextmanager
    def tasks_of(self, spark: SparkSession) -> Iterator[None]:
        """While a long step works, look every ten seconds how far its Spark tasks are, and say it
        where they came further."""
        ended = Event()
        ticker = Thread(target=self._tick, args=(spark, ended), daemon=True)
        ticker.start()
        try:
            yield
        finally:
            ended.set()
            ticker.join()

    def _tick(self, spark: SparkSession, ended: Event) -> None:
        tracker, said = spark.sparkContext.statusTracker(), (0, 0)
        while not ended.wait(_TICK_SECONDS):
            infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            done = sum(info.numCompletedTasks for info in infos if info)
            tasks = sum(info.numTasks for info in infos if info)
            if tasks and (done, tasks) != said:
                said = (done, tasks)
                self.say(f"… at work: {done} of {tasks} tasks done")

    @contextmanager
    def batch(self, query: str, number: int) -> Iterator[BatchReport]:
        """Measure one batch of a query, and say what it did when it ends well."""
        begin = time.monotonic()
        report = BatchReport()
        yield report
        took = time.monotonic() - begin
        self.batches.setdefault(query, []).append(number)
        place = f" ({report.place})" if report.place else ""
        self.say(f"{query} batch {number}{place}: {_described(report, took)}")


def _described(report: BatchReport, took: float) -> str:
    parts = []
    if report.rows is not None:
        per_second = report.rows / took if took else 0
        parts.append(f"{report.rows:,} rows in {took:.1f} s ({per_second:,.0f} rows/s)")
        parts += [f"{count:,} {reason}" for reason, count in sorted(report.rejected.items())]
    else:
        counted = f"{report.windows:,} windows in " if report.windows is not None else ""
        parts.append(f"{counted}{took:.1f} s")
    if report.watermark_ms is not None:
        parts.append(f"watermark {instant_text(report.watermark_ms)}")
    if report.note:
        parts.append(report.note)
    return ", ".join(parts)
