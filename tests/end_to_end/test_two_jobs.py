"""Two jobs on one pipeline: at every moment one writes, and the tables are right afterwards.

A job on another machine is one here that takes its lease under that machine's name: then the
second job can neither see its processes nor end them.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import psutil
import pytest
from deltalake import DeltaTable

from tests.end_to_end.killed_facts import facts_of, runs_of
from tests.end_to_end.killed_input import MORNING, TABLES
from tests.end_to_end.killed_runs import (
    SECOND,
    States,
    end_group,
    finish,
    job_end,
    scheduled,
    start_at,
    states_in,
    succeeded,
)
from tests.kit.patience import HUNG_SECONDS
from tests.kit.running import JobEnd, Place, start_job
from tidemark.pipeline.instants import epoch_ms
from tidemark.storage.delta.fence import PROPERTY
from tidemark.storage.delta.notes import IngestNote, PublishedNote, note_of
from tidemark.storage.lease.lease import LeaseRecord, read_lease
from tidemark.storage.lease.rules import free_for_others_at

pytestmark = pytest.mark.process

SEED = int(os.environ.get("TIDEMARK_TEST_SEED", "20260701"))
Job = subprocess.Popen[str]
# The first job's own time, by which its commits are known in bronze and rejects.
FIRST_TIME = MORNING + timedelta(minutes=1)


@pytest.fixture
def states(tmp_path_factory: pytest.TempPathFactory) -> States:
    return states_in(tmp_path_factory.getbasetemp() / "killed")


@pytest.fixture(autouse=True)
def _short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_LEASE_SECONDS", "5")


@contextmanager
def started(place: Place, run_id: str, *arguments: str, at: datetime = MORNING) -> Iterator[Job]:
    """A job with these arguments of `killed_job.py`; nothing of it outlives the block."""
    job: Job = start_at(place, run_id, *arguments, at=at)
    try:
        yield job
    finally:
        if job.poll() is None:
            end_group(job.pid)
        job.communicate()


def wait_for(what: str, found: Callable[[], bool], job: Job) -> None:
    """Wait for something that must come before the job ends."""
    end = time.monotonic() + HUNG_SECONDS
    while not found():
        assert job.poll() is None, f"ended before {what}:\n{job.communicate()[0]}"
        assert time.monotonic() < end, f"{what}: not in {HUNG_SECONDS} s"
        time.sleep(0.05)


def lease_of(place: Place, run_id: str) -> LeaseRecord | None:
    found = read_lease(place.places.lease, {})
    return found if found is not None and found.run_id == run_id else None


def works(place: Place, run_id: str) -> Callable[[], bool]:
    """Does the run hold the lease, its tables fenced?"""
    return lambda: (found := lease_of(place, run_id)) is not None and not found.fence_due


def is_suspended(job: Job) -> Callable[[], bool]:
    return lambda: psutil.Process(job.pid).status() == psutil.STATUS_STOPPED


def wait_until_free(place: Place, run_id: str) -> None:
    """Until another machine may take the run's lease over."""
    found = lease_of(place, run_id)
    assert found is not None
    left = free_for_others_at(found) - datetime.now(UTC)
    time.sleep(max(left.total_seconds(), 0) + 0.1)


def assert_refused(end: JobEnd, holder: str) -> None:
    assert end.exit_code == 75, end.output
    assert f"is held by run {holder} (stream)" in end.output
    assert end.result is not None
    assert end.result.error is not None
    assert end.result.error.type == "LeaseHeld"
    assert end.result.error.retry_can_help


def assert_committed_nothing_since_the_fence(place: Place, run_id: str) -> None:
    """No commit of the run after that of the fence, in any table of the pipeline.

    A batch that is repeated notes the time of its first commit: where the run committed accepted
    rows before it was fenced, the next run's commit of the rejected ones has its time too.
    """
    places = place.places
    assert not _of_first_run(_since_fence(places.bronze))
    if not _of_first_run(DeltaTable(places.bronze).history()):
        assert not _of_first_run(_since_fence(places.rejects))
    for name in TABLES:
        newer = _since_fence(places.changes(name, 1))
        if newer:
            changes = DeltaTable(places.changes(name, 1))
            rows = changes.load_cdf(starting_version=newer[-1]["version"]).read_all()
            assert run_id not in rows["run"].to_pylist(), name
        told = [note_of(commit) for commit in _since_fence(places.gold(name))]
        assert run_id not in [note.run for note in told if isinstance(note, PublishedNote)]


