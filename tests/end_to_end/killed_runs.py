"""A pipeline of three output modes, the runs of it that tests kill, and what must be equal after.

Event times count from two days ago, because the batch's time is the wall clock: what is too old
or lies in the future is so for as long as the tests take.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from tests.runs import JobEnd, Place, clicks, query, run_job, sorted_rows, start_job
from tidemark.checkpoint.log import Checkpoint
from tidemark.pipeline.instants import epoch_ms
from tidemark.storage.lease import read_lease
from tidemark.streaming.commit_points import COMMIT_POINTS
from tidemark.tables.create import open_table
from tidemark.tables.result import RunResult, read_result

KILLED_JOB = Path(__file__).with_name("killed_job.py")
AT = {point.name: point.at for point in COMMIT_POINTS}
NOW = datetime.now(UTC)
DAY = NOW.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=2)
OLD = DAY - timedelta(days=8)
IDLE = 30

TABLES: dict[str, Any] = {
    "updated": {
        "window": {"length": "10 minutes"},
        "group_by": ["key"],
        "measures": {"events": "count(*)", "amount": "sum(amount)"},
    },
    "appended": {
        "window": {"length": "1 hour", "slide": "30 minutes"},
        "measures": {"largest": "max(amount)"},
        "output_mode": "append",
    },
    "completed": {
        "window": {"length": "30 minutes"},
        "group_by": ["key"],
        "measures": {"events": "count(*)", "smallest": "min(amount)"},
        "output_mode": "complete",
        "accept_unbounded_state": True,
    },
}
COLUMNS = {"at": "timestamp", "key": "string", "amount": "long", "id": "string"}
KEYS = {name: ("window_start", *table.get("group_by", [])) for name, table in TABLES.items()}


def content(keep: bool = False, **columns: str) -> dict[str, Any]:
    source = clicks()["source"] | {
        "columns": COLUMNS | columns,
        "unique": {"by": "id", "within": "1 day"},
    }
    watermark = {"delay": "10 minutes", "seal_after_idle": f"{IDLE} minutes"}
    kept = {"keep": "5 days"} if keep else {}
    return clicks(source=source, watermark=watermark, tables=TABLES, **kept)


def row(hour: int, minute: int, key: str | None, amount: int | str, **more: Any) -> dict[str, Any]:
    at = DAY + timedelta(hours=hour, minutes=minute)
    return {"at": at.isoformat(), "key": key, "amount": amount} | more


def first_rows() -> list[dict[str, Any] | str]:
    """Rows of two dates; the newest but ten minutes closes windows up to 10:38."""
    old = [{"at": (OLD + timedelta(hours=h)).isoformat(), "key": "a", "amount": h} for h in (1, 2)]
    rows = [row(10, m, key, m) for m in range(0, 49, 4) for key in ("a", "b", None)]
    return [*old, *rows, row(10, 41, "a", 1, id="first"), "not JSON"]


def land_first(place: Place) -> None:
    place.land("1.json", first_rows())


def land_second(place: Place) -> None:
    """Rows that change open windows, open and close others, or are late; and a reject of each
    kind: malformed, wrong type, future, too old, duplicates of this batch and of one before."""
    place.content = content(keep=True)
    place.land(
        "2.json",
        [
            *(row(10, m, "a", 1_000 + m) for m in range(39, 60)),
            row(11, 1, "a", 2, id="twice"),
            '{"at": "2026-07-01T10:59:00Z", "key": "cut',
            row(11, 5, "a", "many"),
        ],
    )
    place.land(
        "3.json",
        [
            row(11, 45, "b", 7),
            # Late for each table, and below or above what its windows hold.
            row(10, 1, "b", 90),
            row(10, 2, "a", -1),
            row(11, 2, "b", 2, id="twice"),
            row(10, 42, "b", 1, id="first"),
            {"at": (OLD + timedelta(hours=1)).isoformat(), "key": "too old", "amount": 1},
            {"at": "9999-12-31T00:00:00Z", "key": "future", "amount": 1},
            {"at": (NOW + timedelta(hours=12)).isoformat(), "key": "future", "amount": 1},
        ],
    )


def land_third(place: Place) -> None:
    """What arrives between a kill and the next run."""
    place.land("4.json", [row(12, 30, "b", 5), row(10, 3, "b", 91), "not JSON either"])


def land_with_column(place: Place) -> None:
    land_second(place)
    place.content = content(keep=True, page="string")
    place.land("page.json", [row(11, 46, "b", 8, page="/")])


def nothing(place: Place) -> None:
    place.content = content(keep=True)


REASONS = {"malformed", "wrong type", "future", "too old", "duplicate"}
MORNING = DAY + timedelta(days=1)
LATER = MORNING + timedelta(hours=2)


@dataclass(frozen=True)
class Scenario:
    """A run to be killed: what was before it, what is new, the scheduler's time."""

    name: str
    base: str
    prepare: Callable[[Place], None]
    scheduled: datetime = MORNING


