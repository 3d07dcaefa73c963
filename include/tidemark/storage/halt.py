"""Stop writing at once: what a job does when its lease is gone."""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress
from typing import NoReturn

from tidemark.errors import RETRY, LeaseLost
from tidemark.storage.processes import descendants, mark_of, send_signal, spark_parent

_STDERR = 2
# What a pipe takes in one piece.
_MOST_BYTES = 4096
# Python's driver writes into a pipe that Spark's JVM copies to the log.
_SECONDS_TO_COPY = 0.2


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
        time.sleep(_SECONDS_TO_COPY)
        send_signal(jvm, signal.SIGKILL)
    for mark in others:
        send_signal(mark, signal.SIGKILL)
    os._exit(RETRY)


def _say(text: str) -> None:
    """Not by sys.stderr: another thread may hold its lock, or a full pipe block the end. Whoever
    read it may be gone; that must not keep this process from ending."""
    with suppress(OSError, ValueError):
        if select.select([], [_STDERR], [], 0)[1]:
            os.write(_STDERR, text.encode()[:_MOST_BYTES])
