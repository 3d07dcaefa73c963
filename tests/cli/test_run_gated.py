"""`tidemark run` as a process: a failed check stops it before its publish."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_run import tidemark_process
from tests.kit.running import Place, clicks

ROWS = [
    {"at": "2026-01-01T10:01:00Z", "key": "a", "amount": -1},
    {"at": "2026-01-01T10:31:00Z", "key": "b", "amount": 2},
]


@pytest.mark.long
@pytest.mark.process
def test_a_run_whose_checks_fail_is_held_and_accepted_without_spark(tmp_path: Path) -> None:
    expected = {"ExpectColumnMinToBeBetween": {"column": "amount", "min_value": 0}}
    table = clicks()["tables"]["per_10m"] | {"checks": [{"fail": expected}]}
    place = Place(tmp_path, clicks(tables={"per_10m": table}))
    place.land("1.json", ROWS)
    ran = tidemark_process(place, "run", "clicks", "--master", "local[1]")
    assert ran.returncode == 1, ran.stderr
    assert "ChecksFailed: Run manual__" in ran.stderr
    assert "ExpectColumnMinToBeBetween(column='amount', min_value=0): -1" in ran.stderr
    assert place.gold().num_rows == 0
    nowhere = {"JAVA_HOME": "/no/java"}
    told = tidemark_process(place, "publish", "clicks", more=nowhere)
    assert (told.returncode, "ChecksFailed" in told.stderr) == (1, True)
    accept = ("publish", "clicks", "--accept", "--reason", "known")
    ran = tidemark_process(place, *accept, more=nowhere)
    assert ran.returncode == 0, ran.stderr
    assert place.gold().num_rows == 2
