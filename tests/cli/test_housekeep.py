"""`tidemark checkpoint housekeep`: a plan, its act, a real kill in the middle, and refusals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from tests.checkpoint.damaged import copy_of, remove, twin
from tests.kit.running import Place, clicks
from tests.upkeep.stores import NOW, keep_only, names, plan_of
from tidemark.checkpoint.housekeeping.plan import FileKind, Share
from tidemark.cli.main import app
from tidemark.runs.pipeline_lease import pipeline_lease

# The process ends itself at the Nth removal, once the file is gone.
DYING = """
import os, signal, sys
from itertools import count
import obstore
remove, calls, last = obstore.delete, count(1), int(sys.argv.pop(1))
def dying(*of):
    remove(*of)
    if next(calls) == last:
        os.kill(os.getpid(), signal.SIGKILL)
obstore.delete = dying
from tidemark.cli.main import app
app(prog_name="tidemark")
"""


def housekeep(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["checkpoint", "housekeep", *map(str, arguments)])


def told(*arguments: str | Path) -> dict[str, Any]:
    (document,) = json.loads(housekeep(*arguments, "--json").stdout)
    return dict(document)


def share_of(folder: Path, kind: FileKind) -> Share:
    return {share.kind: share for share in plan_of(folder, 2).shares}[kind]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """12 batches of a file source, whose tenth list of files is compacted."""
    return copy_of("files_compacted", tmp_path)


def test_a_plan_changes_nothing_and_the_act_removes_what_it_says(checkpoint: Path) -> None:
    before = names(checkpoint)
    plan = told(checkpoint, "--keep-batches", 2)
    assert names(checkpoint) == before
    assert (plan["files"], plan["going_files"]) == (len(before), 36)
    assert plan["kept_batches"] == [10, 11]
    shown = housekeep(checkpoint, "--keep-batches", 2, "--apply")
    assert shown.exit_code == 0
    assert "36 of 74 files" in shown.output
    assert "removed; batches that it can be taken back to: 10 to 11" in shown.output
    left = before - names(checkpoint)
    assert len(left) == 36
    assert {name for name in names(checkpoint) if name.startswith("offsets/")} == {
        f"offsets/{name}" for batch in (9, 10, 11) for name in (batch, f".{batch}.crc")
    }
    # The lists of files are the engine's to remove, and it is said why.
    assert {name for name in before if name.startswith("sources/")} <= names(checkpoint)
    (sources,) = [share for share in plan["shares"] if share["kind"] == "sources"]
    assert "11 lists of the source's files and 1 compacted ones" in sources["reasons"][0]


def test_files_behind_a_link_out_of_the_checkpoint_stay(checkpoint: Path) -> None:
    elsewhere = checkpoint.parent / "elsewhere"
    (checkpoint / "commits").rename(elsewhere)
    (checkpoint / "commits").symlink_to(elsewhere)
    before = names(checkpoint), names(elsewhere)
    refused = housekeep(checkpoint, "--keep-batches", 2, "--apply")
    assert refused.exit_code == 1
    assert "is a link to a place out of" in " ".join(refused.output.split())
    assert (names(checkpoint), names(elsewhere)) == before


def test_the_default_keeps_what_the_engine_keeps(checkpoint: Path) -> None:
    assert told(checkpoint)["going_files"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "removed",
    [1, 17, pytest.param(2, marks=pytest.mark.long), pytest.param(35, marks=pytest.mark.long)],
)
def test_killed_at_any_file_a_repetition_finishes(
    checkpoint: Path, tmp_path: Path, removed: int
) -> None:
    whole = copy_of("files_compacted", tmp_path / "whole")
    keep_only(whole, 2)
    arguments = ["checkpoint", "housekeep", str(checkpoint), "--keep-batches", "2", "--apply"]
    before = len(names(checkpoint))
    died = subprocess.run([sys.executable, "-c", DYING, str(removed), *arguments], check=False)
    assert died.returncode == -signal.SIGKILL
    assert len(names(checkpoint)) == before - removed
    assert CliRunner().invoke(app, ["checkpoint", "doctor", str(checkpoint)]).exit_code == 0
    assert housekeep(checkpoint, "--keep-batches", 2, "--apply").exit_code == 0
    assert names(checkpoint) == names(whole)


def test_leftovers_go_once_nobody_can_be_writing_them(checkpoint: Path) -> None:
    temporary = checkpoint / "offsets/.12.0a0f0ab2-0c46-4e5d-9e41-6a3b4a9d0b6a.tmp"
    temporary.write_text("v1")
    orphan = checkpoint / "commits/.77.crc"
    orphan.write_bytes(b"crc")
    written = NOW.timestamp()
    for path in (temporary, orphan):
        os.utime(path, (written, written))
    young = {share.kind: share for share in plan_of(checkpoint, 100, NOW).shares}[
        FileKind.LEFTOVERS
    ]
    assert (young.files, young.going) == (2, ())
    later = NOW + timedelta(hours=2)
    old = {share.kind: share for share in plan_of(checkpoint, 100, later).shares}[
        FileKind.LEFTOVERS
    ]
    assert set(old.going) == {"commits/.77.crc", f"offsets/{temporary.name}"}


def test_a_damaged_checkpoint_is_left_as_it_is(checkpoint: Path) -> None:
    remove(checkpoint / "offsets/10")
    before = names(checkpoint)
    shown = housekeep(checkpoint, "--keep-batches", 2, "--apply")
    assert shown.exit_code == 14
    assert "damaged: offsets/10 is missing" in shown.output
    assert names(checkpoint) == before


def test_a_query_that_may_run_is_not_disturbed_and_the_reason_is_told(tmp_path: Path) -> None:
    checkpoint = copy_of("aggregate", tmp_path)
    remove(checkpoint / "commits/3")
    for partition in (0, 1):
        remove(checkpoint / f"state/0/{partition}/4.delta")
    before = names(checkpoint)
    shown = housekeep(checkpoint, "--keep-batches", 1, "--apply")
    assert shown.exit_code == 12
    assert "Batch 3 is planned and not committed" in shown.output
    assert names(checkpoint) == before


def test_an_old_snapshot_that_does_not_match_its_checksum_keeps_what_is_older(
    tmp_path: Path,
) -> None:
    checkpoint = copy_of("aggregate", tmp_path)
    store = checkpoint / "state/0/0"
    for version in (2, 3):
        (store / f"{version}.snapshot").write_bytes((store / f"{version}.delta").read_bytes())
    assert "state/0/0/1.delta" in set(share_of(checkpoint, FileKind.STATE).going)
    twin(store / "2.snapshot").write_bytes(b"crc\0\0\0\2\0\0\0\0\0")
    state = share_of(checkpoint, FileKind.STATE)
    assert state.going == ()
    assert any("2.snapshot, which is needed, does not match" in why for why in state.reasons)


@pytest.mark.slow
def test_the_path_of_a_pipelines_checkpoint_is_refused_without_its_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path, clicks(advanced={"keep_batches": 2}))
    monkeypatch.setenv("TIDEMARK_ROOT", str(tmp_path))
    monkeypatch.setenv("TIDEMARK_PIPELINES", str(place.write_file().parent))
    ingest = Path(place.places.ingest_checkpoint)
    copy_of("files_compacted", ingest.parent).rename(ingest)
    with pipeline_lease(place.pipeline, place.settings, "run-1", "stream"):
        held = housekeep("clicks", "--apply")
        assert held.exit_code == 75
        assert "run-1" in held.stderr
    shown = housekeep(ingest, "--keep-batches", 2, "--apply")
    assert shown.exit_code == 1
    assert "housekeep clicks --apply" in shown.stderr
    assert len(names(ingest)) == 74
    # The engine's 100 is larger than the pipeline's 2.
    kept = housekeep("clicks", "--apply")
    assert kept.exit_code == 0
    assert "ingest: clean end" in kept.output
    assert "0 of 74 files" in kept.output
    assert housekeep("clicks", "--keep-batches", 2).exit_code == 2
