"""Know a process again, and end it: by pid and start time, within one boot and pid namespace.

Linux only: pid and start time come from /proc. A pid alone would not do, because the kernel
gives it to others later.
"""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import psutil
from pydantic import Field

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")
# Of Spark's programs that start Python's driver: SparkSubmit, DriverWrapper, ApplicationMaster.
_SPARK_PROGRAMS = "org.apache.spark.deploy."


@dataclass(frozen=True)
class ProcessMark:
    """One process: `started` is in clock ticks since the boot, which no change of the wall
    clock moves (psutil's and ps's start times move with it).

    `user` and `command`, a digest of the command line, are for marks that are written down
    (`noted`): whoever reads one must not end whatever it happens to name.
    """

    pid: Annotated[int, Field(ge=1, lt=2**31)]
    started: Annotated[int, Field(ge=0, lt=2**63)]
    user: int | None = field(default=None, compare=False)
    command: str | None = field(default=None, compare=False)


def this_machine() -> str:
    """Where pids mean the same: one boot of one kernel, and one pid namespace of it.

    A host's name would not do: containers share it, and clones and restarts repeat it.
    """
    return f"{_BOOT.read_text().strip()} {_PID_NAMESPACE.readlink()}"


def mark_of(pid: int) -> ProcessMark | None:
    """The process that has this pid now; None where none has, one that has ended, or one that
    may not be seen."""
    with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        # The second field, the program's name in parentheses, may hold anything.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        if fields[0] not in "ZX":
            return ProcessMark(pid, int(fields[19]))
    return None


def noted(mark: ProcessMark) -> ProcessMark:
    """The mark with whose process it is and how it was started, as far as can be seen."""
    with suppress(OSError, psutil.Error):
        line = Path(f"/proc/{mark.pid}/cmdline").read_bytes()
        user = psutil.Process(mark.pid).uids().effective
        return replace(mark, user=user, command=hashlib.sha256(line).hexdigest())
    return mark


def why_not_to_end(mark: ProcessMark) -> str | None:
    """Why the living process of this mark may be another than the one that was noted, or is not
    ours to end; None where it may be ended."""
    if mark.user is None or mark.command is None:
        return "was noted without its user and command line"
    found = noted(mark)
    if not found.user == mark.user == os.geteuid():
        return "is of another user"
    return None if found.command == mark.command else "has another command line than was noted"


def is_alive(mark: ProcessMark) -> bool:
    """Does this very process live? One that has ended and was not waited for does not."""
    found = mark_of(mark.pid)
    return found == mark if found else _hidden(mark.pid)


def own_line() -> tuple[int, ...]:
    """The pids of this process and of those that it descends from."""
    with suppress(psutil.NoSuchProcess):
        return (os.getpid(), *(parent.pid for parent in psutil.Process().parents()))
    return (os.getpid(), os.getppid())


def spark_parent() -> ProcessMark | None:
    """The JVM that started this process as Python's driver; None where another program did."""
    with suppress(psutil.Error):
        parent = psutil.Process().parent()
        if parent and any(word.startswith(_SPARK_PROGRAMS) for word in parent.cmdline()):
            return mark_of(parent.pid)
    return None


def descendants(marks: Iterable[ProcessMark]) -> tuple[ProcessMark, ...]:
    """The living processes that these started, and those that they started in turn."""
    found: dict[ProcessMark, None] = {}
    for mark in marks:
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(mark.pid).children(recursive=True)
            if is_alive(mark):
                found |= dict.fromkeys(m for child in children if (m := mark_of(child.pid)))
    return tuple(found)


def session_members(leader: int) -> tuple[ProcessMark, ...]:
    """The living processes of the session that this pid leads, or led until it ended.

    Also those that have changed their process group, as Spark's Python workers do, or lost their
    parent. The kernel gives the pid to no other process while one of them lives.
    """
    found = []
    for pid in psutil.pids():
        with suppress(OSError):
            if os.getsid(pid) == leader and (mark := mark_of(pid)):
                found.append(mark)
    return tuple(found)


def end_processes(
    marks: Sequence[ProcessMark], grace: float, after_kill: float = 5.0
) -> tuple[ProcessMark, ...]:
    """End these processes and all that they started; those that would not end come back.

    SIGTERM, `grace` seconds, SIGKILL, `after_kill` seconds. Never a process group: that may be
    shared with whoever started them. A process that only has the pid of one of these is not
    touched.
    """
    living = tuple(mark for mark in marks if is_alive(mark))
    for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, after_kill)):
        living = tuple(dict.fromkeys((*living, *descendants(living))))
        for mark in living:
            send_signal(mark, number)
        living = _wait_for_end(living, seconds)
    return living


def send_signal(mark: ProcessMark, number: signal.Signals) -> None:
    """Signal this very process, if it lives and may be signalled."""
    with suppress(ProcessLookupError, PermissionError):
        # The descriptor stays with one process: its pid cannot be reused behind the look.
        descriptor = os.pidfd_open(mark.pid)
        try:
            if is_alive(mark):
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def _wait_for_end(marks: Sequence[ProcessMark], seconds: float) -> tuple[ProcessMark, ...]:
    end = time.monotonic() + seconds
    while living := tuple(mark for mark in marks if is_alive(mark)):
        if time.monotonic() >= end:
            break
        time.sleep(0.02)
    return living


def _hidden(pid: int) -> bool:
    """Another user's process, where /proc is mounted to hide those (`hidepid`): it may be the
    one."""
    try:
        if os.access(f"/proc/{pid}/stat", os.R_OK):
            return False
        os.kill(pid, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    return False
