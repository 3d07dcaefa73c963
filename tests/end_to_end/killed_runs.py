"""The runs that tests kill: what is there before each, where it is killed, and the run after."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

from deltalake import DeltaTable

from tests.end_to_end.killed_facts import Facts, facts_of, versions
from tests.end_to_end.killed_input import (
    DAY,
    LATER,
    MORNING,
    content,
    falsify_gold,
    grow_old,
    keep_one_batch,
    land_first,
    land_second,
    land_with_column,
    land_with_expectation,
    nothing,
    with_measure,
)
from tests.kit.patience import HUNG_SECONDS
from tests.kit.running import JobEnd, Place, accept_changed_file, run_job, start_job
from tidemark.runs.results.result import RunResult
from tidemark.storage.lease.lease import read_lease
from tidemark.storage.result_file import read_result

KILLED_JOB = Path(__file__).with_name("killed_job.py")


def scheduled(at: datetime) -> tuple[str, str]:
    return "--scheduled-time", at.isoformat()


@dataclass(frozen=True)
class Scenario:
    """A run to be killed: what was before it, what is new, the scheduler's time."""

    name: str
    base: str
    prepare: Callable[[Place], None]
    scheduled: datetime = MORNING
    job: str = "stream"
    arguments: tuple[str, ...] = ()

    @property
    def own_arguments(self) -> tuple[str, ...]:
        """What `killed_job.py` is told for it."""
        if self.job == "stream":
            return scheduled(self.scheduled)
        return ("--job", self.job, *self.arguments)


def change_by_hand(place: Place) -> None:
    DeltaTable(place.places.rejects).delete("reason = 'malformed'")


FIRST = Scenario("the first run", "empty", land_first)
SECOND = Scenario("a run with all kinds of rows", "started", land_second)
COLUMN = Scenario("a run with a new column", "started", land_with_column)
CHECKED = Scenario("a run with an expectation", "started", land_with_expectation)
SEALING = Scenario("a run that seals", "second", nothing, LATER)
TAKEOVER = Scenario("a run after a killed one", "left", nothing)
RANGE = ("--from", (DAY + timedelta(hours=10)).isoformat(),
         "--to", (DAY + timedelta(hours=11)).isoformat())  # fmt: skip
BACKFILL = Scenario(
    "a backfill",
    "second",
    falsify_gold,
    job="backfill",
    arguments=("--table", "updated", *RANGE),
)
REBUILD = Scenario("a rebuilding of the ledger", "second", nothing, job="rebuild")
HOUSEKEEPING = Scenario("housekeeping", "second", keep_one_batch, job="housekeep")
MAINTENANCE = Scenario("maintenance", "second", grow_old, job="maintain")
ACCEPTANCE = Scenario("an acceptance", "second", change_by_hand, job="accept")
COMPACTION = Scenario("a compaction", "second", nothing, job="compact")
LOOK = Scenario(
    "a run that finds nothing new", "second", nothing, job="look", arguments=scheduled(MORNING)
)
CORRECTED = Scenario("a run that corrects a measure of a first batch", "begun", nothing)
UNRECORDED = Scenario("a run after one killed before it was recorded", "unrecorded", nothing)


@dataclass(frozen=True)
class Undisturbed:
    """A run that nobody killed: what it came to, its result, how long it took, and how many
    commits it made to each table."""

    facts: Facts
    result: RunResult | None
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
        accept_changed_file(place)
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
        result = run(place, "undisturbed", scenario)
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
        elif base == "begun":
            place = self.begin(FIRST)
            place.content = with_measure("updated", amount="try_sum(amount)")
            left = Kill("windows of the stream", "before", FIRST, "/updated/changes")
            kill(place, left, "killed-begun")
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


_NOT_IN_IDS = "/'"


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
        of = f" of {self.of.strip(_NOT_IN_IDS).replace('/', ' ')}" if self.of else ""
        number = f" (call {self.call})" if self.call > 1 else ""
        return f"{self.when} {self.point}{of}{number}, {self.scenario.name}"

    @property
    def arguments(self) -> tuple[str, ...]:
        point = ("--kill", self.when, self.point, str(self.call), "--of", self.of)
        return (*point, *self.scenario.own_arguments)


def kill(place: Place, at: Kill, run_id: str = "killed") -> set[str]:
    """A run that ends itself at this point; the tables that it committed to before."""
    before, mark = versions(place), place.root / f"{run_id}.mark"
    end = run_job(place, run_id, KILLED_JOB, (*at.arguments, "--mark", str(mark)))
    assert mark.exists(), f"{at}: never reached: {end.output}"
    assert end.exit_code == -signal.SIGKILL, end.output
    after = versions(place)
    if at.commits:
        name, number = at.commits
        made = after.get(name, -1) - before.get(name, -1)
        assert made == number, f"{name}: {made} commits, not {number}"
    return {name for name, version in after.items() if version > before.get(name, -1)}


def finish(place: Place, run_id: str, at: datetime = MORNING) -> RunResult:
    """A run that must succeed."""
    return succeeded(run_job(place, run_id, arguments=scheduled(at)))


def run(place: Place, run_id: str, scenario: Scenario) -> RunResult | None:
    """The scenario's run, which must succeed; a result where it is one of the stream."""
    if scenario.job == "stream":
        return finish(place, run_id, scenario.scheduled)
    end = run_job(place, run_id, KILLED_JOB, scenario.own_arguments)
    assert end.exit_code == 0, end.output
    return None


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
    output, _ = job.communicate(timeout=HUNG_SECONDS)
    target = place.root / f"{run_id}.result.json"
    return JobEnd(
        job.returncode, output, read_result(RunResult, str(target), {}) if target.exists() else None
    )


def abandoned(place: Place) -> bool:
    """Is there a lease that a killed run left?"""
    found = read_lease(place.places.lease, {})
    return found is not None and not found.released


def end_group(pid: int) -> None:
    os.killpg(pid, signal.SIGKILL)
