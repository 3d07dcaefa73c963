"""Which rows of real tables a batch reads, and what is told as lost: without Spark."""

from __future__ import annotations

import itertools
import json
import shutil
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sources.delta.test_losses_that_grow import World
from tidemark.errors import SourceNotFound, SourceRefused, TableLost
from tidemark.pipeline.model import Advanced
from tidemark.sources.delta.files import files_of, first_rows_of, slice_of
from tidemark.sources.delta.offsets import DeltaPart, Offset
from tidemark.sources.delta.planning import (
    check_history,
    check_names,
    first_offset,
    lost_parts,
    moves,
    next_offset,
    steps,
)
from tidemark.sources.delta.table import open_table
from tidemark.sources.notes import AcceptedLoss
from tidemark.sources.planned_source import Position


def append(uri: str, *numbers: int, **options: Any) -> None:
    rows = pa.table({"n": pa.array(numbers, pa.int64()), "day": ["a"] * len(numbers)})
    write_deltalake(uri, rows, mode="append", **options)


def read(uri: str, offset: Offset) -> list[int]:
    table = open_table(uri, {})
    lines = [
        line
        for part, file in files_of(table, offset)
        for piece in slice_of(table, part, file).lines(10**9)
        for line in piece["_value"].to_pylist()
    ]
    return [int(line.split(b": ")[1].split(b",")[0]) for line in lines if line is not None]


def told(uri: str, position: Position[Offset], skips: bool = False) -> list[tuple[str, str]]:
    found = lost_parts(position, open_table(uri, {}), [], skips)
    return [(str(one.part), one.reason) for one in found]