FIRST = Scenario("the first run", "empty", land_first)
SECOND = Scenario("a run with all kinds of rows", "started", land_second)
COLUMN = Scenario("a run with a new column", "started", land_with_column)
SEALING = Scenario("a run that seals", "second", nothing, LATER)
TAKEOVER = Scenario("a run after a killed one", "left", nothing)
UNRECORDED = Scenario("a run after one killed before it was recorded", "unrecorded", nothing)

Facts = dict[str, Any]


@dataclass(frozen=True)
class Undisturbed:
    """A run that nobody killed: what it came to, its result, how long it took, and how many
    commits it made to each table."""

    facts: Facts
    result: RunResult
    seconds: float
    commits: Mapping[str, int]


@dataclass
class States:
    """One place, put into the state that a scenario begins with; states are made once.

    It is one folder, because checkpoints hold absolute paths.
    """

    folder: Path
    _undisturbed: dict[str, Undisturbed] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        return self.folder / "root"

    def begin(self, scenario: Scenario) -> Place:
        """The place with all that the run finds."""
        place = self._restore(scenario.base)
        scenario.prepare(place)
        return place

    def undisturbed(self, scenario: Scenario) -> Undisturbed:
        """The run, never killed; for one that follows a killed run, that one, never killed."""
        if scenario.base in ("left", "unrecorded"):
            scenario = SECOND
        if scenario.name not in self._undisturbed:
            self._undisturbed[scenario.name] = self._run_undisturbed(scenario)
            if scenario is SECOND:
                self._keep("second")
        return self._undisturbed[scenario.name]

    def _run_undisturbed(self, scenario: Scenario) -> Undisturbed:
        place = self.begin(scenario)
        before, begin = versions(place), time.monotonic()
        result = finish(place, "undisturbed", scenario.scheduled)
        seconds, after = time.monotonic() - begin, versions(place)
        commits = {name: version - before.get(name, -1) for name, version in after.items()}
        return Undisturbed(facts_of(place), result, seconds, commits)

    def _restore(self, base: str) -> Place:
        if base != "empty" and not (self.folder / base).exists():
            self._make(base)
        shutil.rmtree(self.root, ignore_errors=True)
        if base == "empty":
            self.root.mkdir()
        else:
            shutil.copytree(self.folder / base, self.root)
        return Place(self.root, content())

    def _make(self, base: str) -> None:
        if base == "second":
            # Kept on the way.
            self.undisturbed(SECOND)
        elif base == "started":
            finish(self.begin(FIRST), "run-1")
            self._keep(base)
        else:
            point = {"left": "rejected rows", "unrecorded": "run recorded"}[base]
            kill(self.begin(SECOND), Kill(point, "before", SECOND), f"killed-{base}")
            self._keep(base)

    def _keep(self, base: str) -> None:
        if not (self.folder / base).exists():
            shutil.copytree(self.root, self.folder / base)


@cache
def states_in(folder: Path) -> States:
    """The states in this folder, for all test files of a process."""
    folder.mkdir()
    return States(folder)


