"""`tidemark run` of three pipelines as a process, whose job is killed in the second of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.cli.test_many import outcomes, place
from tests.kit.patience import HUNG_SECONDS
from tests.kit.running import Place, sorted_rows

NAMES = ("a", "b", "c")
ROWS = [
    {"at": "2026-01-01T10:01:00Z", "key": "a", "amount": 1},
    {"at": "2026-01-01T10:31:00Z", "key": "b", "amount": 2},
    {"at": "2026-01-01T10:11:00Z", "key": "a", "amount": 3},
]


def command(root: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tidemark", "run", *arguments, "--master", "local[2]"],
        env=os.environ | Place(root).variables,
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.long
@pytest.mark.process
def test_the_next_run_takes_up_what_a_killed_job_of_several_left(tmp_path: Path) -> None:
    places = [place(tmp_path, name) for name in NAMES]
    for one in places:
        one.land("2.json", ROWS, f"landing/{one.name}")
    process = command(tmp_path, *NAMES, "--run-id", "one")
    assert process.stderr is not None
    assert any(line.endswith(" b: aggregate …\n") for line in process.stderr)
    _kill_the_job(process)
    said, _ = process.communicate(timeout=HUNG_SECONDS)
    assert process.returncode == 75
    assert outcomes(said) == {"a": "published", "b": "not run", "c": "not run"}
    gold = sorted_rows(places[0].gold())
    assert len(gold) == 3

    process = command(tmp_path, *NAMES, "--run-id", "two")
    said, errors = process.communicate(timeout=HUNG_SECONDS)
    assert process.returncode == 0, errors
    assert outcomes(said) == dict.fromkeys(NAMES, "published")
    # Of the first nothing was left.
    assert "a: Spark is needed" not in errors
    assert sorted_rows(places[0].gold()) == gold
    for one in places[1:]:
        found = sorted_rows(one.gold(), ("updated_by",))
        assert found == sorted_rows(places[0].gold(), ("updated_by",))
        assert one.bronze().num_rows == 4
        lines = one.table(one.places.ledger).to_pylist()
        assert [line for line in lines if line["balanced"] is False] == []


def _kill_the_job(process: subprocess.Popen[str]) -> None:
    """All that the command has started, at once."""
    job = psutil.Process(process.pid).children(recursive=True)
    assert job
    for one in job:
        one.send_signal(signal.SIGKILL)