def after(uri: str, batch: int = 0) -> Position[Offset]:
    """All that is there was read."""
    return Position(batch, first_offset(open_table(uri, {}), "earliest"))


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table of two appends."""
    place = str(tmp_path / "events")
    append(place, 1, 2)
    append(place, 3)
    return place


def test_rows_that_were_packed_are_read_once(uri: str) -> None:
    position = after(uri)
    assert position.offset is not None
    assert sorted(read(uri, position.offset)) == [1, 2, 3]
    DeltaTable(uri).optimize.compact()
    append(uri, 4)
    assert told(uri, position) == []
    assert read(uri, next_offset(position, open_table(uri, {}), [])) == [4]
    # From the beginning too: the files that were packed are still there.
    assert sorted(read(uri, first_offset(open_table(uri, {}), "earliest"))) == [1, 2, 3, 4]


def test_a_version_that_deletes_overwrites_or_restores_is_told_and_brings_no_row(uri: str) -> None:
    position = after(uri)
    DeltaTable(uri).delete("n = 2")
    write_deltalake(uri, pa.table({"n": [9], "day": ["a"]}), mode="overwrite")
    append(uri, 4)
    DeltaTable(uri).restore(1)
    assert told(uri, position) == [
        ("2", "changed rows"),
        ("3", "changed rows"),
        ("5", "changed rows"),
    ]
    assert told(uri, position, skips=True) == []
    assert read(uri, next_offset(position, open_table(uri, {}), [])) == [4]


def test_rows_that_a_restore_brings_back_are_not_read_a_second_time(tmp_path: Path) -> None:
    """What was only deleted comes back in a commit that removes nothing."""
    uri = str(tmp_path / "parts")
    for number, day in enumerate("ab"):
        rows = pa.table({"n": pa.array([number], pa.int64()), "day": [day]})
        write_deltalake(uri, rows, mode="append", partition_by=["day"])
    position = after(uri)
    DeltaTable(uri).delete("day = 'a'")
    DeltaTable(uri).restore(1)
    restored = open_table(uri, {}).version(3)
    assert restored is not None
    assert (len(restored.added), restored.removed) == (1, 0)
    assert told(uri, position) == [("2", "changed rows"), ("3", "changed rows")]
    assert read(uri, next_offset(position, open_table(uri, {}), [])) == []


def test_files_that_are_gone_before_they_were_read_are_told(uri: str) -> None:
    position = after(uri)
    append(uri, 4)
    append(uri, 5)
    (file,) = [one.path for one in (open_table(uri, {}).version(2) or pytest.fail("gone")).added]
    (Path(uri) / file).unlink()
    assert told(uri, position) == [(f"2/{file}", "gone")]
    assert DeltaPart.of(f"2/{file}") == DeltaPart(2, file)


def test_a_log_that_does_not_reach_back_is_told(uri: str) -> None:
    position = after(uri)
    for number in range(4, 8):
        append(uri, number)
    DeltaTable(uri).create_checkpoint()
    for number in range(4):
        (Path(uri) / "_delta_log" / f"{number:020}.json").unlink()
    assert told(uri, position) == [("2-3", "expired")]
    # Begun now, the table is read as it is.
    begun = first_offset(open_table(uri, {}), "earliest")
    assert begun.snapshot == 5
    assert sorted(read(uri, begun)) == list(range(1, 8))


def test_another_table_in_the_place_and_an_older_copy_are_told(uri: str, tmp_path: Path) -> None:
    older = tmp_path / "older"
    shutil.copytree(uri, older)
    append(uri, 4)
    position = after(uri)
    shutil.rmtree(uri)
    shutil.copytree(older, uri)
    assert told(uri, position) == [("2-2", "set back")]
    shutil.rmtree(uri)
    append(uri, 7)
    append(uri, 8)
    append(uri, 9)
    append(uri, 10)
    assert told(uri, position) == [("3-", "replaced")]
    pending = Position(position.batch, position.offset, is_pending=True)
    assert told(uri, pending) == [("3-", "replaced"), ("0-2", "replaced")]
    assert read(uri, next_offset(position, open_table(uri, {}), [])) == [7, 8, 9, 10]


def test_of_a_table_that_was_replaced_in_its_own_log_what_came_before_is_not_read_again(
    uri: str,
) -> None:
    position, before = after(uri), open_table(uri, {}).id
    DeltaTable.create(uri, schema=DeltaTable(uri).schema(), mode="overwrite")
    append(uri, 7)
    table = open_table(uri, {})
    assert table.id != before
    assert (table.first, table.newest) == (2, 3)
    assert told(uri, position) == [("2-", "replaced")]
    assert read(uri, next_offset(position, table, [])) == [7]
    # From the beginning of what it is now, too.
    assert read(uri, first_offset(table, "earliest")) == [7]


def test_a_limit_of_files_splits_between_versions(uri: str) -> None:
    for number in range(4, 9):
        append(uri, number)
    table = open_table(uri, {})
    found = steps(first_offset(table, "earliest"), table, Advanced(max_files_per_batch=3))
    assert [(one.begin, one.next) for one in found] == [(0, 3), (3, 6), (6, 7)]
    assert [n for one in found for n in read(uri, one)] == list(range(1, 9))


def append_files(uri: str, *numbers: int) -> None:
    """A version with a file for each number."""
    rows = pa.table({"n": pa.array(numbers, pa.int64()), "part": pa.array(numbers, pa.int64())})
    write_deltalake(uri, rows, mode="append", partition_by=["part"])


def without_its_beginning(uri: str) -> None:
    DeltaTable(uri).create_checkpoint()
    for number in range(DeltaTable(uri).version()):
        (Path(uri) / "_delta_log" / f"{number:020}.json").unlink(missing_ok=True)


def test_a_version_that_is_too_large_is_read_by_its_files(tmp_path: Path) -> None:
    uri = str(tmp_path / "events")
    append_files(uri, 1)
    append_files(uri, *range(2, 7))
    append_files(uri, 7)
    table = open_table(uri, {})
    found = steps(first_offset(table, "earliest"), table, Advanced(max_files_per_batch=2))
    cuts = [(one.begin, one.next, one.skip, one.stop) for one in found]
    assert cuts == [(0, 1, 0, None), (1, 1, 0, 2), (1, 1, 2, 4), (1, 3, 4, None)]
    assert [sorted(read(uri, one)) for one in found] == [[1], [2, 3], [4, 5], [6, 7]]
    assert all(Offset.of(one.text, "here") == one for one in found)
    # By bytes, where a file is larger than what is asked for.
    by_bytes = steps(first_offset(table, "earliest"), table, Advanced(max_bytes_per_batch=1))
    assert [len(read(uri, one)) for one in by_bytes] == [1] * 7


def test_a_version_that_changes_rows_is_never_cut(tmp_path: Path) -> None:
    """Each batch that knows of it would tell of it."""
    uri = str(tmp_path / "events")
    for number in (0, 3):
        rows = pa.table({"n": [number, number + 1, number + 2], "part": [0, 1, 2]})
        write_deltalake(uri, rows, mode="append", partition_by=["part"])
    DeltaTable(uri).update({"n": "n + 10"}, predicate="n >= 3")
    table = open_table(uri, {})
    version = table.version(2)
    assert version is not None
    assert version.changes_rows
    assert len(version.added) == 3
    found = steps(first_offset(table, "earliest"), table, Advanced(max_files_per_batch=1))
    assert len([one for one in found if one.has(2)]) == 1
    assert sorted(n for one in found for n in read(uri, one)) == list(range(6))


def test_what_a_table_held_is_read_by_its_files(tmp_path: Path) -> None:
    uri = str(tmp_path / "events")
    append_files(uri, *range(5))
    append_files(uri, 5)
    without_its_beginning(uri)
    append_files(uri, 6)
    table = open_table(uri, {})
    found = steps(first_offset(table, "earliest"), table, Advanced(max_files_per_batch=4))
    assert [sorted(read(uri, one)) for one in found] == [[0, 1, 2, 3], [4, 5, 6]]


def test_of_a_version_that_was_read_in_part_the_rest_is_told_as_lost(tmp_path: Path) -> None:
    uri = str(tmp_path / "events")
    append_files(uri, 0)
    shutil.copytree(uri, tmp_path / "before")
    append_files(uri, *range(1, 5))
    table = open_table(uri, {})
    _, part, rest = steps(first_offset(table, "earliest"), table, Advanced(max_files_per_batch=2))
    (gone,) = (file for number, file in files_of(table, rest) if "part=4" in number.file)
    position = Position(1, replace(part, mark=table.mark(part.last)))
    Path(table.uri_of(gone)).unlink()
    assert [reason for _, reason in told(uri, position)] == ["gone"]
    # A file that was read before is missed by nobody.
    Path(table.uri_of(next(file for _, file in files_of(table, part)))).unlink()
    assert [reason for _, reason in told(uri, position)] == ["gone"]
    # The version itself is gone: an older copy. What was read of it is another then.
    shutil.rmtree(uri)
    shutil.copytree(tmp_path / "before", uri)
    assert told(uri, position) == [("1-1", "set back")]
    accepted = [accepted_loss_of("1-1", "set back", open_table(uri, {}).id, batch=2)]
    append_files(uri, 8)
    again = next_offset(position, open_table(uri, {}), accepted)
    assert (again.begin, again.next, again.skip) == (1, 2, 0)
    assert read(uri, again) == [8]
    # Without that word it is another history.
    assert position.offset is not None
    with pytest.raises(TableLost, match="an older copy was brought back and written to since"):
        check_history(open_table(uri, {}), position.batch, position.offset, [])


def test_of_what_a_table_held_the_rest_is_told_as_lost(tmp_path: Path) -> None:
    uri = str(tmp_path / "events")
    append_files(uri, 0)
    shutil.copytree(uri, tmp_path / "before")
    append_files(uri, *range(1, 5))
    without_its_beginning(uri)
    table = open_table(uri, {})
    part, *_ = steps(first_offset(table, "earliest"), table, Advanced(max_files_per_batch=2))
    assert (part.snapshot, part.stop) == (1, 2)
    position = Position(0, replace(part, mark=table.mark(part.last)))
    shutil.rmtree(uri)
    append_files(uri, 7)
    (lost,) = lost_parts(position, open_table(uri, {}), [], skips=False)
    assert "nor all but the first 2 files of version 1" in lost.what
    # An older copy: nobody can say which files of the version it still has.
    shutil.rmtree(uri)
    shutil.copytree(tmp_path / "before", uri)
    with pytest.raises(TableLost, match="while it was read for the first time"):
        lost_parts(position, open_table(uri, {}), [], skips=False)
    append_files(uri, 8)
    position = replace(position, offset=replace(part, mark="of another"))
    assert position.offset is not None
    with pytest.raises(TableLost, match="an older copy was brought back and written to since"):
        check_history(open_table(uri, {}), position.batch, position.offset, [])


def accepted_loss_of(part: str, reason: str, table: str, batch: int) -> AcceptedLoss:
    return AcceptedLoss(
        part=part, reason=reason, detail="", by="Ada", accepted="known",
        at=datetime(2026, 7, 1, tzinfo=UTC), id=table, batch=batch,
    )  # fmt: skip


cutting = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 7)),
    st.tuples(st.just("append"), st.integers(1, 7)),
    st.tuples(st.just("optimize"), st.just(0)),
    st.tuples(st.just("shorten"), st.just(0)),
    st.tuples(st.just("run"), st.integers(1, 4)),
    st.tuples(st.just("some"), st.integers(1, 4)),
)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(cutting, max_size=10), st.booleans())
def test_each_row_is_read_once_wherever_versions_are_cut(
    history: list[tuple[str, int]], starts_short: bool
) -> None:
    """`some`: a run that ends after a batch."""
    with TemporaryDirectory() as folder:
        uri, numbers, seen = f"{folder}/events", itertools.count(), Counter[int]()
        append_files(uri, *(next(numbers) for _ in range(5)))
        if starts_short:
            append_files(uri, next(numbers))
            without_its_beginning(uri)
        position = Position[Offset]()
        for act, number in [*history, ("run", 2)]:
            match act:
                case "append":
                    append_files(uri, *(next(numbers) for _ in range(number)))
                case "optimize":
                    DeltaTable(uri).optimize.compact()
                case "shorten" if position.offset is None:
                    without_its_beginning(uri)
                case "run" | "some":
                    table = open_table(uri, {})
                    assert not lost_parts(position, table, [], skips=False)
                    planned = first_offset(table, "earliest")
                    if position.offset is not None:
                        planned = next_offset(position, table, [])
                        check_history(table, position.batch, position.offset, [])
                    if not moves(position, planned):
                        continue
                    found = steps(planned, table, Advanced(max_files_per_batch=number))
                    for one in found[:1] if act == "some" else found:
                        marked = replace(one, mark=table.mark(one.last))
                        rows = read(uri, Offset.of(marked.text, "here"))
                        assert len(rows) <= number
                        seen.update(rows)
                        position = Position(position.batch + 1, marked)
        assert seen == Counter(range(next(numbers)))


def test_values_of_partitions_are_fields_of_their_rows(tmp_path: Path) -> None:
    uri = str(tmp_path / "parts")
    rows = pa.table({"n": [1, 2], "day": ["ä b", None], "ok": [True, False], "k": [7, 8]})
    write_deltalake(uri, rows, partition_by=["day", "ok", "k"])
    table = open_table(uri, {})
    lines = [
        line
        for part, file in files_of(table, first_offset(table, "earliest"))
        for piece in slice_of(table, part, file).lines(10**9)
        for line in piece["_value"].to_pylist()
    ]
    assert sorted(line.decode() for line in lines if line) == [
        '{"n": 1, "day": "ä b", "ok": true, "k": 7}',
        '{"n": 2, "day": null, "ok": false, "k": 8}',
    ]


def test_what_cannot_be_read_right_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFound, match="There is no Delta table"):
        open_table(str(tmp_path / "none"), {})
    uri = str(tmp_path / "mapped")
    rows = pa.table({"n": [1]})
    write_deltalake(uri, rows)
    log = Path(uri) / "_delta_log" / f"{0:020}.json"
    text = log.read_text()
    log.write_text(
        text.replace('"configuration":{}', '"configuration":{"delta.columnMapping.mode":"name"}')
    )
    with pytest.raises(SourceRefused, match="columns mapped by name"):
        open_table(uri, {})


MAPPED = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}


@pytest.fixture
def once_mapped(tmp_path: Path) -> str:
    """Columns are mapped by version 1, and not any more by 4; version 2 renames one, and 3 adds a
    file, which has the former name as 0 has."""
    folder = tmp_path / "events"
    write_deltalake(str(folder), pa.table({"id": [1], "a": [10]}))
    first = (folder / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    meta = next(one["metaData"] for one in map(json.loads, first) if "metaData" in one)
    (path,) = (one["add"]["path"] for one in map(json.loads, first) if "add" in one)

    def metadata(name: str, *, mapped: bool) -> dict[str, Any]:
        fields = [
            {
                "name": logical,
                "type": "long",
                "nullable": True,
                "metadata": {
                    "delta.columnMapping.id": number,
                    "delta.columnMapping.physicalName": physical,
                }
                if mapped
                else {},
            }
            for number, (logical, physical) in enumerate([("id", "id"), (name, "a")], start=1)
        ]
        schema = json.dumps({"type": "struct", "fields": fields})
        return {**meta, "schemaString": schema, "configuration": MAPPED if mapped else {}}

    def file(name: str, rows: pa.Table, *, changes: bool) -> dict[str, Any]:
        pq.write_table(rows, folder / name)
        size = (folder / name).stat().st_size
        known = {"path": name, "partitionValues": {}, "size": size, "modificationTime": 1}
        return {**known, "dataChange": changes}

    def commit(number: int, *actions: dict[str, Any]) -> None:
        lines = [json.dumps(one) for one in ({"commitInfo": {"timestamp": 1}}, *actions)]
        (folder / "_delta_log" / f"{number:020}.json").write_text("\n".join(lines))

    protocol = {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}
    commit(1, protocol, {"metaData": metadata("a", mapped=True)})
    commit(2, {"metaData": metadata("amount", mapped=True)})
    commit(3, {"add": file("3.parquet", pa.table({"id": [2], "a": [20]}), changes=True)})
    removed = [
        {"remove": {"path": one, "deletionTimestamp": 1, "dataChange": False}}
        for one in (path, "3.parquet")
    ]
    packed = file("4.parquet", pa.table({"id": [1, 2], "amount": [10, 20]}), changes=False)
    commit(4, {"metaData": metadata("amount", mapped=False)}, *removed, {"add": packed})
    write_deltalake(str(folder), pa.table({"id": [5], "amount": [50]}), mode="append")
    return str(folder)


@pytest.mark.parametrize(
    ("begin", "is_first"),
    [(0, True), (1, False), (3, True)],
    ids=["earliest", "behind version 0", "starting: 3"],
)
def test_files_of_before_a_mapping_went_are_refused(
    once_mapped: str, begin: int, is_first: bool
) -> None:
    table = open_table(once_mapped, {})
    with pytest.raises(SourceRefused, match=r"up to version 3 .* \(source.delta.starting: 4\)"):
        check_names(table, Offset(table.id, begin, 6), is_first)


@pytest.mark.parametrize("is_planned", [False, True])
def test_a_run_reads_no_file_of_before_a_mapping_went(
    once_mapped: str, tmp_path: Path, is_planned: bool
) -> None:
    """A former version may have planned them, and was killed."""
    world = World(tmp_path)
    table = world.source.table()
    if is_planned:
        world.plan(0, Offset(table.id, 0, 6, mark=table.mark(5)))
    with pytest.raises(SourceRefused, match="had them up to version 3"):
        world.source.unread(world.ingest)


def test_behind_the_end_of_a_mapping_a_table_is_read(once_mapped: str) -> None:
    table = open_table(once_mapped, {})
    for begin, is_first in ((4, True), (5, True), (5, False)):
        check_names(table, Offset(table.id, begin, 6), is_first)
    # No row came while columns were mapped.
    (Path(once_mapped) / "_delta_log" / f"{3:020}.json").write_text('{"commitInfo": {}}')
    table = open_table(once_mapped, {})
    check_names(table, Offset(table.id, 1, 6), is_first=False)


def test_where_the_log_does_not_tell_of_a_mapping_the_protocol_does(once_mapped: str) -> None:
    DeltaTable(once_mapped).create_checkpoint()
    for number in (1, 2):
        (Path(once_mapped) / "_delta_log" / f"{number:020}.json").unlink()
    table = open_table(once_mapped, {})
    with pytest.raises(SourceRefused, match="up to version 3"):
        check_names(table, Offset(table.id, 1, 6), is_first=False)


def test_of_a_table_that_never_had_mapped_columns_no_version_is_refused(uri: str) -> None:
    append(uri, 4)
    append(uri, 5)
    DeltaTable(uri).create_checkpoint()
    (Path(uri) / "_delta_log" / f"{1:020}.json").unlink()
    table = open_table(uri, {})
    for begin, is_first in ((0, True), (2, True), (1, False)):
        check_names(table, Offset(table.id, begin, 4), is_first)


acts = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 3)),
    st.tuples(st.just("append"), st.integers(1, 3)),
    st.tuples(st.just("optimize"), st.just(0)),
    st.tuples(st.just("delete"), st.integers(0, 9)),
    st.tuples(st.just("run"), st.integers(1, 4)),
    st.tuples(st.just("properties"), st.just(0)),
)


@pytest.mark.slow
@settings(max_examples=25)
@given(st.lists(acts, max_size=12))
def test_each_appended_row_is_read_once_in_whatever_order_the_table_is_kept(
    history: list[tuple[str, int]],
) -> None:
    with TemporaryDirectory() as folder:
        uri, numbers, seen = f"{folder}/events", itertools.count(), Counter[int]()
        append(uri, next(numbers))
        position = Position()
        for act, number in [*history, ("run", 2)]:
            match act:
                case "append":
                    append(uri, *(next(numbers) for _ in range(number)))
                case "optimize":
                    DeltaTable(uri).optimize.compact()
                case "delete":
                    DeltaTable(uri).delete(f"n = {number}")
                case "properties":
                    properties = CommitProperties(custom_metadata={"a": "b"})
                    DeltaTable(uri).alter.set_table_properties(
                        {"delta.logRetentionDuration": "interval 30 days"},
                        commit_properties=properties,
                    )
                case "run":
                    table = open_table(uri, {})
                    assert {one.reason for one in lost_parts(position, table, [], False)} <= {
                        "changed rows"
                    }
                    assert not lost_parts(position, table, [], skips=True)
                    planned = (
                        first_offset(table, "earliest")
                        if position.offset is None
                        else next_offset(position, table, [])
                    )
                    for one in steps(planned, table, Advanced(max_files_per_batch=number)):
                        seen.update(read(uri, Offset.of(one.text, "here")))
                        position = Position(position.batch + 1, one)
        assert seen == Counter(range(next(numbers)))


@pytest.mark.slow
def test_of_many_versions_each_loss_is_told_in_their_order(tmp_path: Path) -> None:
    """They are read several at once."""
    uri = str(tmp_path / "events")
    for number in range(40):
        append(uri, number)
    DeltaTable(uri).delete("n = 3")
    append(uri, 41)
    first, later = (_only_file(uri, number) for number in (7, 41))
    for file in (first, later):
        (Path(uri) / file).unlink()
    DeltaTable(uri).create_checkpoint()
    (Path(uri) / "_delta_log" / f"{20:020}.json").unlink()
    begins = Offset(open_table(uri, {}).id, 0, 0)
    assert told(uri, Position(0, begins)) == [
        (f"7/{first}", "gone"),
        ("40", "changed rows"),
        (f"41/{later}", "gone"),
        ("20-20", "expired"),
    ]


def test_for_the_first_rows_the_log_is_not_read_to_its_end(tmp_path: Path) -> None:
    uri = str(tmp_path / "events")
    for number in range(20):
        append(uri, number)
    table = open_table(uri, {})
    for number in range(8, 20):
        (Path(uri) / "_delta_log" / f"{number:020}.json").write_text("no commit")
    assert sum(first_rows_of(table, Offset(table.id, 0, 20), 3).values()) == 3


def _only_file(uri: str, version: int) -> str:
    found = open_table(uri, {}).version(version)
    assert found is not None
    (file,) = found.added
    return file.path