@dataclass(frozen=True)
class Kill:
    """Where a run is killed: at a commit point, by its name. `of` is part of the place that the
    call is about; `commits` names a table, and how many commits the killed run makes to it."""

    point: str
    when: str
    scenario: Scenario = SECOND
    of: str = ""
    call: int = 1
    commits: tuple[str, int] | None = None

    def __str__(self) -> str:
        number = f" (call {self.call})" if self.call > 1 else ""
        return f"{self.when} {self.point} {self.of}{number}, {self.scenario.name}".replace("/", ".")

    @property
    def arguments(self) -> tuple[str, ...]:
        point = ("--kill", self.when, AT[self.point], str(self.call), "--of", self.of)
        return (*point, *scheduled(self.scenario.scheduled))


def scheduled(at: datetime) -> tuple[str, str]:
    return "--scheduled-time", at.isoformat()


def kill(place: Place, at: Kill, run_id: str = "killed") -> set[str]:
    """A run that ends itself at this point; the tables that it committed to before."""
    before, mark = versions(place), place.root / f"{run_id}.mark"
    end = run_job(place, run_id, KILLED_JOB, (*at.arguments, "--mark", str(mark)))
    assert mark.exists(), f"{at}: never reached: {end.output}"
    assert end.exit_code == -signal.SIGKILL, end.output
    after = versions(place)
    if at.commits:
        name, number = at.commits
        assert after.get(name, -1) - before.get(name, -1) == number, name
    return {name for name, version in after.items() if version > before.get(name, -1)}


def finish(place: Place, run_id: str, at: datetime = MORNING) -> RunResult:
    """A run that must succeed."""
    return succeeded(run_job(place, run_id, arguments=scheduled(at)))


def succeeded(end: JobEnd) -> RunResult:
    assert end.exit_code == 0, end.output
    assert end.result is not None
    assert end.result.error is None
    return end.result


def start_at(
    place: Place, run_id: str, *arguments: str, at: datetime = MORNING
) -> subprocess.Popen[str]:
    """Start a job that ends or suspends itself."""
    return start_job(place, run_id, KILLED_JOB, (*arguments, *scheduled(at)))


def job_end(place: Place, run_id: str, job: subprocess.Popen[str]) -> JobEnd:
    """How a started job ends."""
    output, _ = job.communicate(timeout=300)
    target = place.root / f"{run_id}.result.json"
    return JobEnd(job.returncode, output, read_result(str(target), {}) if target.exists() else None)


def abandoned(place: Place) -> bool:
    """Is there a lease that a killed run left?"""
    found = read_lease(place.places.lease, {})
    return found is not None and not found.released


def versions(place: Place) -> dict[str, int]:
    """The version of each table that there is, by its place below the pipeline's folder."""
    places = place.places
    uris = {"bronze": places.bronze, "rejects": places.rejects}
    for name in TABLES:
        uris |= {f"{name}/changes": places.changes(name), f"{name}/gold": places.gold(name)}
    uris |= {"ops/ledger": places.ledger, "ops/runs": places.runs}
    return {name: table.version() for name, uri in uris.items() if (table := open_table(uri, {}))}


def facts_of(place: Place) -> Facts:
    """All that must be equal, without what a kill may change: who published a window, which
    batch read a row. Checks on the way that nothing is there twice and the ledger balances."""
    assert_nothing_is_there_twice(place)
    assert_the_ledger_balances(place)
    assert_watermarks_never_go_back(place)
    batch = ("_batch", "_batch_time")
    facts: Facts = {name: sorted_rows(place.gold(name), ("updated_by",)) for name in TABLES}
    facts |= {name: sorted_rows(getattr(place, name)(), batch) for name in ("bronze", "rejects")}
    return facts | {"ledger": ledger_totals(place), "frontiers": frontiers(place)}


