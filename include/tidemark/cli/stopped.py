"""How a command is stopped: Ctrl-C, SIGTERM and a closed terminal are one exception, so that
`finally` is heard: leases are given back, jobs are ended, temporary folders go."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(BaseException):
    """A signal ends the command. Like `SystemExit`, it is none of the errors that are handled."""

    def __init__(self, number: int) -> None:
        self.exit_code = 128 + number


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Make SIGINT, SIGTERM and SIGHUP raise Stopped in this block; one that whoever started the
    command has ignored (nohup, `&`) stays so."""

    told: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        # What a library kept from going on is told again, maybe as another signal.
        told.append(number)
        raise Stopped(told[0])

    possible = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in possible}
    heard = [number for number, handler in before.items() if handler != signal.SIG_IGN]
    for number in heard:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])
