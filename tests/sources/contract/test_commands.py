"""The commands on a pipeline of each kind that is no file: they ask the source itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_run import tidemark, tidemark_process
from tests.end_to_end.test_audit_and_backfill import AUDIT, BACKFILL, RANGE, run
from tests.kit.running import run_job, sorted_rows
from tests.sources.contract.worlds import WORLDS, Topics, World
from tidemark.errors import InputLost
from tidemark.runs.results.result import RunResult
from tidemark.storage.result_file import read_result

pytestmark = [pytest.mark.process, pytest.mark.long]


@pytest.fixture(params=["kafka", "delta"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    if request.param == "kafka":
        Topics.broker = request.getfixturevalue("broker")
    return WORLDS[request.param](tmp_path)


def test_each_command_does_on_it_what_it_does_on_files(world: World) -> None:
    place = world.place
    world.land("0", [_row("a"), "not JSON", _row("b", 12)])
    world.land("1", [_row("c", 59)])
    assert run_job(place, "one").exit_code == 0
    _finds_nothing_new_without_java(world)
    # Late, for windows that are closed by now.
    world.land("0", [_row("late")])
    status = tidemark(place, "status")
    assert "clicks" in status.output
    assert run_job(place, "two").exit_code == 0
    code, output, result = run(place, AUDIT, "audit")
    assert (code, result["outcome"]) == (0, "equal"), output
    code, output, result = run(place, BACKFILL, "dry", *RANGE, "--dry-run")
    assert (code, result["gold"]) == (0, None), output
    _accepts_what_was_lost(world)
    _builds_the_ledger_anew(world)


def _row(key: str, minute: int = 0) -> dict[str, Any]:
    return {"at": f"2026-07-01T10:{minute:02}:00Z", "key": key, "amount": 1}


def _finds_nothing_new_without_java(world: World) -> None:
    nowhere = {"JAVA_HOME": "/no/java"}
    before = sorted_rows(world.place.gold())
    ran = tidemark_process(world.place, "run", "clicks", "--run-id", "idle", more=nowhere)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "no Spark was started: all of the source was read before" in ran.stdout
    result = read_result(RunResult, world.place.places.result("idle"), {})
    assert list(result.seconds) == ["preflight", "validate", "publish"]
    assert sorted_rows(world.place.gold()) == before


def _accepts_what_was_lost(world: World) -> None:
    place = world.place
    world.land("2", [_row("gone", 59)])
    world.lose("2")
    ran = tidemark_process(place, "run", "clicks", more={"JAVA_HOME": "/no/java"})
    assert ran.returncode == 1, ran.stdout
    assert "tidemark accept clicks --reason WHY" in ran.stderr
    asked = place.run("look")
    with pytest.raises(InputLost):
        asked.source.check(asked.ingest_checkpoint())
    accepted = tidemark(place, "accept", "clicks", "--reason", "it is gone")
    assert accepted.exit_code == 0, accepted.output
    end = run_job(place, "three")
    assert end.exit_code == 0, end.output
    assert end.result is not None
    assert end.result.rows.rejected == {world.lost: 1}
    assert end.result.rows.read == 1


def _builds_the_ledger_anew(world: World) -> None:
    place = world.place
    ledger = place.places.ledger

    def lines() -> list[tuple[object, ...]]:
        names = ["kind", "table", "batch", "read", "accepted", "rejected", "reasons", "balanced"]
        rows = place.table(ledger).select(names).to_pylist()
        return sorted((tuple(one.values()) for one in rows if one["kind"] == "ingest"), key=repr)

    before = lines()
    rebuilt = tidemark(place, "ledger", "rebuild", "clicks")
    assert rebuilt.exit_code == 0, rebuilt.output
    assert lines() == before
    shown = tidemark(place, "ledger", "show", "clicks")
    assert shown.exit_code == 0
    assert "ingest" in shown.output
