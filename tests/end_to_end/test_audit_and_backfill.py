"""Audit and backfill as jobs: bronze is corrected, the audit sees it, a backfill mends gold."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.kit.patience import HUNG_SECONDS
from tests.kit.running import JOB, REPOSITORY, Place, query, start_job
from tests.streaming.audits import event

pytestmark = pytest.mark.process

AUDIT = REPOSITORY / "jobs" / "audit.py"
BACKFILL = REPOSITORY / "jobs" / "backfill.py"
KILLED = Path(__file__).with_name("killed_backfill.py")
RANGE = (
    *("--table", "per_10m"),
    *("--from", "2026-07-01T10:00:00Z", "--to", "2026-07-01T10:40:00Z"),
)


def run(place: Place, script: Path, name: str, *arguments: str) -> tuple[int, str, dict[str, Any]]:
    """Exit code, output and result of a job; an empty result where it wrote none."""
    process = start_job(place, name, script, arguments)
    output, _ = process.communicate(timeout=HUNG_SECONDS)
    target = place.root / f"{name}.result.json"
    return process.returncode, output, json.loads(target.read_text()) if target.exists() else {}


def versions(place: Place) -> dict[str, int]:
    uris = {"gold": place.places.gold("per_10m"), "changes": place.places.changes("per_10m", 1)}
    uris |= {"bronze": place.places.bronze, "ledger": place.places.ledger}
    return {name: DeltaTable(uri).version() for name, uri in uris.items()}


@pytest.mark.long
def test_corrected_bronze_is_audited_backfilled_though_killed_once_and_audited_again(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)
    place.land("1.json", [event(10, m, key, m) for m in (0, 11, 22, 51) for key in ("a", None)])
    assert run(place, JOB, "run-1")[0] == 0
    DeltaTable(place.places.bronze).update({"amount": "amount + 100"}, predicate="amount = 11")

    code, _, result = run(place, AUDIT, "audit-1")
    assert (code, result["outcome"]) == (1, "different")
    assert result["tables"]["per_10m"]["found"]["different"] == 2

    before = versions(place)
    code, _, result = run(place, BACKFILL, "dry", *RANGE, "--dry-run")
    assert (code, result["found"]["different"], result["gold"]) == (0, 2, None)
    examples = result["found"]["examples"]["different"]
    assert {one["keys"]["key"] for one in examples} == {"a", None}
    changed = {(one["gold"]["amount"], one["bronze"]["amount"]) for one in examples}
    assert changed == {(11, 111)}
    assert versions(place) == before

    code, _, result = run(place, KILLED, "killed", *RANGE)
    # spark-submit's shell may be killed with the job, or say so.
    assert code in (-signal.SIGKILL, 128 + signal.SIGKILL)
    assert (result, versions(place)["gold"]) == ({}, before["gold"])
    assert versions(place)["changes"] == before["changes"] + 1

    code, output, result = run(place, BACKFILL, "again", *RANGE)
    assert (code, result["appended"], result["published_windows"]) == (0, 0, 2), output
    assert result["took_over"], "the lease of the killed one"
    revised = "SELECT amount, status, revision FROM gold WHERE updated_by = 'again'"
    assert query(revised, gold=place.gold()) == [(111, "corrected", 1)] * 2
    lines = "SELECT windows, published, balanced FROM l WHERE kind = 'backfill'"
    assert query(lines, l=place.table(place.places.ledger)) == [(6, 6, True)]

    code, output, result = run(place, AUDIT, "audit-2")
    assert (code, result["outcome"]) == (0, "equal"), output


@pytest.mark.long
def test_a_range_that_is_open_ends_with_1_and_a_table_that_is_not_there_too(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.land("1.json", [event(10, 0)])
    assert run(place, JOB, "run-1")[0] == 0
    code, _, result = run(place, BACKFILL, "open", *RANGE)
    assert (code, result["error"]["class"]) == (1, "BackfillRefused")
    code, output, _ = run(place, AUDIT, "audit", "--table", "nowhere")
    assert code == 1
    assert "has no table nowhere; it has per_10m" in output
