"""A process that holds a lease, and answers on stdout to words on stdin.

FOLDER RUN SECONDS [--elsewhere] [--go-on]: `--elsewhere` holds as a process of another machine
would, `--go-on` does not halt when the lease is lost. Words: `check`, `child` (start one, tell
its pid), `end`.
"""

from __future__ import annotations

import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from tests.storage.leases import ELSEWHERE, holder, ignore
from tidemark.errors import LeaseLost, TidemarkError
from tidemark.storage.lease.halt import halt
from tidemark.storage.lease.lease import Lease, hold_lease

_NONE = subprocess.DEVNULL


def tell(line: str) -> None:
    print(line, flush=True)


def hold(told: Namespace) -> None:
    with hold_lease(
        told.folder,
        holder(told.run_id, ELSEWHERE if told.elsewhere else None),
        {},
        told.seconds,
        on_takeover=lambda number: tell(f"fenced {number}"),
        on_lapse=ignore if told.go_on else halt,
    ) as lease:
        tell(f"held {lease.number}")
        for line in sys.stdin:
            if line.strip() == "end":
                return
            tell(answer(line.strip(), lease))


def answer(word: str, lease: Lease) -> str:
    if word == "child":
        # With pipes of its own, so that who reads this process's to their end need not wait for it.
        return str(subprocess.Popen(["sleep", "300"], stdout=_NONE, stderr=_NONE).pid)
    try:
        lease.check()
    except LeaseLost as lost:
        return f"lost: {lost}"
    return "held"


def main(argv: Sequence[str]) -> int:
    parser = ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("run_id")
    parser.add_argument("seconds", type=float)
    parser.add_argument("--elsewhere", action="store_true")
    parser.add_argument("--go-on", action="store_true")
    try:
        hold(parser.parse_args(argv))
    except TidemarkError as error:
        tell(f"{type(error).__name__}: {error}")
        return 75
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
