"""A rewind or a restore that is killed at a step: no query starts, a repetition finishes it, and
the backup brings back what was."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from tests.checkpoint.rewind.queries import command, done, undo
from tests.checkpoint.rewind.sinks import LAST, WithSinks, append, bytes_of, with_sinks
from tests.kit.killed import Killed, killed
from tidemark import commit_point
from tidemark.checkpoint.doctor.findings import CheckpointVerdict
from tidemark.cli.exit_codes import VERDICTS

TO = 3
BACKED_UP, STOPPED, RELEASED = "checkpoint backed up", "checkpoint stopped", "checkpoint released"
# By step: which sink the act is on.
ACT = {
    BACKED_UP: "delta",
    STOPPED: "delta",
    "sink table taken back": "delta",
    "sink log taken back": "files",
    "checkpoint taken back": "delta",
    RELEASED: "files",
}
WAY_BACK = {
    STOPPED: "files",
    "sink table brought back": "delta",
    "sink log brought back": "files",
    "checkpoint brought back": "delta",
    RELEASED: "delta",
}
WHEN = ("before", "after")
STEPS = [(point, when) for point in ACT for when in WHEN]
STEPS_BACK = [(point, when) for point in WAY_BACK for when in WHEN]
KILLS = {*STEPS, *STEPS_BACK}
# Where no query may start: from the stop mark on until it goes.
OPEN = {(BACKED_UP, "before"), (BACKED_UP, "after"), (STOPPED, "before"), (RELEASED, "after")}


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> WithSinks:
    made = with_sinks(tmp_path_factory.mktemp("made") / "query")
    made.keep()
    return made


@pytest.fixture(scope="module")
def wanted(made_once: WithSinks) -> dict[str, tuple[object, ...]]:
    """What an undisturbed rewind leaves, by kind of sink."""
    found = {}
    for kind in ("delta", "files"):
        rewind(made_once.again(), kind, made_once.folder.with_name(f"undisturbed {kind}"))
        found[kind] = outcome(made_once)
    return found


@pytest.fixture
def made(made_once: WithSinks, wanted: object) -> WithSinks:
    return made_once.again()


def rewind(made: WithSinks, kind: str, backup: Path) -> None:
    more = ["--sink", made.sink(kind), "--backup", backup]
    done("rewind", made.checkpoint, "--to-batch", str(TO), *more)


def die(point: str, when: str, *arguments: str | Path) -> None:
    with killed(when, point):  # type: ignore[arg-type]  # one of both
        ended = command(*arguments, "--apply").exception
    # The command tells of an error that nobody foresaw, and ends; what did not is no kill.
    assert isinstance(ended, SystemExit)
    assert isinstance(ended.__context__, Killed)


def as_rows(made: WithSinks) -> tuple[dict[str, bytes], list[int], int | None, dict[str, bytes]]:
    """What a query and a reader see: the checkpoint, both sinks."""
    log = bytes_of(made.out)
    return bytes_of(made.checkpoint), made.rows(), made.transaction(), log


def code_of(made: WithSinks) -> int:
    return command("doctor", made.checkpoint).exit_code


def outcome(made: WithSinks) -> tuple[object, ...]:
    """The same, of files the names alone."""
    _, rows, transaction, log = as_rows(made)
    return set(bytes_of(made.checkpoint)), rows, transaction, set(log)


@pytest.mark.slow
@pytest.mark.parametrize(("point", "when"), STEPS)
def test_killed_at_a_step_a_rewind_is_finished_by_a_repetition(
    made: WithSinks, wanted: dict[str, object], tmp_path: Path, point: str, when: str
) -> None:
    kind = ACT[point]
    arguments = ["rewind", made.checkpoint, "--to-batch", str(TO), "--sink", made.sink(kind)]
    arguments += ["--backup", tmp_path / "backup"]
    die(point, when, *arguments)
    stopped = (point, when) not in OPEN
    assert (code_of(made) == VERDICTS[CheckpointVerdict.DAMAGED]) == stopped
    dry = command(*arguments)
    assert ("was begun and not finished" in str(dry.output)) == stopped
    again = command(*arguments, "--apply")
    assert again.exit_code == 0, again.output
    assert outcome(made) == wanted[kind]
    assert code_of(made) != VERDICTS[CheckpointVerdict.DAMAGED]


@pytest.mark.slow
@pytest.mark.parametrize(("point", "when"), STEPS)
def test_killed_at_a_step_a_rewind_is_undone_by_its_backup(
    made: WithSinks, tmp_path: Path, point: str, when: str
) -> None:
    before = as_rows(made)
    backup = tmp_path / "backup"
    more = ["--sink", made.sink(ACT[point]), "--backup", backup]
    die(point, when, "rewind", made.checkpoint, "--to-batch", str(TO), *more)
    if (point, when) == (BACKED_UP, "before"):
        refused = command(*undo(backup, made.checkpoint, made.sink(ACT[point])))
        assert refused.exit_code == 1
        assert "no backup" in refused.output
    else:
        done(*undo(backup, made.checkpoint, made.sink(ACT[point])))
    assert as_rows(made) == before


def test_a_rewind_that_did_not_come_to_the_table_is_undone_though_others_have_written_to_it(
    made: WithSinks, tmp_path: Path
) -> None:
    before, sink = bytes_of(made.checkpoint), ("--sink", made.sink("delta"))
    backup = ("--backup", tmp_path / "backup")
    rewind = ("rewind", made.checkpoint, "--to-batch", str(TO), *sink, *backup)
    die(STOPPED, "after", *rewind)
    append(made.table, 1, "another query")
    refused = command(*rewind, "--apply")
    assert refused.exit_code == 1
    assert "somebody writes to it" in refused.output
    back = undo(tmp_path / "backup", made.checkpoint, made.sink("delta"))
    assert "was not taken back, and stays as it is" in command(*back).output
    assert done(*back)["table"] is None
    assert bytes_of(made.checkpoint) == before
    assert (made.rows(), made.transaction()) == (sorted([*range(LAST + 1), 1]), LAST)


def test_a_log_that_cannot_be_read_does_not_pass_for_a_table_that_was_not_taken_back(
    made: WithSinks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidemark.checkpoint.rewind import table_restore

    before = bytes_of(made.checkpoint)
    rewind(made, "delta", tmp_path / "backup")
    back = undo(tmp_path / "backup", made.checkpoint, made.sink("delta"))
    looks, look = count(1), table_restore.newer_commits
    with monkeypatch.context() as patch:
        # The plan's look finds all, and the act's none: the store has failed in between.
        patch.setattr(
            table_restore,
            "newer_commits",
            lambda place, newest: look(place, newest) if next(looks) == 1 else iter(()),
        )
        failed = command(*back, "--apply")
    assert failed.exit_code == 75
    assert "cannot be told whether the table was taken back" in failed.output
    assert code_of(made) == VERDICTS[CheckpointVerdict.DAMAGED]
    done(*back)
    assert bytes_of(made.checkpoint) == before
    assert (made.rows(), made.transaction()) == ([*range(LAST + 1)], LAST)


@pytest.mark.slow
@pytest.mark.parametrize(("point", "when"), STEPS_BACK)
def test_killed_at_a_step_a_restore_is_finished_by_a_repetition(
    made: WithSinks, tmp_path: Path, point: str, when: str
) -> None:
    before = as_rows(made)
    rewind(made, WAY_BACK[point], tmp_path / "backup")
    back = undo(tmp_path / "backup", made.checkpoint, made.sink(WAY_BACK[point]))
    die(point, when, *back)
    stopped = (point, when) not in OPEN
    assert (code_of(made) == VERDICTS[CheckpointVerdict.DAMAGED]) == stopped
    done(*back)
    assert as_rows(made) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "point"),
    [
        ("rewind", "sink table taken back"),
        ("rewind", "checkpoint taken back"),
        ("rewind", RELEASED),
        ("restore", "sink table brought back"),
        ("restore", "checkpoint brought back"),
        ("restore", RELEASED),
    ],
)
def test_what_a_query_writes_after_another_command_has_ended_the_change_stays(
    made: WithSinks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str, point: str
) -> None:
    sink, backup = ("--sink", made.sink("delta")), tmp_path / "backup"
    rewound = ("rewind", made.checkpoint, "--to-batch", str(TO), *sink, "--backup", backup)
    if act == "rewind":
        die(STOPPED, "after", *rewound)
        again, newest = rewound, TO
    else:
        rewind(made, "delta", backup)
        again, newest = undo(backup, made.checkpoint, made.sink("delta")), LAST
        die(STOPPED, "after", *again)
    left: list[object] = []

    def ended_by_another(reached: str, moment: str, _: tuple[object, ...]) -> None:
        if not left and (reached, moment) == (point, "before"):
            left.append(None)
            assert command(*again, "--apply").exit_code == 0
            for log in ("offsets", "commits"):
                folder = made.checkpoint / log
                shutil.copy(folder / str(newest), folder / str(newest + 1))
            made.append(newest + 1)
            left[0] = as_rows(made)

    monkeypatch.setattr(commit_point, "on_reach", ended_by_another)
    late = command(*again, "--apply")
    assert late.exit_code == 1
    assert "another command has ended it meanwhile" in late.output
    assert left == [as_rows(made)]


# The process ends itself at the Nth removal or writing, once the file is gone, or there.
DYING = """
import os, signal, sys
from itertools import count
import obstore
name, last = sys.argv.pop(1), int(sys.argv.pop(1))
act, calls = getattr(obstore, name), count(1)
def dying(*of, **options):
    act(*of, **options)
    if next(calls) == last:
        os.kill(os.getpid(), signal.SIGKILL)
