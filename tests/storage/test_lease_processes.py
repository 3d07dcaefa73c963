"""Processes are known again by pid and start, and ended with all that they started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import psutil
import pytest

from tests.kit.patience import HUNG_SECONDS
from tidemark.storage.processes import (
    ProcessMark,
    descendants,
    end_processes,
    is_alive,
    mark_of,
    own_line,
    send_signal,
    session_members,
    spark_parent,
    this_machine,
)

TREE = """
import subprocess, sys, signal, time
{ignore}
child = subprocess.Popen(["sleep", "300"])
print(child.pid, flush=True)
time.sleep(300)
"""
IGNORE = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


def tree(ignore: str = "") -> tuple[subprocess.Popen[str], int]:
    """A process, and the pid of the one that it started."""
    parent = subprocess.Popen(
        [sys.executable, "-c", TREE.format(ignore=ignore)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    with parent.stdout:
        return parent, int(parent.stdout.readline())


def known(pid: int) -> ProcessMark:
    mark = mark_of(pid)
    assert mark is not None
    return mark


def wait_for_status(pid: int, status: str) -> None:
    """A signal is sent before it is heard, and of two pending ones the lower is heard first."""
    while psutil.Process(pid).status() != status:
        time.sleep(0.01)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "300"]) as process:
        yield process
        process.kill()


def test_a_process_is_alive_until_it_has_ended(sleeper: subprocess.Popen[bytes]) -> None:
    mark = known(sleeper.pid)
    assert is_alive(mark)
    sleeper.kill()
    wait_for_status(sleeper.pid, psutil.STATUS_ZOMBIE)
    assert not is_alive(mark), "nobody has waited for it"
    sleeper.wait()
    assert not is_alive(mark)


def test_a_reused_pid_is_another_process_and_is_not_hit(
    sleeper: subprocess.Popen[bytes],
) -> None:
    before = replace(known(sleeper.pid), started=known(sleeper.pid).started - 1)
    assert not is_alive(before)
    assert descendants([before]) == ()
    assert end_processes([before], 0.1) == ()
    send_signal(before, signal.SIGKILL)
    time.sleep(0.1)
    assert sleeper.poll() is None


def test_a_process_ends_with_all_that_it_started() -> None:
    parent, child = tree()
    marks = [known(parent.pid), known(child)]
    assert descendants([marks[0]]) == (marks[1],)
    assert end_processes([marks[0]], 5) == ()
    assert parent.wait() == -signal.SIGTERM
    assert not any(is_alive(mark) for mark in marks)


@pytest.mark.slow
def test_a_process_that_ignores_sigterm_or_is_suspended_is_killed() -> None:
    for ignore in (IGNORE, ""):
        parent, child = tree(ignore)
        marks = [known(parent.pid), known(child)]
        if not ignore:
            parent.send_signal(signal.SIGSTOP)
            wait_for_status(parent.pid, psutil.STATUS_STOPPED)
        assert end_processes([marks[0]], 0.2) == ()
        assert parent.wait() == -signal.SIGKILL
        assert not any(is_alive(mark) for mark in marks)


def test_the_group_of_an_ended_process_is_left_alone(sleeper: subprocess.Popen[bytes]) -> None:
    parent, _ = tree()
    assert os.getpgid(parent.pid) == os.getpgid(sleeper.pid) == os.getpgrp()
    end_processes([known(parent.pid)], 5)
    parent.wait()
    assert sleeper.poll() is None


LEADER = """
import os, subprocess, sys
child = subprocess.Popen(["sleep", "300"], process_group=0)
print(child.pid, flush=True)
sys.stdin.readline()
"""


def test_a_session_has_its_processes_of_other_groups_and_those_that_outlived_its_leader(
    sleeper: subprocess.Popen[bytes],
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LEADER],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    ) as leader:  # fmt: skip
        assert leader.stdout is not None
        child = known(int(leader.stdout.readline()))
        assert set(session_members(leader.pid)) == {known(leader.pid), child}
    assert session_members(leader.pid) == (child,), "it has ended, and was waited for"
    assert end_processes(session_members(leader.pid), 5) == ()
    assert session_members(leader.pid) == ()
    assert is_alive(known(sleeper.pid))


def test_a_process_that_may_not_be_ended_comes_back(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(signal, "pidfd_send_signal", refuse)
    assert end_processes([known(sleeper.pid)], 0.1, after_kill=0.1) == (known(sleeper.pid),)


def test_a_process_that_proc_hides_may_be_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    gone = ProcessMark(2**22 + 1, 5)
    assert not is_alive(gone)
    monkeypatch.setattr(os, "kill", refuse)
    assert is_alive(gone)


def test_the_start_is_not_that_of_the_wall_clock() -> None:
    since_boot = known(os.getpid()).started / os.sysconf("SC_CLK_TCK")
    assert 0 < since_boot < time.clock_gettime(time.CLOCK_BOOTTIME)


def test_a_machine_is_one_boot_and_one_pid_namespace() -> None:
    boot, namespace = this_machine().split(" ")
    assert len(boot) == 36
    assert namespace.startswith("pid:[")


def test_only_a_program_of_spark_counts_as_the_jvm_above() -> None:
    assert spark_parent() is None
    ask = "from tidemark.storage.processes import spark_parent as s, own_line; print(s().pid)"
    start = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {ask!r}])"
    above = subprocess.Popen(
        [sys.executable, "-c", start, "org.apache.spark.deploy.SparkSubmit"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": "include"},
    )
    told, _ = above.communicate(timeout=HUNG_SECONDS)
    assert int(told) == above.pid
    assert own_line()[:2] == (os.getpid(), os.getppid())
