"""Checkpoints and backups that others made up: nothing changes but what the command names."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.checkpoint.rewind.queries import command, done
from tests.checkpoint.rewind.sinks import WithSinks, bytes_of, with_sinks
from tidemark.checkpoint.reading.log_formats import STOP_MARK

TO = ("--to-batch", "3", "--sink")


@pytest.fixture
def made(tmp_path: Path) -> WithSinks:
    """A checkpoint and its sinks, and beside them what somebody else has."""
    victim = tmp_path / "victim"
    (victim / "_spark_metadata").mkdir(parents=True)
    for name in ("precious", "_spark_metadata/7"):
        (victim / name).write_text("precious")
    return with_sinks(tmp_path / "query")


def plan(made: WithSinks, **changes: Any) -> dict[str, Any]:
    """What a backup of the checkpoint would say."""
    files = bytes_of(made.checkpoint)
    value = {
        "format": 1,
        "uri": str(made.checkpoint),
        "title": "taken back to the end of batch 3",
        "listed": {name: len(data) for name, data in files.items()},
        "removed": [],
        "last_batch": 3,
        "written": {},
        "table": None,
        "sink_log": None,
    }
    return value | changes


def plant(made: WithSinks, text: str, at: Path | None = None, mark: bool = True) -> Path:
    """A backup with this plan beside the checkpoint, or elsewhere; a stop mark leads to it."""
    backup = at or Path(f"{made.checkpoint}.before-20260701T120000Z")
    shutil.copytree(made.checkpoint, backup / "checkpoint")
    (backup / "change.json").write_text(text)
    if mark:
        line = json.dumps({"backup": str(backup)})
        (made.checkpoint / "offsets" / "8").write_text(f"{STOP_MARK}\n{line}")
    return backup


def refused(made: WithSinks, *arguments: str | Path) -> str:
    """What a command says that may change nothing at all."""
    before = bytes_of(made.folder.parent)
    for more in (("--apply",), ("--apply", "--json"), ()):
        result = command(*arguments, *more)
        assert result.exit_code == 1, result.output
        assert bytes_of(made.folder.parent) == before
    return " ".join(result.output.split())


ELSEWHERE = "../../victim/precious"
NAMES = (ELSEWHERE, "offsets/../../../victim/precious", "/etc/hostname", "a//b", "./metadata", "\0")
DAMAGED = [
    *({"removed": [name]} for name in NAMES),
    *({"listed": {name: 1}} for name in NAMES),
    *({"written": {name: "x"}} for name in NAMES),
    {"sink_log": {"uri": "/out/_spark_metadata", "listed": {}, "removed": [ELSEWHERE]}},
    {"listed": [1]},
    {"removed": None},
    {"more": 1},
    {"last_batch": "many"},
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", DAMAGED, ids=lambda one: "-".join(map(ascii, *one.items()))[:60]
)
def test_a_name_that_leads_elsewhere_is_damage_of_the_backup(
    made: WithSinks, changes: dict[str, Any]
) -> None:
    backup = plant(made, json.dumps(plan(made, **changes)))
    for arguments in (("rewind", made.checkpoint, *TO, "other"), ("restore", backup)):
        assert "change.json is damaged" in refused(made, *arguments)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["[" * 100_000, '{"format": 1e999}', "[]", "{}", ""])
def test_a_plan_that_cannot_be_read_is_damage_of_the_backup(made: WithSinks, text: str) -> None:
    backup = plant(made, text)
    for arguments in (("repair", made.checkpoint, "--sink", "other"), ("restore", backup)):
        assert "change.json is damaged" in refused(made, *arguments)


def sinks(made: WithSinks) -> dict[str, tuple[dict[str, Any], str]]:
    """Plans that change what the commands here do not name, and what names it."""
    victim = made.folder.parent / "victim"
    table = {"query_id": made.query_id, "seen": 7, "version": 3, "batch_seen": 7, "batch": 3}
    log = {"uri": f"{victim}/_spark_metadata", "listed": {"7": 8}, "removed": ["7"]}
    return {
        "table": ({"table": {"uri": str(made.table), **table}}, f"--sink delta:{made.table}"),
        "folder": ({"sink_log": log}, f"--sink files:{victim}"),
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["table", "folder"])
@pytest.mark.parametrize("named", ["other", "delta:{}/elsewhere", "files:{}/out"])
def test_a_sink_that_the_command_does_not_name_is_not_touched(
    made: WithSinks, kind: str, named: str
) -> None:
    changes, option = sinks(made)[kind]
    backup = plant(made, json.dumps(plan(made, **changes)))
    sink = named.format(made.folder)
    for arguments in (("rewind", made.checkpoint, *TO, sink), ("restore", backup, "--sink", sink)):
        text = refused(made, *arguments)
        assert f"It changes the {kind}" in text
        assert option in text


@pytest.mark.slow
def test_a_checkpoint_that_the_command_does_not_name_is_not_touched(made: WithSinks) -> None:
    other = with_sinks(made.folder.parent / "other")
    backup = plant(made, json.dumps(plan(other)))
    for arguments in (("rewind", made.checkpoint, *TO, "other"), ("restore", backup)):
        assert f"It changes the checkpoint {other.checkpoint}, which" in refused(made, *arguments)


def test_a_backup_that_is_not_beside_it_and_not_named_is_not_read(made: WithSinks) -> None:
    backup = plant(made, "", made.folder.parent / "victim" / "backup")
    text = refused(made, "rewind", made.checkpoint, *TO, "other")
    assert f"add --backup {backup}" in text
    text = refused(made, "rewind", made.checkpoint, *TO, "other", "--backup", backup)
    assert "change.json is damaged" in text


@pytest.mark.slow
def test_the_command_that_a_refused_restore_tells_brings_all_back(made: WithSinks) -> None:
    before = bytes_of(made.checkpoint), made.rows()
    backup = made.folder.parent / "a backup"
    done("rewind", made.checkpoint, *TO, made.sink("delta"), "--backup", backup)
    text = refused(made, "restore", backup)
    assert (
        f"restore '{backup}' --checkpoint {made.checkpoint} --sink {made.sink('delta')} --apply`"
        in text
    )
    named = ("--checkpoint", made.checkpoint, "--sink", made.sink("delta"))
    result = command("restore", backup, *named, "--apply")
    assert result.output.index("would be brought back") < result.output.index(
        "all was brought back"
    )
    assert (bytes_of(made.checkpoint), made.rows()) == before


def test_a_rewind_shows_its_plan_before_it_acts_and_what_undoes_it(made: WithSinks) -> None:
    output = command("rewind", made.checkpoint, *TO, made.sink("files"), "--apply").output
    steps = ["to be taken back", "goes:", "backup:", "done: taken back", "to undo it: `tidemark"]
    assert sorted(steps, key=output.index) == steps
    assert f"--sink {made.sink('files')} --apply" in output


def test_a_link_out_of_the_checkpoint_is_refused(made: WithSinks) -> None:
    victim = made.folder.parent / "victim"
    shutil.move(made.checkpoint / "offsets", victim / "offsets")
    (made.checkpoint / "offsets").symlink_to(victim / "offsets")
    text = refused(made, "rewind", made.checkpoint, *TO, "other")
    assert "is a link to a place out of" in text or "is not there" in text
    backup = Path(f"{made.checkpoint}.before-20260701T120000Z")
    listed = {"offsets/7": 1}
    (backup / "checkpoint" / "offsets").mkdir(parents=True)
    (backup / "checkpoint" / "offsets" / "7").write_text("x")
    (backup / "change.json").write_text(json.dumps(plan(made, listed=listed)))
    assert "is a link to a place out of" in refused(made, "restore", backup)


@pytest.mark.slow
def test_a_pipelines_own_checkpoint_is_not_restored(made: WithSinks, tmp_path: Path) -> None:
    own = tmp_path / "root" / "orders" / "checkpoints" / "ingest"
    shutil.copytree(made.checkpoint, own)
    (own.parent.parent / "lease").mkdir()
    (own.parent.parent / "lease" / "0").write_text("{}")
    link = tmp_path / "link"
    link.symlink_to(own)
    for place in (own, link):
        backup = plant(made, json.dumps(plan(made, uri=str(place))), tmp_path / place.name, False)
        text = refused(made, "restore", backup, "--checkpoint", place)
        assert "belongs to the pipeline orders" in text
        assert "belongs to the pipeline orders" in refused(made, "rewind", place, *TO, "other")
