"""Processes that race for a lease, are killed or suspended with it, or must give way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.kit.patience import PATIENCE_SECONDS
from tests.storage.leases import (
    ELSEWHERE,
    HoldingProcess,
    at,
    holder,
    leave,
    left_by_another,
)
from tidemark.errors import LeaseHeld
from tidemark.storage.lease import taking
from tidemark.storage.lease.lease import hold_lease, read_lease, utc_now
from tidemark.storage.processes import mark_of, noted


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "lease")


@pytest.fixture(scope="module")
def bystander(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HoldingProcess]:
    """A process with a lease of its own, whom nobody may signal."""
    own = str(tmp_path_factory.mktemp("bystander") / "lease")
    with HoldingProcess(own, "bystander", 60) as process:
        assert process.heard() == "held 1"
        yield process


def race(folder: str, rounds: int, begin: Any, judged: Any, ends: Any) -> None:
    """In each round all try at once, and the winner holds on until all have tried."""
    taking.SHORTLY = 0
    mine = replace(holder(f"racer {os.getpid()}"), machine=f"machine of {os.getpid()}")
    for number in range(rounds):
        begin.wait()
        try:
            with hold_lease(folder, mine, {}, on_takeover=lambda _: None) as lease:
                judged.wait()
                ends.put((number, lease.number))
        except LeaseHeld:
            judged.wait()
            ends.put((number, None))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("racers", "rounds"), [(2, 30), pytest.param(4, 100, marks=pytest.mark.long)]
)
def test_of_processes_that_take_a_lease_at_once_one_wins_each_round(
    folder: str, racers: int, rounds: int
) -> None:
    context = get_context("spawn")
    begin, judged = (
        context.Barrier(racers + 1, timeout=PATIENCE_SECONDS),
        context.Barrier(racers, timeout=PATIENCE_SECONDS),
    )
    ends = context.Queue()
    told = (folder, rounds, begin, judged, ends)
    processes = [context.Process(target=race, args=told) for _ in range(racers)]
    for process in processes:
        process.start()
    taken = []
    for number in range(rounds):
        if number % 2:
            found = read_lease(folder, {})
            assert found is not None
            ran_out = left_by_another(number=found.number, machine=ELSEWHERE)
            leave(folder, ran_out)
        begin.wait()
        heard = [ends.get(timeout=PATIENCE_SECONDS) for _ in range(racers)]
        assert {said[0] for said in heard} == {number}
        won = [said[1] for said in heard if said[1] is not None]
        assert len(won) == 1, f"round {number}: {heard}"
        taken += won
        wait_for_release(folder)
    for process in processes:
        process.join()
    assert taken == list(range(1, rounds + 1))


def wait_for_release(folder: str) -> None:
    while not (found := read_lease(folder, {})) or not found.released:
        time.sleep(0.001)


@pytest.mark.slow
def test_the_lease_of_a_killed_process_is_taken_over_at_once(folder: str) -> None:
    with HoldingProcess(folder, "killed", 60) as killed:
        assert killed.heard() == "held 1"
        with (
            pytest.raises(LeaseHeld, match=rf"run killed .* process {killed.process.pid}, until"),
            hold_lease(folder, holder(), {}, on_takeover=print),
        ):
            pass
        killed.process.kill()
        while psutil.Process(killed.process.pid).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
        fenced: list[int] = []
        began = time.monotonic()
        with hold_lease(folder, holder(), {}, on_takeover=fenced.append) as lease:
            assert time.monotonic() - began < 1
            assert fenced == [2]
            assert lease.took_over is not None
            assert lease.took_over.run_id == "killed"


def test_an_earlier_try_of_the_same_run_is_ended_with_what_it_started(folder: str) -> None:
    with HoldingProcess(folder, "mine", 60) as earlier:
        assert earlier.heard() == "held 1"
        child = mark_of(int(earlier.ask("child")))
        assert child is not None
        with hold_lease(folder, holder("mine"), {}, on_takeover=print) as lease:
            assert lease.took_over is not None
            assert lease.took_over.because == "it was of an earlier try of this run"
            assert mark_of(child.pid) is None
            assert earlier.process.wait(5) == -signal.SIGTERM


def test_housekeeping_ends_no_process(folder: str) -> None:
    with HoldingProcess(folder, "mine", 60) as earlier:
        assert earlier.heard() == "held 1"
        with (
            pytest.raises(LeaseHeld, match="may not end its processes and take over"),
            hold_lease(folder, holder("mine"), {}, on_takeover=print, ends_processes=False),
        ):
            pass
        assert earlier.ask("check") == "held"
        assert earlier.ask("end") == ""
        assert earlier.ended() == (0, "")
    with hold_lease(folder, holder("mine"), {}) as lease:
        assert lease.number == 2


def test_a_reused_pid_is_not_hit(folder: str, bystander: HoldingProcess) -> None:
    mark = mark_of(bystander.process.pid)
    assert mark is not None
    before = replace(mark, started=mark.started - 100)
    leave(folder, left_by_another(run_id="mine", processes=(before,)))
    with hold_lease(folder, holder("mine"), {}, on_takeover=print) as lease:
        assert lease.took_over is not None
        assert lease.took_over.because == "its processes are gone"
    assert bystander.ask("check") == "held"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noted_so", "why"),
    [
        ({"command": "0" * 64}, "has another command line than was noted"),
        ({"command": None}, "was noted without its user and command line"),
        ({"user": os.geteuid() + 1}, "is of another user"),
    ],
    ids=["command", "none", "user"],
)
@pytest.mark.parametrize("run_id", ["mine", "other"], ids=["earlier try", "run out"])
def test_a_process_that_may_not_be_the_jobs_is_not_signalled_and_that_is_said(
    folder: str, bystander: HoldingProcess, run_id: str, noted_so: dict[str, Any], why: str
) -> None:
    """A lease file can name any process of this host, by a pid and start that are its own."""
    mark = mark_of(bystander.process.pid)
    assert mark is not None
    named = replace(noted(mark), **noted_so)
    leave(folder, left_by_another(run_id=run_id, processes=(named,)))
    with (
        pytest.raises(LeaseHeld, match=f"process {mark.pid} {why}, so nothing is signalled"),
        hold_lease(folder, holder("mine"), {}, on_takeover=print, now=lambda: at(61)),
    ):
        pass
    assert bystander.ask("check") == "held"


@pytest.mark.slow
def test_a_suspended_process_of_this_host_is_ended_when_its_lease_has_run_out(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemark.storage.lease.taking.GRACE", 0.2)
    with HoldingProcess(folder, "asleep", 1.5) as asleep:
        assert asleep.heard() == "held 1"
        asleep.process.send_signal(signal.SIGSTOP)
        with pytest.raises(LeaseHeld), hold_lease(folder, holder(), {}, on_takeover=print):
            pass
        wait_for_end(folder)
        with hold_lease(folder, holder(), {}, on_takeover=print) as lease:
            assert asleep.process.wait(5) == -signal.SIGKILL
            assert lease.took_over is not None
            assert lease.took_over.because.startswith("it ran out at")


def wait_for_end(folder: str, margin: float = 0) -> None:
    found = read_lease(folder, {})
    assert found is not None
    while utc_now() < found.expires_at + timedelta(seconds=margin):
        time.sleep(0.02)


@pytest.mark.slow
def test_a_suspended_process_of_another_host_halts_when_it_wakes(folder: str) -> None:
    with HoldingProcess(folder, "asleep", 1.5, "--elsewhere") as asleep:
        assert asleep.heard() == "held 1"
        child = mark_of(int(asleep.ask("child")))
        assert child is not None
        asleep.process.send_signal(signal.SIGSTOP)
        wait_for_end(folder, margin=1.5)
        fenced: list[int] = []
        with hold_lease(folder, holder(), {}, on_takeover=fenced.append) as lease:
            assert fenced == [2]
            woken = time.monotonic()
            asleep.process.send_signal(signal.SIGCONT)
            status, said = asleep.ended()
            assert time.monotonic() - woken < 2
            assert status == 75
            assert "LeaseLost: The run asleep (stream) may write nothing more: its lease" in said
            lease.check()
            assert mark_of(child.pid) is None, "what it started ends with it"
    found = read_lease(folder, {})
    assert found is not None
    assert (found.number, found.run_id) == (2, "mine")


@pytest.mark.slow
def test_a_woken_process_that_does_not_halt_learns_it_from_check(folder: str) -> None:
    with HoldingProcess(folder, "asleep", 1.5, "--elsewhere", "--go-on") as asleep:
        assert asleep.heard() == "held 1"
        asleep.process.send_signal(signal.SIGSTOP)
        wait_for_end(folder, margin=1.5)
        with hold_lease(folder, holder(), {}, on_takeover=print) as lease:
            asleep.process.send_signal(signal.SIGCONT)
            assert asleep.ask("check").startswith("lost: The run asleep (stream) may write nothing")
            assert asleep.ask("end").startswith("LeaseLost: ")
            assert asleep.ended()[0] == 75
            lease.check()


@pytest.mark.slow
def test_a_driver_that_halts_kills_the_jvm_that_started_it(folder: str) -> None:
    with HoldingProcess(folder, "driver", 2, spark=True) as above:
        assert above.heard() == "held 1"
        driver = psutil.Process(above.process.pid).children()[0]
        found = read_lease(folder, {})
        assert found is not None
        assert [mark.pid for mark in found.processes] == [driver.pid, above.process.pid]
        leave(folder, left_by_another(number=2))
        assert above.process.wait(10) == -signal.SIGKILL
        while driver.is_running() and driver.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
        assert above.process.stderr is not None
        assert "was taken over: number 2 is of run other" in above.process.stderr.readline()


@pytest.mark.parametrize("stderr", ["closed", "broken"])
def test_a_process_halts_also_where_nobody_can_be_told(stderr: str) -> None:
    """The JVM that copied its output, or Airflow's supervisor, may have died before it."""
    lose = {"closed": "os.close(2)", "broken": "r, w = os.pipe(); os.close(r); os.dup2(w, 2)"}
    halting = (
        f"import os; {lose[stderr]}\n"
        "from tidemark.storage.lease.halt import halt\n"
        "from tidemark.errors import LeaseLost\n"
        "try: halt(LeaseLost('gone'))\n"
        "except BaseException: os._exit(3)\n"
    )
    assert subprocess.run([sys.executable, "-c", halting], check=False).returncode == 75
