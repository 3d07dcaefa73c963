"""Rewinds of checkpoints that Spark 3.5, 4.0 and 4.2 wrote: what goes, stays and is refused."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.checkpoint.archives import land_listed, names, unpack
from tests.checkpoint.damaged import diagnosis_of, remove, write
from tests.checkpoint.rewind.queries import command, done, told, undo
from tests.checkpoint.rewind.sinks import BASE, LAST, WithSinks, append, bytes_of, with_sinks
from tests.kit.killed import killed
from tidemark.checkpoint.doctor.findings import CheckpointVerdict
from tidemark.checkpoint.reading.layout import possible_batches
from tidemark.checkpoint.reading.log_formats import STOP_MARK
from tidemark.checkpoint.rewind.read import list_checkpoint
from tidemark.checkpoint.rewind.table_commits import TableCommit
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.file_place import FilePlace

# Those that the short tests take: each store, several stores and operators, each format.
SHORT = {
    f"4.2.0/{kind}"
    for kind in (
        *("aggregate-hdfs-snapshots", "aggregate-changelog", "aggregate-format2", "chained-hdfs"),
        *("join-hdfs", "offsets-by-name", "transform-rocksdb", "two-sources"),
    )
}
NAMES = [pytest.param(name, marks=() if name in SHORT else pytest.mark.long) for name in names()]
GOES_ON = {CheckpointVerdict.CLEAN_END, CheckpointVerdict.NO_DATA_BATCH, CheckpointVerdict.KILLED}


def refusal(*arguments: str | Path) -> str:
    """Why a command is refused; nothing may be changed then."""
    result = command(*arguments, "--apply")
    assert result.exit_code == 1, result.output
    return str(result.output)


@pytest.fixture
def made(tmp_path: Path) -> WithSinks:
    return with_sinks(tmp_path / "query")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_checkpoint_goes_back_to_each_batch_and_comes_back_from_the_backup(
    name: str, tmp_path: Path
) -> None:
    checkpoint = unpack(name, tmp_path / "made")
    land_listed(checkpoint)
    before = bytes_of(checkpoint)
    batches = possible_batches(list_checkpoint(FilePlace(str(checkpoint))).layout)
    for batch in batches[:: max(1, len(batches) - 2)]:
        backup = tmp_path / f"backup {batch}"
        to = ("--to-batch", str(batch), "--sink", "other", "--backup", backup)
        plan = told("rewind", checkpoint, *to)
        assert bytes_of(checkpoint) == before
        if plan["nothing_to_do"]:
            continue
        done("rewind", checkpoint, *to)
        after = bytes_of(checkpoint)
        assert after.items() <= before.items()
        assert len(before) - len(after) == plan["removed_files"]
        versions = {int(p.name.split(".")[0].split("_")[0]) for p in state_files(checkpoint)}
        assert max(versions, default=0) <= batch + 1
        assert diagnosis_of(checkpoint).verdict in GOES_ON
        done(*undo(backup, checkpoint))
        assert bytes_of(checkpoint) == before


def state_files(checkpoint: Path) -> list[Path]:
    endings = ("delta", "snapshot", "zip", "changelog")
    return [p for ending in endings for p in checkpoint.glob(f"state/**/[0-9]*.{ending}")]


def test_without_a_word_on_the_sink_nothing_is_done(made: WithSinks) -> None:
    before = bytes_of(made.checkpoint)
    assert "--sink delta:URI" in refusal("rewind", made.checkpoint, "--to-batch", "3")
    assert bytes_of(made.checkpoint) == before
    wrong = command("rewind", made.checkpoint, "--to-batch", "3", "--sink", "kafka:topic")
    assert wrong.exit_code == 2


def test_a_table_goes_back_with_the_checkpoint_in_one_commit(made: WithSinks) -> None:
    done("rewind", made.checkpoint, "--to-batch", "3", "--sink", made.sink("delta"))
    assert made.rows() == [0, 1, 2, 3]
    assert made.transaction() == 3


@pytest.mark.slow
def test_a_table_goes_back_a_second_time_past_the_first(made: WithSinks) -> None:
    sink = ("--sink", made.sink("delta"))
    done("rewind", made.checkpoint, "--to-batch", "5", *sink)
    backup = made.folder / "second"
    done("rewind", made.checkpoint, "--to-batch", "3", *sink, "--backup", backup)
    assert (made.rows(), made.transaction()) == ([0, 1, 2, 3], 3)
    done(*undo(backup, made.checkpoint, made.sink("delta")))
    assert (made.rows(), made.transaction()) == ([0, 1, 2, 3, 4, 5], 5)


@pytest.mark.slow
def test_a_table_goes_back_past_a_rewind_that_was_undone(made: WithSinks) -> None:
    sink = ("--sink", made.sink("delta"))
    backups = [made.folder / "first", made.folder / "second"]
    done("rewind", made.checkpoint, "--to-batch", "3", *sink, "--backup", backups[0])
    done(*undo(backups[0], made.checkpoint, made.sink("delta")))
    done("rewind", made.checkpoint, "--to-batch", "5", *sink, "--backup", backups[1])
    assert (made.rows(), made.transaction()) == ([0, 1, 2, 3, 4, 5], 5)
    done("rewind", made.checkpoint, "--to-batch", "4", *sink)
    assert (made.rows(), made.transaction()) == ([0, 1, 2, 3, 4], 4)


@pytest.mark.slow
def test_the_backup_brings_all_back_after_the_query_has_run_on(made: WithSinks) -> None:
    before = bytes_of(made.checkpoint)
    sink = ("--sink", made.sink("delta"))
    backup = done("rewind", made.checkpoint, "--to-batch", "3", *sink)["backup"]
    for batch in range(4, LAST + 3):
        for log in ("offsets", "commits"):
            shutil.copy(made.checkpoint / log / "3", made.checkpoint / log / str(batch))
        made.append(batch)
    assert made.transaction() == LAST + 2
    assert command("restore", backup, *sink, "--apply", "--stopped").exit_code == 0
    assert bytes_of(made.checkpoint) == before
    assert (made.rows(), made.transaction()) == (list(range(LAST + 1)), LAST)


@pytest.mark.parametrize("time", [1, 2])
def test_a_restore_stops_a_query_that_waits_where_it_plans_its_next_batch(
    made: WithSinks, time: int
) -> None:
    before = bytes_of(made.checkpoint)
    sink = ("--sink", made.sink("delta"))
    backup = done("rewind", made.checkpoint, "--to-batch", "3", *sink)["backup"]
    for log in ("offsets", "commits"):
        shutil.copy(made.checkpoint / log / "3", made.checkpoint / log / "4")
    made.append(4)
    with killed("after", "checkpoint stopped", time):
        command("restore", backup, *sink, "--apply")
    # The engine creates the file of its next batch, and stops where it is there.
    marks = ("5", str(LAST + 1))[:time]
    assert all(is_mark(made.checkpoint / "offsets" / name) for name in marks)
    assert diagnosis_of(made.checkpoint).verdict is CheckpointVerdict.DAMAGED
    assert command("restore", backup, *sink, "--apply").exit_code == 0
    assert bytes_of(made.checkpoint) == before


def test_a_restore_that_died_can_be_followed_by_the_rewind_again(made: WithSinks) -> None:
    """The mark has the name of a file that goes then: it stays until no query can start wrongly."""
    before = bytes_of(made.checkpoint)
    sink = ("--sink", made.sink("delta"))
    rewind = ("rewind", made.checkpoint, "--to-batch", "3", *sink)
    backup = done(*rewind)["backup"]
    for log in ("offsets", "commits"):
        shutil.copy(made.checkpoint / log / "3", made.checkpoint / log / "4")
    made.append(4)
    with killed("after", "checkpoint stopped", 1):
        command("restore", backup, *sink, "--apply")
    assert command(*rewind, "--apply").exit_code == 1
    assert is_mark(made.checkpoint / "offsets/5")
    assert command("restore", backup, *sink, "--apply").exit_code == 0
    assert bytes_of(made.checkpoint) == before
    assert (made.rows(), made.transaction()) == ([*range(LAST + 1)], LAST)


@pytest.mark.parametrize("kind", ["delta", "files"])
def test_a_sink_that_has_gone_on_since_a_repair_that_left_it_is_not_left_ahead(
    made: WithSinks, kind: str
) -> None:
    """It would pass over the next batches, without an error."""
    checkpoint, sink, backup = made.checkpoint, made.sink(kind), made.folder / "backup"
    write(checkpoint / f"commits/{LAST}", b"")
    done("repair", checkpoint, "--sink", sink, "--backup", backup)
    assert f"made with --sink {sink}, which" in refusal(*undo(backup, checkpoint))
    done(*undo(backup, checkpoint, sink))
    write(checkpoint / f"commits/{LAST}", b"")
    shutil.rmtree(backup)
    done("repair", checkpoint, "--sink", sink, "--backup", backup)
    shutil.copy(checkpoint / "commits/6", checkpoint / f"commits/{LAST}")
    for log in ("offsets", "commits"):
        shutil.copy(checkpoint / log / "6", checkpoint / log / f"{LAST + 1}")
    made.append(LAST + 1)
    shutil.copy(made.out / "_spark_metadata/7", made.out / "_spark_metadata/8")
    why = refusal(*undo(backup, checkpoint, sink))
    assert "has batches up to 8, and the last one planned is 7" in why
    # What a backup of before does not say has to be said.
    change = json.loads((backup / "change.json").read_text())
    (backup / "change.json").write_text(json.dumps(change | {"sink": None}))
    assert "--sink delta:URI" in refusal("restore", backup, "--checkpoint", checkpoint)
    assert "has batches up to 8" in refusal(*undo(backup, checkpoint, sink))


@pytest.mark.parametrize("gone", [True, False])
def test_a_checkpoint_whose_folder_was_removed_comes_back_from_its_backup(
    made: WithSinks, gone: bool
) -> None:
    before, backup = bytes_of(made.checkpoint), made.folder / "backup"
    done("rewind", made.checkpoint, "--to-batch", "3", "--sink", "other", "--backup", backup)
    shutil.rmtree(made.checkpoint)
    if not gone:
        made.checkpoint.mkdir()
    back = undo(backup, made.checkpoint)
    with killed("after", "checkpoint stopped", 2):
        command(*back, "--apply")
    assert diagnosis_of(made.checkpoint).verdict is CheckpointVerdict.DAMAGED
    done(*back)
    assert bytes_of(made.checkpoint) == before
    shutil.rmtree(made.checkpoint)
    made.checkpoint.mkdir()
    (made.checkpoint / "something").write_text("else")
    assert "is no checkpoint" in refusal(*back)


def is_mark(file: Path) -> bool:
    return file.is_file() and file.read_text().startswith(STOP_MARK)


def test_the_backup_does_not_undo_what_others_did_since(made: WithSinks) -> None:
    sink = ("--sink", made.sink("delta"))
    backup = done("rewind", made.checkpoint, "--to-batch", "3", *sink)["backup"]
    append(made.table, 1, "another query")
    before = bytes_of(made.folder)
    result = command("restore", backup, *sink, "--apply")
    assert result.exit_code == 1
    assert "Others changed" in result.output
    assert bytes_of(made.folder) == before


def test_columns_or_properties_that_others_set_are_not_undone(made: WithSinks) -> None:
    from deltalake import DeltaTable

    DeltaTable(made.table).alter.add_constraint({"small": "batch < 1000"})
    why = refusal("rewind", made.checkpoint, "--to-batch", "3", "--sink", made.sink("delta"))
    assert "columns, properties or features" in why
    assert "ADD CONSTRAINT" in why


def test_rows_of_another_writer_are_not_undone(made: WithSinks) -> None:
    append(made.table, 100, "another query")
    before = bytes_of(made.folder)
    told_why = refusal("rewind", made.checkpoint, "--to-batch", "3", "--sink", made.sink("delta"))
    assert "Others changed rows" in told_why
    assert f"version {LAST + 1} (WRITE)" in told_why
    assert bytes_of(made.folder) == before


@pytest.mark.parametrize("act", ["rewind", "restore"])
def test_rows_that_another_writer_adds_between_the_look_and_the_commit_are_not_undone(
    made: WithSinks, act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidemark.checkpoint.rewind import table_restore

    to = ("rewind", made.checkpoint, "--to-batch", "3", "--sink", made.sink("delta"))
    arguments: tuple[str | Path, ...] = (*to, "--backup", made.folder / "backup")
    if act == "restore":
        done(*arguments)
        arguments = undo(made.folder / "backup", made.checkpoint, made.sink("delta"))
    # A restore looks once more, for its plan.
    looks = {"rewind": 1, "restore": 2}[act]
    look = table_restore.newer_commits

    def newer_commits(place: TablePlace, newest: int) -> Iterator[TableCommit]:
        nonlocal looks
        looks -= 1
        found = [*look(place, newest)]
        if looks == 0:
            append(made.table, 100, "another query")
        return iter(found)

    monkeypatch.setattr(table_restore, "newer_commits", newer_commits)
    assert "was not restored to version" in refusal(*arguments)
    assert made.rows()[-1] == 100


def test_a_table_that_is_no_sink_of_the_query_is_told(made: WithSinks, tmp_path: Path) -> None:
    append(tmp_path / "other", 7, "another query")
    sink = f"delta:{tmp_path / 'other'}"
    why = refusal("rewind", made.checkpoint, "--to-batch", "3", "--sink", sink)
    assert "has no transaction of the query" in why
    assert "another query" in why
    none = refusal("rewind", made.checkpoint, "--to-batch", "3", "--sink", f"delta:{tmp_path}")
    assert "There is no Delta table" in none


def test_data_files_that_a_vacuum_removed_are_told(made: WithSinks) -> None:
    from deltalake import DeltaTable

    table = DeltaTable(made.table)
    table.optimize.compact()
    table.vacuum(0, enforce_retention_duration=False, dry_run=False)
    why = refusal("rewind", made.checkpoint, "--to-batch", "3", "--sink", made.sink("delta"))
    assert "4 data files" in why
    assert "by VACUUM" in why


def test_a_log_of_a_table_that_does_not_reach_back_is_told(made: WithSinks) -> None:
    from deltalake import DeltaTable

    DeltaTable(made.table).create_checkpoint()
    for version in range(6):
        (made.table / f"_delta_log/{version:020}.json").unlink()
    why = refusal("rewind", made.checkpoint, "--to-batch", "3", "--sink", made.sink("delta"))
    assert "does not reach back" in why


def test_a_file_sinks_log_goes_back_and_its_data_files_stay(made: WithSinks) -> None:
    found = done("rewind", made.checkpoint, "--to-batch", "3", "--sink", made.sink("files"))
    assert {p.name for p in (made.out / "_spark_metadata").iterdir()} == {"0", "1", "2", "3"}
    assert len(list(made.out.glob("*.parquet"))) == LAST + 1
    assert any("4 data files" in note for note in found["notes"])


def test_a_file_sinks_log_that_has_removed_its_older_files_is_told(made: WithSinks) -> None:
    (made.out / "_spark_metadata/1").unlink()
    why = refusal("rewind", made.checkpoint, "--to-batch", "3", "--sink", made.sink("files"))
    assert "those of batches 1 are gone" in why


@pytest.mark.parametrize("text", ["", "v1\n{", "v9\n", "v1\n{}"])
def test_a_file_of_a_file_sinks_log_that_cannot_be_read_is_told(made: WithSinks, text: str) -> None:
    (made.out / "_spark_metadata/2").write_text(text)
    before = bytes_of(made.folder)
    why = refusal("rewind", made.checkpoint, "--to-batch", "3", "--sink", made.sink("files"))
    assert "_spark_metadata cannot be read where it goes on after batch 3: 2 is" in why
    assert bytes_of(made.folder) == before
    found = done("rewind", made.checkpoint, "--to-batch", "1", "--sink", made.sink("files"))
    assert "2 of the log cannot be read, and go." in found["notes"]


def test_files_that_are_read_again_have_to_be_there(made: WithSinks) -> None:
    (made.folder / "input/3.json").unlink()
    why = refusal("rewind", made.checkpoint, "--to-batch", "3", "--sink", "other")
    assert "1 of the 2 files that have to be read again are gone" in why
    assert "3.json" in why
    # Batch 6 has read it; after that nothing needs it.
    assert command("rewind", made.checkpoint, "--to-batch", "6", "--sink", "other").exit_code == 0


def test_files_that_have_changed_are_told_and_read_as_they_are(made: WithSinks) -> None:
    os.utime(made.folder / "input/3.json", (1, 1))
    plan = told("rewind", made.checkpoint, "--to-batch", "3", "--sink", "other")
    assert any("1 of them have changed" in note for note in plan["notes"])


def test_state_that_cannot_be_rebuilt_is_told(made: WithSinks) -> None:
    remove(made.checkpoint / "state/0/0/3.delta")
    why = refusal("rewind", made.checkpoint, "--to-batch", "3", "--sink", "other")
    assert "Version 4 of operator 0, partition 0" in why
    assert command("rewind", made.checkpoint, "--to-batch", "1", "--sink", "other").exit_code == 0


def test_a_batch_whose_logs_are_gone_is_told_with_those_that_are_there(made: WithSinks) -> None:
    for log in ("offsets", "commits"):
        for batch in range(4):
            remove(made.checkpoint / log / str(batch))
    why = refusal("rewind", made.checkpoint, "--to-batch", "3", "--sink", "other")
    assert "offsets/3 is not there. Batches with offsets and commit: 5 to 7" in why


def test_several_files_of_a_version_in_format_2_are_told(tmp_path: Path) -> None:
    checkpoint = unpack("4.2.0/aggregate-format2", tmp_path)
    land_listed(checkpoint)
    (first,) = checkpoint.glob("state/0/0/1_*.changelog")
    shutil.copy(first, first.with_name("1_00000000-0000-4000-8000-000000000000.changelog"))
    why = refusal("rewind", checkpoint, "--to-batch", "2", "--sink", "other")
    assert "may have several files" in why


def test_a_batch_that_was_planned_just_now_may_be_running(made: WithSinks) -> None:
    remove(made.checkpoint / f"commits/{LAST}")
    to = ("rewind", made.checkpoint, "--to-batch", "3", "--sink", "other")
    assert "a query may be working on it" in refusal(*to)
    assert command(*to, "--stopped").exit_code == 0
    long_ago = (datetime.now(UTC) - timedelta(hours=1)).timestamp()
    for path in made.checkpoint.rglob("*"):
        os.utime(path, (long_ago, long_ago))
    assert command(*to).exit_code == 0


def test_a_checkpoint_that_changes_while_it_is_backed_up_is_left(
    made: WithSinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidemark import commit_point

    def commit(name: str, moment: str, _: tuple[object, ...]) -> None:
        if (name, moment) == ("checkpoint backed up", "after"):
            (made.checkpoint / "commits/8").write_text("v1\n{}")

    monkeypatch.setattr(commit_point, "on_reach", commit)
    why = refusal("rewind", made.checkpoint, "--to-batch", "3", "--sink", made.sink("delta"))
    assert "A query works on" in why
    assert not (made.checkpoint / "offsets/8").exists()
    assert made.transaction() == LAST


def test_a_checkpoint_of_a_pipeline_is_not_taken_back_by_itself(tmp_path: Path) -> None:
    folder = tmp_path / "clicks/checkpoints/ingest"
    unpack(BASE, tmp_path / "made")
    shutil.copytree(tmp_path / "made/checkpoint", folder)
    (tmp_path / "clicks/lease").mkdir()
    (tmp_path / "clicks/lease/1.json").write_text("{}")
    assert "belongs to the pipeline clicks" in refusal("rewind", folder, "--to-batch", "3")


def test_another_batch_than_the_one_that_was_begun_is_refused(made: WithSinks) -> None:
    to = ("rewind", made.checkpoint, "--sink", "other", "--backup", made.folder / "backup")
    with killed("after", "checkpoint stopped"):
        command(*to, "--to-batch", "3", "--apply")
    assert "Finish it by --to-batch 3" in refusal(*to, "--to-batch", "5")
    assert "was begun and not finished" in str(command("repair", made.checkpoint).output)
    doctor = json.loads(command("doctor", made.checkpoint, "--json").stdout)
    assert doctor[0]["findings"][0]["kind"] == "unfinished rewind"