def _of_first_run(commits: Sequence[dict[str, object]]) -> bool:
    notes = [note_of(commit) for commit in commits]
    times = [note.scheduled_ms for note in notes if isinstance(note, IngestNote)]
    return epoch_ms(FIRST_TIME) in times


def _since_fence(uri: str) -> list[dict[str, object]]:
    commits = DeltaTable(uri).history()
    fence = next(n for n, commit in enumerate(commits) if _is_fence(commit))
    return commits[:fence]


def _is_fence(commit: dict[str, object]) -> bool:
    return PROPERTY in str(commit.get("operationParameters"))


@pytest.mark.long
def test_a_writer_suspended_past_its_lease_commits_nothing_when_it_wakes_beside_another(
    states: States,
) -> None:
    undisturbed = states.undisturbed(SECOND)
    place = states.begin(SECOND)
    between_read_and_commit = ("--stop", "before", "gold", "1", "--elsewhere")
    with started(place, "first", *between_read_and_commit, at=FIRST_TIME) as first:
        wait_for("the lease", works(place, "first"), first)
        # While the first works, or is silent for no longer than its lease and the margin.
        assert_refused(job_end(place, "refused", start_job(place, "refused")), "first")
        wait_for("the stop", is_suspended(first), first)
        wait_until_free(place, "first")
        second = start_job(place, "second", arguments=scheduled(MORNING))
        wait_for("the takeover", works(place, "second"), second)
        os.killpg(first.pid, signal.SIGCONT)
        assert_ended(job_end(place, "first", first))
        result = succeeded(job_end(place, "second", second))
    assert result.took_over is not None
    assert result.took_over.startswith("from run first (stream) on elsewhere, because it ran out")
    assert runs_of(place)["second"]["took_over"] == result.took_over
    assert_committed_nothing_since_the_fence(place, "first")
    assert facts_of(place) == undisturbed.facts


def assert_ended(end: JobEnd) -> None:
    """It halted and said why, or failed by itself just before, with an error that says it all."""
    assert end.exit_code not in (0, 1), end.output
    if end.result is None:
        assert "LeaseLost: The run first (stream) may write nothing more" in end.output
    else:
        assert end.result.error is not None
        assert end.result.error.type in ("LeaseLost", "StorageUnavailable", "RunFailed")
        assert end.result.error.retry_can_help


STOPS = {
    "before it appends accepted rows": ("before", "accepted rows", "1"),
    "between accepted and rejected rows": ("before", "rejected rows", "1"),
    "before it appends windows": ("before", "windows of the stream", "1"),
    "after it appended windows": ("after", "windows of the stream", "1"),
    "between the check and the appending of recomputed windows": ("before", "checked windows", "1"),
    "before the ledger": ("before", "ledger", "1"),
    "between the publishing of two tables": ("before", "gold", "2"),
    "before it drops dates": ("before", "expired dates dropped", "1"),
    "before it releases the lease": ("before", "lease released", "1"),
}


@pytest.mark.long
@pytest.mark.parametrize("stop", STOPS.values(), ids=STOPS)
def test_a_writer_suspended_anywhere_and_woken_beside_another_commits_nothing(
    states: States, stop: tuple[str, str, str]
) -> None:
    undisturbed = states.undisturbed(SECOND)
    place = states.begin(SECOND)
    with started(place, "first", "--stop", *stop, "--elsewhere", at=FIRST_TIME) as first:
        wait_for("the stop", is_suspended(first), first)
        wait_until_free(place, "first")
        second = start_job(place, "second", arguments=scheduled(MORNING))
        wait_for("the takeover", works(place, "second"), second)
        os.killpg(first.pid, signal.SIGCONT)
        assert_ended(job_end(place, "first", first))
        succeeded(job_end(place, "second", second))
    assert_committed_nothing_since_the_fence(place, "first")
    assert facts_of(place) == undisturbed.facts


# What the fence and `check` keep off by themselves, were the process not to halt.
FENCED = ("between the check and the appending of recomputed windows", "before it drops dates",
          "between the publishing of two tables")  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("stop", FENCED)
