"""The rows that a table's commits appended, and not those that they only wrote anew."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from tidemark.storage.delta.appended import appended_rows, changes_rows, entry_mark
from tidemark.storage.delta.place import TablePlace


def append(uri: str, *values: int) -> int:
    write_deltalake(uri, pa.table({"n": pa.array(values, pa.int64())}), mode="append")
    return DeltaTable(uri).version()


def appended(uri: str, first: int, last: int) -> list[int]:
    rows = appended_rows(DeltaTable(uri), TablePlace(uri), first, last)
    return sorted(pa.table(rows.to_table()).column("n").to_pylist())


def test_each_version_gives_the_rows_that_it_appended(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    assert (append(uri, 1, 2), append(uri, 3), append(uri, 4)) == (0, 1, 2)
    assert appended(uri, 1, 2) == [3, 4]


def test_rows_that_a_delete_or_an_update_left_or_changed_are_not_appended(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    append(uri, 1, 2, 3)
    DeltaTable(uri).delete("n = 1")
    DeltaTable(uri).update({"n": "n + 10"}, predicate="n = 2")
    last = append(uri, 4)
    assert sorted(DeltaTable(uri).to_pyarrow_table().column("n").to_pylist()) == [3, 4, 12]
    assert appended(uri, 1, last) == [4]


def test_rows_that_a_compaction_moved_are_not_appended(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    append(uri, 1)
    append(uri, 2)
    DeltaTable(uri).optimize.compact()
    assert appended(uri, 2, DeltaTable(uri).version()) == []


def test_from_the_first_version_on_packed_files_and_cleaned_log_entries_do_no_harm(
    tmp_path: Path,
) -> None:
    uri = str(tmp_path / "t")
    append(uri, 1)
    append(uri, 2)
    table = DeltaTable(uri)
    table.optimize.compact()
    table.vacuum(0, enforce_retention_duration=False, dry_run=False)
    last = append(uri, 3)
    DeltaTable(uri).create_checkpoint()
    for version in range(last):
        (tmp_path / "t" / "_delta_log" / f"{version:020}.json").unlink()
    assert appended(uri, 0, last) == [1, 2, 3]


def test_a_log_entry_is_told_from_another_one_of_the_same_version(tmp_path: Path) -> None:
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    append(one, 1)
    append(other, 2)
    assert entry_mark(TablePlace(one), 0) == entry_mark(TablePlace(one), 0)
    assert entry_mark(TablePlace(one), 0) != entry_mark(TablePlace(other), 0)
    assert entry_mark(TablePlace(one), 1) == -1


def test_a_commit_that_moves_rows_or_names_properties_changes_none(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    append(uri, 1, 2)
    append(uri, 3)
    DeltaTable(uri).optimize.compact()
    DeltaTable(uri).alter.set_table_properties({"delta.appendOnly": "false"})
    DeltaTable(uri).delete("n = 1")
    found = [changes_rows(TablePlace(uri), version) for version in range(5)]
    assert found == [True, True, False, False, True]
