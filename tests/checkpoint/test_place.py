"""What is said of a place that holds no checkpoint: what it is, and what to give instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import write_deltalake

from tests.checkpoint.damaged import DATA, copy_of
from tests.storage.test_fence import ONE
from tidemark.checkpoint.reading.place import checkpoint_files
from tidemark.errors import NotACheckpoint
from tidemark.storage.file_place import FilePlace


def said_of(place: Path | str) -> str:
    with pytest.raises(NotACheckpoint) as raised:
        checkpoint_files(FilePlace(str(place)))
    message = str(raised.value)
    assert message.startswith(f"{place} ")
    assert "\n" not in message
    return message


def test_the_files_of_a_checkpoint_are_named_from_its_folder_on() -> None:
    names = checkpoint_files(FilePlace(str(DATA / "aggregate")))
    assert {"metadata", ".metadata.crc", "offsets/0", "state/0/1/4.delta"} <= names.keys()
    assert names.keys() == checkpoint_files(FilePlace((DATA / "aggregate").as_uri())).keys()


def test_a_place_that_does_not_exist_is_told(tmp_path: Path) -> None:
    assert "does not exist. Give the folder" in said_of(tmp_path / "none")


def test_an_empty_folder_is_told(tmp_path: Path) -> None:
    assert "is empty: no query has started here. Give the folder" in said_of(tmp_path)


def test_a_file_is_told_and_the_checkpoint_around_it(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    assert "is a file, and a checkpoint is a folder. Give the folder" in said_of(file)
    folder = copy_of("aggregate", tmp_path)
    assert said_of(folder / "offsets/3").endswith(f"It lies in a checkpoint; give that: {folder}.")


def test_a_delta_table_is_told(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), ONE)
    assert "is a Delta table, not a checkpoint. Give the checkpoint of" in said_of(tmp_path)


def test_a_folder_of_other_things_is_told_without_being_listed_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/one").write_text("x")
    assert "no `metadata` file, and no folder `offsets`" in said_of(tmp_path)


def test_checkpoints_further_down_are_named(tmp_path: Path) -> None:
    copy_of("aggregate", tmp_path / "clicks/checkpoints")
    copy_of("files_killed", tmp_path / "clicks/checkpoints")
    message = said_of(tmp_path)
    assert "is no checkpoint, but holds some. Give one of them: " in message
    assert f"{tmp_path}/clicks/checkpoints/aggregate" in message


def test_a_folder_inside_a_checkpoint_names_the_checkpoint(tmp_path: Path) -> None:
    folder = copy_of("aggregate", tmp_path)
    assert f"give that: {folder}." in said_of(folder / "offsets")


def test_a_checkpoint_that_lost_its_identity_is_still_one(tmp_path: Path) -> None:
    folder = copy_of("aggregate", tmp_path)
    (folder / "metadata").unlink()
    assert "offsets/3" in checkpoint_files(FilePlace(str(folder)))
