"""What a process costs: wall time, CPU seconds of all that it started, and their peak memory."""

from __future__ import annotations

import ctypes
import os
import statistics
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

_SAMPLE_SECONDS = 0.2
# Of prctl(2).
_SET_CHILD_SUBREAPER = 36
_ORPHANS_SECONDS = 30


@dataclass(frozen=True)
class Cost:
    """Wall and CPU seconds (user and system, with every child that was waited for), and the
    largest sum of the processes' resident memory that was seen twice in sequence, in megabytes;
    `own_mb` without pages of files, which the machine takes back where it needs them."""

    wall: float
    cpu: float
    peak_mb: float
    own_mb: float = 0.0


class Failed(Exception):
    """A measured command failed: its number would mean nothing."""


def cost_of(command: Sequence[str], environment: Mapping[str, str], log: Path) -> Cost:
    """Run a command to its end; its output goes to `log`. Raises Failed where it does not succeed.

    CPU seconds are the operating system's own account of the ended process and all that it started
    (wait4): what outlives its parent, as Spark's Python workers outlive the JVM, becomes a child of
    this process (PR_SET_CHILD_SUBREAPER) and is waited for too. Memory is sampled five times a
    second, so a short peak can be missed: also that of a process which is about to start another,
    for until then the two share their memory, and it would count twice.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    _adopt_orphans()
    others = _children()
    with log.open("ab") as out:
        begin = time.monotonic()
        process = subprocess.Popen(
            command, env=dict(environment), stdout=out, stderr=out, stdin=subprocess.DEVNULL
        )
        memory = _Memory(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - begin
        cpu = usage.ru_utime + usage.ru_stime + _cpu_of_orphans(others)
    process.returncode = os.waitstatus_to_exitcode(status)
    peak, own = memory.stop()
    if process.returncode:
        raise Failed(f"{' '.join(command)} ended with {process.returncode}; its output is in {log}")
    return Cost(round(wall, 3), round(cpu, 3), round(peak, 1), round(own, 1))


def _adopt_orphans() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def _children() -> set[int]:
    return {one.pid for one in psutil.Process().children()}


def _cpu_of_orphans(others: set[int]) -> float:
    """Of processes whose parent ended first; they end by themselves, for their parent is gone.
    `others` are children that were there before, as a cluster's."""
    cpu, deadline = 0.0, time.monotonic() + _ORPHANS_SECONDS
    while orphans := _children() - others:
        if time.monotonic() > deadline:
            raise Failed("A process that a measured command started did not end with it")
        for orphan in orphans:
            pid, _, usage = os.wait4(orphan, os.WNOHANG)
            if pid:
                cpu += usage.ru_utime + usage.ru_stime
        time.sleep(0.05)
    return cpu


class _Memory:
    """Samples the memory of a process and its children until it is told to stop."""

    def __init__(self, pid: int) -> None:
        self._pid, self._peaks, self._end = pid, (0.0, 0.0), threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def stop(self) -> tuple[float, float]:
        self._end.set()
        self._thread.join()
        return self._peaks

    def _sample(self) -> None:
        last = (float("inf"), float("inf"))
        while not self._end.wait(_SAMPLE_SECONDS):
            try:
                root = psutil.Process(self._pid)
                processes = [root, *root.children(recursive=True)]
            except psutil.NoSuchProcess:
                return
            each = [*map(_resident_mb, processes)]
            now = (sum(whole for whole, _ in each), sum(own for _, own in each))
            peaks = zip(self._peaks, last, now, strict=True)
            whole, own = (max(peak, min(before, here)) for peak, before, here in peaks)
            self._peaks, last = (whole, own), now


def _resident_mb(process: psutil.Process) -> tuple[float, float]:
    """All that is resident, and that without files."""
    try:
        memory = process.memory_info()
    except psutil.NoSuchProcess:
        return 0.0, 0.0
    return memory.rss / 1e6, (memory.rss - memory.shared) / 1e6


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def spread(values: Sequence[float], digits: int = 1) -> str:
    """The median, and the smallest and the largest value."""
    told = [f"{value:,.{digits}f}" for value in (median(values), min(values), max(values))]
    return told[0] if len(values) == 1 else f"{told[0]} ({told[1]}–{told[2]})"