setattr(obstore, name, dying)
from tidemark.cli.main import app
app(prog_name="tidemark")
"""


def killed_at(made: WithSinks, act: str, number: int, backup: Path) -> list[str]:
    """Begin a rewind in a process of its own, which ends so; its arguments."""
    arguments = ["rewind", str(made.checkpoint), "--to-batch", str(TO)]
    arguments += ["--sink", made.sink("delta"), "--backup", str(backup), "--apply"]
    script = [sys.executable, "-c", DYING, act, str(number), "checkpoint", *arguments]
    died = subprocess.run(script, check=False, env=os.environ, capture_output=True)
    assert died.returncode == -signal.SIGKILL
    return arguments


@pytest.mark.slow
@pytest.mark.parametrize(
    "removed",
    [9, pytest.param(1, marks=pytest.mark.long), pytest.param(25, marks=pytest.mark.long)],
)
def test_a_process_killed_between_two_files_leaves_what_a_repetition_finishes(
    made: WithSinks, wanted: dict[str, object], tmp_path: Path, removed: int
) -> None:
    arguments = killed_at(made, "delete", removed, tmp_path / "backup")
    assert code_of(made) == VERDICTS[CheckpointVerdict.DAMAGED]
    assert command(*arguments).exit_code == 0
    assert outcome(made) == wanted["delta"]


@pytest.mark.slow
@pytest.mark.parametrize("written", [30, pytest.param(1, marks=pytest.mark.long)])
def test_a_backup_that_a_kill_left_in_part_is_finished_by_the_same_command_and_is_whole(
    made: WithSinks, wanted: dict[str, object], tmp_path: Path, written: int
) -> None:
    before, backup = as_rows(made), tmp_path / "backup"
    arguments = killed_at(made, "put", written, backup)
    assert as_rows(made) == before
    assert command(*arguments).exit_code == 0
    assert outcome(made) == wanted["delta"]
    done(*undo(backup, made.checkpoint, made.sink("delta")))
    assert as_rows(made) == before


@pytest.mark.slow
def test_a_folder_that_holds_anything_else_takes_no_backup(made: WithSinks, tmp_path: Path) -> None:
    before, backup = as_rows(made), tmp_path / "backup"
    arguments = killed_at(made, "put", 30, backup)
    begun = backup / "begun.json"
    begun.write_text(begun.read_text().replace("batch 3", "batch 4"))
    for folder in (backup, made.folder):
        arguments[arguments.index("--backup") + 1] = str(folder)
        refused = command(*arguments)
        assert refused.exit_code == 1
        assert "holds something already" in refused.output
        assert as_rows(made) == before
