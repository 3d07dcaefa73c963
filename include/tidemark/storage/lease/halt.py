"""Stop writing at once: what a job does when its lease is gone."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import termios
import time
from contextlib import suppress
from typing import NoReturn

from tidemark.errors import RETRY, LeaseLost
from tidemark.printed import shown
from tidemark.storage.processes import descendants, mark_of, send_signal, spark_parent

_STDERR = 2
# What a pipe takes in one piece.
_MOST_BYTES = 4096
# Python's driver writes into a pipe that Spark's JVM copies to the log: how long it may take to
# read the pipe, where the machine is busy, and then to write.
_SECONDS_TO_READ = 1.0
_SECONDS_TO_WRITE = 0.1


def halt(lost: LeaseLost) -> NoReturn:
    """Say why, kill the JVM that started this driver and all that this process started, and
    leave with 75 (a retry can help), without any clean-up.

    No clean-up, because everything that still runs might write: `finally` blocks, shutdown
    hooks, queries. Under spark-submit the caller sees the JVM's end by SIGKILL.
    """
    _say(f"{type(lost).__name__}: {lost}\n")
    jvm, own = spark_parent(), mark_of(os.getpid())
    # With the JVM's workers, which would finish what they compute after it.
    others = [mark for mark in descendants([m for m in (jvm, own) if m]) if mark != own]
    if jvm:
        _wait_for_a_copy()
        send_signal(jvm, signal.SIGKILL)
    for mark in others:
        send_signal(mark, signal.SIGKILL)
    os._exit(RETRY)


def _say(text: str) -> None:
    """Not by sys.stderr: another thread may hold its lock, or a full pipe block the end. Whoever
    read it may be gone; that must not keep this process from ending."""
    with suppress(OSError, ValueError):
        if select.select([], [_STDERR], [], 0)[1]:
            os.write(_STDERR, shown(text).encode()[:_MOST_BYTES])


def _wait_for_a_copy() -> None:
    end = time.monotonic() + _SECONDS_TO_READ
    while _bytes_unread() and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(_SECONDS_TO_WRITE)


def _bytes_unread() -> int:
    """What waits in the pipe of stderr; 0 where it is no pipe."""
    try:
        found = fcntl.ioctl(_STDERR, termios.FIONREAD, b"\0" * 4)
    except OSError:
        return 0
    return int(struct.unpack("i", found)[0])