def frontiers(place: Place) -> dict[str, tuple[int, int]]:
    """The watermark and the close frontier of each table, in milliseconds."""
    return {
        name: (
            _checkpoint(place, name).next_watermark_ms(
                _checkpoint(place, name).batches("commits")[-1]
            ),
            DeltaTable(place.places.gold(name)).transaction_version("close") or 0,
        )
        for name in TABLES
    }


def ledger_totals(place: Place) -> list[tuple[Any, ...]]:
    return query(
        """SELECT "table", kind, sum(read), sum(accepted), sum(rejected), sum(assigned),
            sum(late_assigned), sum(emitted - emitted_before)
        FROM ledger WHERE batch IS NOT NULL GROUP BY ALL ORDER BY ALL""",
        ledger=place.table(place.places.ledger),
    )


def assert_the_ledger_balances(place: Place) -> None:
    lines = place.table(place.places.ledger).to_pylist()
    assert lines
    assert [line for line in lines if line["balanced"] is False] == []
    ingested = [line for line in lines if line["kind"] == "ingest"]
    read = sum(line["accepted"] for line in ingested), sum(line["rejected"] for line in ingested)
    assert read == (place.bronze().num_rows + _dropped(place), place.rejects().num_rows)


def _dropped(place: Place) -> int:
    """Rows of bronze that retention dropped."""
    commits = DeltaTable(place.places.bronze).history()
    deletes = [commit for commit in commits if commit["operation"] == "DELETE"]
    return sum(int(commit["operationMetrics"]["num_deleted_rows"] or 0) for commit in deletes)


def assert_nothing_is_there_twice(place: Place) -> None:
    """No row of `changes` of one batch, no correction, no ledger line, no run."""
    for name, keys in KEYS.items():
        rows = place.changes(name).to_pylist()
        stream = [row for row in rows if row["cause"] == "stream"]
        _assert_distinct(stream, (*keys, "generation", "batch"))
        values = [*keys, *TABLES[name]["measures"], "rows", "cause", "generation"]
        _assert_distinct([row for row in rows if row["cause"] != "stream"], values)
    lines = place.table(place.places.ledger).to_pylist()
    _assert_distinct([line for line in lines if line["batch"] is not None], _BATCH)
    _assert_distinct([line for line in lines if line["batch"] is None], _COMPUTATION)
    _assert_distinct(place.table(place.places.runs).to_pylist(), ("run", "started_at"))


_BATCH = ("kind", "table", "query", "batch")
_COMPUTATION = ("kind", "table", "windows", "published", "in_bronze")


def _assert_distinct(rows: list[dict[str, Any]], columns: Any) -> None:
    counted = Counter(tuple(row[column] for column in columns) for row in rows)
    assert [found for found, number in counted.items() if number > 1] == []


def assert_watermarks_never_go_back(place: Place) -> None:
    """By the offsets that the engine wrote; and the batch that frees state came last."""
    for name, table in TABLES.items():
        checkpoint = _checkpoint(place, name)
        kept = checkpoint.batches("offsets")
        watermarks = [checkpoint.offsets(batch).watermark_ms for batch in kept]
        assert watermarks == sorted(watermarks), name
        assert checkpoint.batches("commits")[-1] == kept[-1]
        if table.get("output_mode") != "complete":
            # The state was freed by the newest watermark that there is.
            assert watermarks[-1] == checkpoint.next_watermark_ms(kept[-1]), name
        assert checkpoint.next_watermark_ms(kept[-1]) == newest_ms(place) - 10 * 60_000, name


def newest_ms(place: Place) -> int:
    """The newest event time that was accepted."""
    return epoch_ms(max(place.bronze()["at"].to_pylist()))


def _checkpoint(place: Place, table: str) -> Checkpoint:
    return Checkpoint(place.places.query_checkpoint(table, 1), {})


def runs_of(place: Place) -> Mapping[str, dict[str, Any]]:
    """The rows of `ops/runs`, by run."""
    return {row["run"]: row for row in place.table(place.places.runs).to_pylist()}


def end_group(pid: int) -> None:
    os.killpg(pid, signal.SIGKILL)
