"""What stops a command by a signal before Spark is started leaves all in order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kit.patience import PATIENCE_SECONDS
from tests.kit.running import Place
from tidemark.storage.lease.lease import read_lease

# The command, whose preflight, maintenance or check takes a long time under the lease.
SLOW = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from importlib import import_module
from tidemark.storage.duckdb_in_utc import duckdb_in_utc

def in_python(*given, **named):
    time.sleep(60)

def in_duckdb(*given, **named):
    with duckdb_in_utc() as connection:
        for _ in range(10_000):
            connection.execute("SELECT sum(range) FROM range(5000000)")

way = globals()[sys.argv.pop(1)]
module, name = sys.argv.pop(1).rsplit(".", 1)
setattr(import_module(module), name, way)
from tidemark.cli.start import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize(
    ("way", "slow", "command"),
    [
        ("in_python", "tidemark.runs.without_spark.run_preflight", ("run", "clicks")),
        ("in_duckdb", "tidemark.runs.without_spark.run_preflight", ("run", "clicks")),
        (
            *("in_duckdb", "tidemark.upkeep.maintenance.maintain._plans"),
            ("maintain", "clicks", "--apply"),
        ),
        ("in_python", "tidemark.ledger.rebuild.rebuilt_lines", ("ledger", "rebuild", "clicks")),
    ],
)
def test_a_signal_without_spark_gives_the_lease_back_and_says_stopped(
    tmp_path: Path, way: str, slow: str, command: tuple[str, ...], number: signal.Signals
) -> None:
    place = Place(tmp_path)
    place.write_file()
    place.land("1.json", [{"at": "2026-01-01T10:01:00Z", "key": "a", "amount": 1}])
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, way, slow, *command],
        env=os.environ | place.variables,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + PATIENCE_SECONDS
    while not read_lease(place.places.lease, {}):
        assert time.monotonic() < until, process.poll()
        time.sleep(0.05)
    time.sleep(0.2)
    process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 128 + number
    assert said.strip() == "Stopped. What was committed stays, and is not done again."
    record = read_lease(place.places.lease, {})
    assert record is not None
    assert record.released