def test_a_commit_in_flight_at_a_takeover_fails_even_in_a_process_that_does_not_halt(
    states: States, stop: str
) -> None:
    undisturbed = states.undisturbed(SECOND)
    place = states.begin(SECOND)
    pretended = ("--elsewhere", "--go-on")
    with started(place, "first", "--stop", *STOPS[stop], *pretended, at=FIRST_TIME) as first:
        wait_for("the stop", is_suspended(first), first)
        wait_until_free(place, "first")
        second = start_job(place, "second", arguments=scheduled(MORNING))
        wait_for("the takeover", works(place, "second"), second)
        os.killpg(first.pid, signal.SIGCONT)
        end = job_end(place, "first", first)
        succeeded(job_end(place, "second", second))
    assert end.exit_code == 75, end.output
    assert_ended(end)
    assert_committed_nothing_since_the_fence(place, "first")
    assert facts_of(place) == undisturbed.facts


@pytest.mark.long
@pytest.mark.parametrize("point", ["accepted rows", "windows of the stream"])
def test_a_writer_that_does_not_halt_and_wakes_after_another_has_done_its_batch_only_repeats_it(
    states: States, point: str
) -> None:
    undisturbed = states.undisturbed(SECOND)
    place = states.begin(SECOND)
    stop = ("--stop", "before", point, "1", "--elsewhere", "--go-on")
    with started(place, "first", *stop, at=FIRST_TIME) as first:
        wait_for("the stop", is_suspended(first), first)
        wait_until_free(place, "first")
        finish(place, "second")
        os.killpg(first.pid, signal.SIGCONT)
        end = job_end(place, "first", first)
    assert end.exit_code == 75, end.output
    assert_committed_nothing_since_the_fence(place, "first")
    finish(place, "third")
    assert facts_of(place) == undisturbed.facts


@pytest.mark.long
def test_a_writer_suspended_past_its_lease_on_the_same_host_is_ended_first(
    states: States,
) -> None:
    undisturbed = states.undisturbed(SECOND)
    place = states.begin(SECOND)
    with started(place, "first", "--stop", "before", "rejected rows", "1") as first:
        wait_for("the stop", is_suspended(first), first)
        time.sleep(6)
        result = finish(place, "second")
        assert first.wait(timeout=10) != 0
    assert result.took_over is not None
    assert "because it ran out at" in result.took_over
    assert facts_of(place) == undisturbed.facts


@pytest.mark.long
def test_of_two_jobs_at_once_one_works_and_the_other_ends_with_held_by(states: States) -> None:
    undisturbed = states.undisturbed(SECOND)
    place = states.begin(SECOND)
    jobs = {run_id: start_job(place, run_id, arguments=scheduled(MORNING)) for run_id in "ab"}
    ends = {run_id: job_end(place, run_id, job) for run_id, job in jobs.items()}
    won, lost = sorted(ends, key=lambda run_id: ends[run_id].exit_code)
    succeeded(ends[won])
    assert_refused(ends[lost], won)
    assert facts_of(place) == undisturbed.facts
    assert {name: row["outcome"] for name, row in runs_of(place).items() if name in ends} == {
        won: "succeeded",
        lost: "failed",
    }


@pytest.mark.long
@pytest.mark.parametrize("number", range(4))
def test_a_writer_suspended_at_a_random_moment_and_woken_at_another_leaves_the_tables_right(
    states: States, number: int
) -> None:
    undisturbed = states.undisturbed(SECOND)
    place = states.begin(SECOND)
    drawn = random.Random(SEED + number)
    asleep, awake = drawn.uniform(0.3, 1), drawn.uniform(0.2, 1)
    print(f"TIDEMARK_TEST_SEED={SEED}: suspended at {asleep:.0%}, woken at {awake:.0%}")
    with started(place, "first", "--elsewhere", at=FIRST_TIME) as first:
        time.sleep(asleep * undisturbed.seconds)
        if first.poll() is None:
            os.killpg(first.pid, signal.SIGSTOP)
        if lease_of(place, "first") is not None:
            wait_until_free(place, "first")
        second = start_job(place, "second", arguments=scheduled(MORNING))
        time.sleep(awake * undisturbed.seconds)
        if first.poll() is None:
            os.killpg(first.pid, signal.SIGCONT)
        ends = job_end(place, "first", first), job_end(place, "second", second)
    print([end.exit_code for end in ends])
    finish(place, "third")
    assert facts_of(place) == undisturbed.facts
