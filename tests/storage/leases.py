"""Leases for tests: records as another run left them, holders, and processes that hold one."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tidemark.errors import LeaseLost
from tidemark.storage.lease.files import LeaseFolder, LeaseRecord
from tidemark.storage.lease.lease import Holder, this_process
from tidemark.storage.processes import ProcessMark, this_machine

# Not from `tests.kit`, whose imports each process that holds a lease would wait for.
REPOSITORY = Path(__file__).resolve().parents[2]
T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
ELSEWHERE = "another boot pid:[1]"
# A process that starts Python as Spark's JVM does, and has the argument by which that is known.
UNDER_SPARK = [
    "-c",
    "import subprocess, sys; subprocess.run([sys.executable, *sys.argv[2:]])",
    "org.apache.spark.deploy.SparkSubmit",
]
# No process of this machine: the pid is above what the kernel gives.
GONE = ProcessMark(2**22 + 1, 1)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def left_by_another(**changes: Any) -> LeaseRecord:
    """A live lease of another run, taken at T0 for 60 seconds by a process that is gone."""
    record = LeaseRecord(
        number=7,
        run_id="other",
        purpose="stream",
        host="elsewhere",
        machine=this_machine(),
        processes=(GONE,),
        seconds=60,
        taken_at=T0,
        renewed_at=T0,
        expires_at=at(60),
    )
    return record.model_copy(update=changes)


def leave(folder: str, record: LeaseRecord, options: dict[str, str] | None = None) -> None:
    """Write a lease file as its owner would have."""
    LeaseFolder(folder, options or {}).rewrite(record)


def holder(run_id: str = "mine", machine: str | None = None) -> Holder:
    found = this_process(run_id, "stream")
    return replace(found, machine=machine, host="second") if machine else found


def ignore(lost: LeaseLost) -> None:
    """As `on_lapse`: this process goes on, so that the test can look."""


class HoldingProcess:
    """A process that holds a lease until it is told to end; what it says is read line by line."""

    def __init__(
        self, folder: str, run_id: str, seconds: float, *arguments: str, spark: bool = False
    ) -> None:
        module = ["-m", "tests.storage.holding", folder, run_id, str(seconds), *arguments]
        self.process = subprocess.Popen(
            [sys.executable, *(UNDER_SPARK if spark else []), *module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
            env=os.environ | {"PYTHONPATH": f"{REPOSITORY / 'include'}:{REPOSITORY}"},
        )

    def heard(self) -> str:
        """Its next line; empty when it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, word: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        return self.heard()

    def ended(self) -> tuple[int, str]:
        """Its exit status and what it said on stderr. Its stdin stays open until then."""
        status = self.process.wait(20)
        assert self.process.stderr is not None
        return status, self.process.stderr.read()

    def __enter__(self) -> HoldingProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()


def names(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())
