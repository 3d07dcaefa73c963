"""`tidemark lease`: what it shows, what it refuses, and what releasing does."""

from __future__ import annotations

import json
import subprocess
import time
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
from tidemark.errors import LeaseUnreadable
from tidemark.storage.lease.files import PreviousHolder
from tidemark.storage.lease.lease import LeaseRecord, hold_lease, read_lease
from tidemark.storage.processes import mark_of, noted


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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"expires_at": "9999-12-31T23:59:59Z"},
        {"expires_at": "9999-12-31T23:59:59-23:00"},
        {"taken_at": "0001-01-01T00:00:00+14:00"},
        {"renewed_at": 10**20},
        {"seconds": 1e300},
        {"seconds": -60},
        {"number": 10**20},
        {"processes": [{"pid": 10**20, "started": 1}]},
        {"processes": [{"pid": -1, "started": 1}]},
        {"processes": [{"pid": 1, "started": -(10**20)}]},
    ],
    ids=str,
)
def test_numbers_and_times_that_no_run_writes_are_damage_with_a_way_out(
    place: Place, change: dict[str, object]
) -> None:
    Path(place.places.lease).mkdir(parents=True)
    file = Path(place.places.lease, f"{7:020}.json")
    file.write_text(json.dumps(json.loads(left_by_another().model_dump_json()) | change))
    told(place, file)


def test_a_file_of_a_number_that_no_run_has_is_damage_with_a_way_out(place: Place) -> None:
    leave(place.places.lease, left_by_another(released=True))
    file = Path(place.places.lease, f"{'9' * 20}.json")
    file.write_text(left_by_another(number=int("9" * 20)).model_dump_json())
    told(place, file)


def told(place: Place, damaged: Path) -> None:
    """What reads the lease names the file; released by force, the pipeline can be worked on."""
    for command in ("show", "release"):
        refused = lease(command, "clicks")
        assert refused.exit_code == 1
        assert refused.stderr.startswith(f"LeaseUnreadable: {damaged} is not a lease file")
        assert "lease release --force" in refused.stderr
    shown = CliRunner().invoke(app, ["status", "clicks"])
    assert shown.exit_code == 26
    assert "is not a lease file" in shown.output
    with pytest.raises(LeaseUnreadable), hold_lease(place.places.lease, holder(), {}):
        pass
    assert lease("release", "clicks", "--force").exit_code == 0
    assert not damaged.exists()
    with hold_lease(place.places.lease, holder(), {}) as held:
        assert held.number == 9


def test_processes_of_another_machine_cannot_be_seen() -> None:
    told = lines(left_by_another(machine=ELSEWHERE))
    assert told["processes"].endswith("(of another machine or container: not to be seen from here)")
    assert told["a run from here would"].startswith("wait: another host may take it over from 2026")
    assert told["until"] == "2026-03-01T12:01:00Z"


def test_what_the_next_run_would_do_follows_the_rules() -> None:
    with subprocess.Popen(["sleep", "300"]) as sleeper:
        mark = mark_of(sleeper.pid)
        assert mark is not None
        # Until it has become the sleeper, it has the command line of this process.
        while b"sleep" not in Path(f"/proc/{sleeper.pid}/cmdline").read_bytes():
            time.sleep(0.01)
        alive = left_by_another(processes=(noted(mark),))
        assert lines(alive)["a run from here would"] == "wait: it is live"
        told = lines(alive, 61)["a run from here would"]
        assert told.startswith("end its processes and take over: ")
        unknown = left_by_another(processes=(mark,))
        assert lines(unknown)["a run from here would"] == "wait: it is live"
        told = lines(unknown, 61)["a run from here would"]
        assert told.startswith(
            f"refuse: it may be taken over, but process {sleeper.pid} was noted without its user "
            "and command line, so nothing is signalled."
        )
        sleeper.kill()
    assert lines(left_by_another())["a run from here would"] == "take over: its processes are gone"


def test_a_takeover_that_did_not_fence_is_told() -> None:
    before = PreviousHolder(number=6, run_id="x", purpose="stream", host="h", because="it ran out")
    told = lines(left_by_another(released=True, fence_due=True, took_over=before))
    assert told["released"] == "yes, but the tables are still to be fenced"
    assert told["taken over from"] == "run x (stream) on h, lease 6: it ran out"


def test_help_names_both_commands() -> None:
    shown = CliRunner().invoke(app, ["lease", "--help"]).output
    assert "show" in shown
    assert "release" in shown
