"""Files of a table in the place of others that hold rows which leave it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Transaction
from deltalake.transaction import AddAction

from tidemark.errors import StorageUnavailable
from tidemark.storage.delta.notes import ErasedNote
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.delta.written_files import (
    Leaving,
    WrittenFile,
    add_files,
    rewrite_files,
    written_files,
)

NOTE = ErasedNote(id="20260101T000000Z", rows=1)
NAME = "part-00000-u.c000.snappy.parquet"
FIRST, SECOND = date(2026, 7, 1), date(2026, 7, 2)


def bronze(root: Path) -> TablePlace:
    """Of one task, as Spark writes it: a file for each date, with one name."""
    place = TablePlace(str(root / "bronze"))
    schema = pa.schema([("n", pa.int64()), ("_event_date", pa.date32())])
    DeltaTable.create(place.uri, schema, partition_by=["_event_date"])
    add(place, "ingest", {FIRST: [1, 2], SECOND: [3, 4]})
    return place


def files(place: TablePlace, folder: str, rows: dict[date, list[int]]) -> list[WrittenFile]:
    for day, numbers in rows.items():
        path = Path(place.uri, folder, f"_event_date={day}", NAME)
        path.parent.mkdir(parents=True)
        pq.write_table(pa.table({"n": pa.array(numbers, pa.int64())}), path)
    return written_files(place.existing(), place, f"{folder}/") if rows else []


def add(place: TablePlace, folder: str, rows: dict[date, list[int]]) -> None:
    written = files(place, folder, rows)
    add_files(place.existing(), written, "rows", Transaction(folder, 0), NOTE)


def numbers(place: TablePlace) -> list[int]:
    found: list[int] = place.existing().to_pyarrow_table()["n"].to_pylist()
    return sorted(found)


def take_out(place: TablePlace, leaving: Leaving, **staying: Any) -> None:
    written = files(place, "act", staying.get("rows", {}))
    now = datetime(2026, 7, 3, tzinfo=UTC)
    rewrite_files(place.existing(), place, leaving, written, "the rows that stay", NOTE, now)


def test_of_files_with_one_name_only_those_of_the_dates_go(tmp_path: Path) -> None:
    place = bronze(tmp_path)
    take_out(place, Leaving(1, [NAME], 1, [SECOND]), rows={SECOND: [4]})
    assert numbers(place) == [1, 2, 4]


def test_nothing_is_committed_where_another_number_of_rows_would_leave(tmp_path: Path) -> None:
    place = bronze(tmp_path)
    # Without dates, both files of this name.
    with pytest.raises(
        StorageUnavailable, match=r"4 rows of .* make room for 1, and 1 are to leave"
    ):
        take_out(place, Leaving(1, [NAME], 1), rows={SECOND: [4]})
    assert numbers(place) == [1, 2, 3, 4]


def test_rows_that_the_log_does_not_tell_are_counted_in_the_files(tmp_path: Path) -> None:
    place = TablePlace(str(tmp_path / "bronze"))
    DeltaTable.create(place.uri, pa.schema([("n", pa.int64())]))
    pq.write_table(pa.table({"n": pa.array([1, 2], pa.int64())}), Path(place.uri, NAME))
    added = AddAction(NAME, Path(place.uri, NAME).stat().st_size, {}, 0, True, "{}")
    table = place.existing()
    table.create_write_transaction([added], "append", table.schema())
    with pytest.raises(StorageUnavailable, match=r"2 rows of .* make room for 0, and 1 are"):
        take_out(place, Leaving(1, [NAME], 1))
    take_out(place, Leaving(1, [NAME], 2))
    assert numbers(place) == []


@pytest.mark.parametrize("dates", [None, [SECOND]])
def test_files_that_have_moved_since_are_taken_back_in_the_same_commit(
    tmp_path: Path, dates: list[date] | None
) -> None:
    place = bronze(tmp_path)
    add(place, "more", {SECOND: [5, 6], FIRST: [7]})
    DeltaTable(place.uri).optimize.compact()
    leaving = Leaving(2, [NAME], 1, dates)
    staying = {SECOND: [4, 5, 6]} if dates else {SECOND: [4, 5, 6], FIRST: [1, 2, 7]}
    take_out(place, leaving, rows=staying)
    assert numbers(place) == [1, 2, 4, 5, 6, 7]
    table = place.existing()
    assert table.version() == 4, "created, two appends, OPTIMIZE"
    assert {part.as_py() for part in table.to_pyarrow_table()["_event_date"]} == {FIRST, SECOND}


def test_a_file_that_moved_and_is_gone_is_told_and_nothing_is_committed(tmp_path: Path) -> None:
    place = bronze(tmp_path)
    add(place, "more", {SECOND: [5, 6], FIRST: [7]})
    table = DeltaTable(place.uri)
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(StorageUnavailable, match=r"a file of an earlier version of .*, is gone"):
        take_out(place, Leaving(2, [NAME], 1, [SECOND]), rows={SECOND: [4, 5, 6]})
    assert numbers(place) == [1, 2, 3, 4, 5, 6, 7]


def test_files_of_tasks_that_did_not_commit_are_none_of_the_rows_that_were_written(
    tmp_path: Path,
) -> None:
    place = bronze(tmp_path)
    found = files(place, "again", {FIRST: [5]})
    # A second attempt of the task, which outlived the commit of Spark's job.
    files(place, "again/_temporary/0/_temporary/attempt_1", {FIRST: [5]})
    assert written_files(place.existing(), place, "again/") == found
    assert [file.rows for file in found] == [1]
