"""`tidemark lease`: what it shows, what it refuses, and what releasing does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import Result
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner

from tests.kit.running import Place
from tests.storage.leases import (
    ELSEWHERE,
    HoldingProcess,
    at,
    holder,
    leave,
    left_by_another,
)
from tests.storage.test_fence import ONE
from tidemark.cli.lease import lease_lines
from tidemark.cli.main import app
from tidemark.storage.lease.files import TakenFrom
from tidemark.storage.lease.lease import LeaseRecord, read_lease
from tidemark.storage.processes import mark_of


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    place = Place(tmp_path)
    folder = place.write_file().parent
    monkeypatch.setenv("TIDEMARK_ROOT", str(tmp_path))
    monkeypatch.setenv("TIDEMARK_PIPELINES", str(folder))
    return place


def lease(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["lease", *arguments])


def lines(record: LeaseRecord, seconds: float = 1) -> dict[str, str]:
    return lease_lines(record, holder(), at(seconds))


def test_a_pipeline_that_never_ran_has_no_lease(place: Place) -> None:
    assert lease("show", "clicks").output == "Nobody has held the lease of clicks yet.\n"
    released = lease("release", "clicks")
    assert released.output == "The lease of clicks is free: there is nothing to release.\n"
    assert released.exit_code == 0


def test_a_live_lease_is_shown_and_not_released(place: Place) -> None:
    with HoldingProcess(place.places.lease, "nightly", 60) as holding:
        assert holding.heard() == "held 1"
        shown = lease("show", "clicks").output
        assert shown.startswith("clicks: lease 1\n")
        for told in ("run nightly", "stream", f"{holding.process.pid} (alive)", "wait: it is live"):
            assert told in shown
        refused = lease("release", "clicks")
        assert refused.exit_code == 75
        assert "LeaseHeld: " in refused.stderr
        assert f"is held by run nightly (stream) on {holder().host}, process" in refused.stderr
        assert holding.ask("check") == "held"


def test_a_lease_left_behind_is_released_once_and_the_tables_are_fenced(place: Place) -> None:
    write_deltalake(place.places.bronze, ONE)
    leave(place.places.lease, left_by_another())
    released = lease("release", "clicks").output
    assert released == (
        "Lease 7 of clicks is released (run other, stream, on elsewhere); its tables are fenced "
        "with 8.\n"
    )
    assert DeltaTable(place.places.bronze).metadata().configuration == {"tidemark.lease": "8"}
    assert "nothing to release" in lease("release", "clicks").output
    shown = lease("show", "clicks").output
    assert "last held by" in shown
    assert "run other (stream) on elsewhere, lease 7: its processes are gone" in shown
    assert "take: it was released" in shown


def test_a_lease_that_may_live_elsewhere_is_released_by_force_which_says_what_it_means(
    place: Place,
) -> None:
    with HoldingProcess(place.places.lease, "far", 10, "--elsewhere", "--go-on") as holding:
        assert holding.heard() == "held 1"
        assert lease("release", "clicks").exit_code == 75
        forced = lease("release", "clicks", "--force")
        assert forced.exit_code == 0
        assert "Lease 1 of clicks is released (run far, stream, on second)" in forced.output
        assert "Until then it may write files into checkpoints" in forced.output
        assert holding.ask("check").startswith("lost: ")
    found = read_lease(place.places.lease, {})
    assert found is not None
    assert found.released


def test_a_lease_that_nobody_can_read_is_released_by_force_only(place: Place) -> None:
    Path(place.places.lease).mkdir(parents=True)
    file = Path(place.places.lease, f"{7:020}.json")
    file.write_text("{")
    for command in ("show", "release"):
        refused = lease(command, "clicks")
        assert refused.exit_code == 1
        assert refused.stderr.startswith(f"LeaseUnreadable: {file} is not a lease file")
    assert lease("release", "clicks", "--force").exit_code == 0
    assert not file.exists()


def test_processes_of_another_machine_cannot_be_seen() -> None:
    told = lines(left_by_another(machine=ELSEWHERE))
    assert told["processes"].endswith("(of another machine or container: not to be seen from here)")
    assert told["a run from here would"].startswith("wait: another host may take it over from 2026")
    assert told["until"] == "2026-03-01T12:01:00Z"


def test_what_the_next_run_would_do_follows_the_rules() -> None:
    alive = left_by_another(processes=(mark_of(os.getppid()),))
    assert lines(alive)["a run from here would"] == "wait: it is live"
    assert lines(alive, 61)["a run from here would"].startswith("end its processes and take over: ")
    assert lines(left_by_another())["a run from here would"] == "take over: its processes are gone"


def test_a_takeover_that_did_not_fence_is_told() -> None:
    before = TakenFrom(number=6, run_id="x", purpose="stream", host="h", because="it ran out")
    told = lines(left_by_another(released=True, fence_due=True, took_over=before))
    assert told["released"] == "yes, but the tables are still to be fenced"
    assert told["taken over from"] == "run x (stream) on h, lease 6: it ran out"


def test_help_names_both_commands() -> None:
    shown = CliRunner().invoke(app, ["lease", "--help"]).output
    assert "show" in shown
    assert "release" in shown
