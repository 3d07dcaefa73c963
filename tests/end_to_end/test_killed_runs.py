"""A run killed anywhere and started again gives what an undisturbed run gives."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.runs import Place, clicks, run_job, sorted_rows, start_job

pytestmark = pytest.mark.process

KILLED_JOB = Path(__file__).with_name("killed_job.py")
SEED = int(os.environ.get("TIDEMARK_TEST_SEED", "20260701"))

TABLES = {
    "per_10m": {
        "window": {"length": "10 minutes"},
        "group_by": ["key"],
        "measures": {"events": "count(*)", "amount": "sum(amount)"},
    },
    "per_1h": {
        "window": {"length": "1 hour", "slide": "30 minutes"},
        "measures": {"largest": "max(amount)"},
    },
}
FIRST = [
    {"at": f"2026-07-01T10:{minute:02}:00Z", "key": key, "amount": minute}
    for minute in range(0, 40, 4)
    for key in ("a", "b", None)
]
# Changes a window that is open, opens new ones, closes those of the first run; some rows are late.
SECOND = {
    "2.json": [
        *({"at": f"2026-07-01T10:{m}:30Z", "key": "a", "amount": 1_000 + m} for m in range(30, 60)),
        '{"at": "2026-07-01T10:59:00Z", "key": "cut',
        {"at": "2026-07-01T11:05:00Z", "key": "a", "amount": "many"},
    ],
    "3.json": [
        {"at": "2026-07-01T11:45:00Z", "key": "b", "amount": 7},
        {"at": "2026-07-01T10:01:00Z", "key": "b", "amount": 9},
        {"at": "9999-12-31T00:00:00Z", "key": "future", "amount": 1},
    ],
}
THIRD = [{"at": "2026-07-01T12:30:00Z", "key": "b", "amount": 5}, "not JSON"]

Tables = dict[str, list[tuple[Any, ...]]]


@dataclass
class Started:
    """A pipeline after its first run, put back into the same folder for each case.

    It is the same folder because checkpoints hold absolute paths.
    """

    place: Place
    copy: Path

    def restore(self) -> Place:
        shutil.rmtree(self.place.root)
        shutil.copytree(self.copy, self.place.root)
        return self.place


@dataclass(frozen=True)
class Undisturbed:
    tables: Tables
    seconds: float


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    folder = tmp_path_factory.mktemp("killed")
    place = Place(folder / "root", clicks(tables=TABLES))
    place.land("1.json", [*FIRST, "not JSON"])
    succeed(place, "run-1")
    shutil.copytree(place.root, folder / "copy")
    yield Started(place, folder / "copy")
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def undisturbed(started: Started) -> Undisturbed:
    place = started.restore()
    before = tables_of(place)
    land_second(place)
    begin = time.monotonic()
    succeed(place, "run-2")
    seconds = time.monotonic() - begin
    after = tables_of(place)
    assert all(after[name] != before[name] for name in after), "the second run changes every table"
    return Undisturbed(after, seconds)


def land_second(place: Place) -> None:
    for name, rows in SECOND.items():
        place.land(name, rows)


def succeed(place: Place, run_id: str) -> None:
    end = run_job(place, run_id)
    assert end.exit_code == 0, end.output
    assert end.result is not None
    assert end.result.error is None


def tables_of(place: Place) -> Tables:
    """All tables, without what a crash may change: who published, and which batch read a row."""
    batch = ("_batch", "_batch_time")
    gold = {name: sorted_rows(place.gold(name), ("updated_by",)) for name in TABLES}
    return gold | {
        "bronze": sorted_rows(place.bronze(), batch),
        "rejects": sorted_rows(place.rejects(), batch),
    }


def versions(place: Place) -> dict[str, int]:
    places = place.places
    uris = {"bronze": places.bronze, "rejects": places.rejects}
    for name in TABLES:
        uris |= {f"{name}/changes": places.changes(name), f"{name}/gold": places.gold(name)}
    return {name: DeltaTable(uri).version() for name, uri in uris.items()}


def kill_at(place: Place, *point: str) -> set[str]:
    """A run that ends itself at this point; the tables that it committed to before."""
    before = versions(place)
    end = run_job(place, "run-2", KILLED_JOB, ("--kill", *point))
    assert end.exit_code == -signal.SIGKILL, end.output
    assert end.result is None
    return {name for name, version in versions(place).items() if version > before[name]}


INGESTED = {"bronze", "rejects"}
CHANGED = {f"{name}/changes" for name in TABLES}
POINTS = [
    pytest.param(
        ("before", "tidemark.streaming.ingest:_append_rejects", "1"),
        {"bronze"},
        id="between bronze and rejects",
    ),
    pytest.param(
        ("after", "tidemark.streaming.ingest:_append_rejects", "1"),
        INGESTED,
        id="between rejects and the engine's commit",
        marks=pytest.mark.long,
    ),
    pytest.param(
        ("before", "tidemark.streaming.job:publish_tables", "1"),
        INGESTED | CHANGED,
        id="between changes and publish",
    ),
    pytest.param(
        ("before", "tidemark.tables.publish:publish_table", "2"),
        INGESTED | CHANGED | {"per_10m/gold"},
        id="between the publishing of two tables",
        marks=pytest.mark.long,
    ),
    pytest.param(
        ("before", "tidemark.streaming.job:write_result", "1"),
        INGESTED | CHANGED | {f"{name}/gold" for name in TABLES},
        id="between publish and the result",
        marks=pytest.mark.long,
    ),
]


@pytest.mark.parametrize(("point", "committed"), POINTS)
def test_a_run_killed_at_a_point_and_started_again_equals_an_undisturbed_one(
    started: Started, undisturbed: Undisturbed, point: tuple[str, ...], committed: set[str]
) -> None:
    place = started.restore()
    land_second(place)
    assert kill_at(place, *point) == committed
    succeed(place, "run-2-again")
    assert tables_of(place) == undisturbed.tables


@pytest.mark.long
def test_a_batch_killed_between_changes_and_the_engines_commit_appends_nothing_twice(
    started: Started, undisturbed: Undisturbed
) -> None:
    place = started.restore()
    land_second(place)
    committed = kill_at(place, "after", "tidemark.streaming.aggregate:_write", "1")
    assert committed - CHANGED == INGESTED
    assert committed & CHANGED
    succeed(place, "run-2-again")
    assert tables_of(place) == undisturbed.tables
    for name, columns in {"per_10m": ("window_start", "key"), "per_1h": ("window_start",)}.items():
        new = [row for row in place.changes(name).to_pylist() if row["batch"] > 0]
        windows = [tuple(row[column] for column in columns) for row in new]
        assert len(windows) == len(set(windows))


@pytest.mark.long
def test_a_file_that_arrives_between_the_kill_and_the_next_run_is_taken_along(
    started: Started,
) -> None:
    place = started.restore()
    land_second(place)
    place.land("4.json", THIRD)
    succeed(place, "run-2")
    undisturbed = tables_of(place)

    place = started.restore()
    land_second(place)
    assert kill_at(place, "before", "tidemark.streaming.ingest:_append_rejects", "1") == {"bronze"}
    place.land("4.json", THIRD)
    succeed(place, "run-3")
    assert tables_of(place) == undisturbed


@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_run_killed_at_a_random_moment_and_started_again_equals_an_undisturbed_one(
    started: Started, undisturbed: Undisturbed, number: int
) -> None:
    share = random.Random(SEED + number).uniform(0.2, 1)
    print(f"TIDEMARK_TEST_SEED={SEED}: killed after {share:.0%} of {undisturbed.seconds:.1f} s")
    place = started.restore()
    land_second(place)
    job = start_job(place, "run-2")
    try:
        job.wait(timeout=share * undisturbed.seconds)
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
    job.communicate()
    print(f"committed by then: {versions(place)}")
    succeed(place, "run-2-again")
    assert tables_of(place) == undisturbed.tables
