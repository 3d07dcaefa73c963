"""What of a table goes between the looks at it: before it was accepted, after, while a batch is
read."""

from __future__ import annotations

import itertools
import json
import os
import re
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.running import Place, clicks
from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import (
    DataDamaged,
    InputLost,
    SourceNotFound,
    SourceRefused,
    StorageUnavailable,
    TableLost,
)
from tidemark.pipeline.instants import instant_of
from tidemark.recompute.rewind.input import AfterBatch
from tidemark.sources.delta.following import NEW_ROWS
from tidemark.sources.delta.handle import DeltaSourceHandle
from tidemark.sources.delta.offsets import DeltaPart, Offset
from tidemark.sources.notes import source_notes, write_source_notes
from tidemark.sources.source import LossAcceptance

TIME = pa.timestamp("us", "UTC")
ACCEPTED = LossAcceptance("gone for good", "me", datetime(2026, 7, 1, tzinfo=UTC))


class World:
    """A table of others, and an ingest whose checkpoint is written as the engine writes it."""

    def __init__(self, root: Path, **delta: Any) -> None:
        common = {name: value for name, value in clicks()["source"].items() if name != "files"}
        place = Place(root, clicks(source={"delta": {"table": "events", **delta}, **common}))
        self.source = DeltaSourceHandle(place.pipeline, place.settings)
        self.uri = str(root / "events")
        self.folder = root / "ingest"
        self.ingest = Checkpoint(str(self.folder), {})

    def append(self, *numbers: int) -> None:
        for number in numbers:
            write_deltalake(self.uri, pa.table({"n": [number]}), mode="append")

    def plan(self, batch: int, offset: Offset) -> None:
        head = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {}})
        self._write("offsets", batch, f"v1\n{head}\n{offset.text}")

    def commit(self, batch: int) -> None:
        self._write("commits", batch, 'v1\n{"nextBatchWatermarkMs":0}')

    def _write(self, log: str, batch: int, text: str) -> None:
        (self.folder / log).mkdir(parents=True, exist_ok=True)
        (self.folder / log / str(batch)).write_text(text)

    def expire(self, *versions: int) -> None:
        for number in versions:
            (Path(self.uri) / "_delta_log" / f"{number:020}.json").unlink()

    def lost(self) -> list[tuple[str, str]]:
        return [(one.part, one.reason) for one in self.source.lost(self.ingest)]

    def accept(self) -> None:
        self.source.accept_lost(self.ingest, self.source.lost(self.ingest), ACCEPTED)

    def read(self, batch: int) -> list[int]:
        reading = self.source.reading(self.ingest, batch, None)
        return [
            json.loads(line)["n"]
            for one in self.source.slices(self.ingest, batch, reading)
            for piece in one.lines(10**9)
            for line in piece["_value"].to_pylist()
        ]


@pytest.fixture
def world(tmp_path: Path) -> World:
    found = World(tmp_path)
    found.append(*range(6))
    return found


@contextmanager
def no_more_open_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = os.open("/dev/null", os.O_RDONLY)
    resource.setrlimit(resource.RLIMIT_NOFILE, (held, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(held)


def test_versions_that_expired_after_others_were_accepted_are_told_by_themselves(
    world: World,
) -> None:
    (first, *_) = world.source.steps(world.ingest)
    world.plan(0, Offset(first.id, 0, 1))
    world.commit(0)
    DeltaTable(world.uri).create_checkpoint()
    world.expire(0, 1, 2)
    assert world.lost() == [("1-2", "expired")]
    world.accept()
    assert world.lost() == []
    world.expire(3)
    assert world.lost() == [("3-3", "expired")]
    with pytest.raises(InputLost, match="versions 3 to 3 are not in the log any more"):
        world.source.steps(world.ingest)
    world.accept()
    (second,) = world.source.steps(world.ingest)
    world.plan(1, second)
    reading = world.source.reading(world.ingest, 1, None)
    assert [one.part for one in reading.verdicts] == ["1-2", "3-3"]
    assert world.read(1) == [4, 5]


def test_no_part_is_held_by_one_that_ends_before_it() -> None:
    assert DeltaPart(3, last=5).holds(DeltaPart(4, last=5))
    assert not DeltaPart(3, last=5).holds(DeltaPart(3, last=6))
    assert not DeltaPart(3, last=5).holds(DeltaPart(3, is_open=True))
    assert DeltaPart(3, is_open=True).holds(DeltaPart(4, is_open=True))
    assert DeltaPart(3, is_open=True).holds(DeltaPart(4, last=9))


def test_a_version_that_goes_while_its_batch_is_read_is_no_empty_one(world: World) -> None:
    (first,) = world.source.steps(world.ingest)
    world.plan(0, first)
    reading = world.source.reading(world.ingest, 0, None)
    DeltaTable(world.uri).create_checkpoint()
    world.expire(0)
    with pytest.raises(DataDamaged, match=r"Version 0 of .* is not now"):
        world.source.reading(world.ingest, 0, None)
    with pytest.raises(DataDamaged, match=r"Version 0 of .* is not now"):
        world.source.slices(world.ingest, 0, reading)
    assert world.lost() == [("0-0", "expired")]


def test_a_file_of_a_snapshot_that_is_gone_has_to_be_accepted(world: World) -> None:
    DeltaTable(world.uri).create_checkpoint()
    world.expire(0, 1)
    (first,) = world.source.steps(world.ingest)
    assert first.snapshot == 5
    world.plan(0, first)
    file = DeltaTable(world.uri).file_uris()[2].rsplit("/", 1)[1]
    (Path(world.uri) / file).unlink()
    assert world.lost() == [(f"5/{file}", "gone")]
    world.accept()
    assert world.lost() == []
    reading = world.source.reading(world.ingest, 0, None)
    assert [(one.part, one.reason) for one in reading.verdicts] == [(f"5/{file}", "gone")]
    assert len(world.read(0)) == 5


def test_a_snapshot_that_the_log_has_no_more_is_told(world: World) -> None:
    DeltaTable(world.uri).create_checkpoint()
    world.expire(0, 1)
    (first,) = world.source.steps(world.ingest)
    world.plan(0, first)
    world.append(6)
    log = Path(world.uri) / "_delta_log"
    DeltaTable(world.uri).create_checkpoint()
    world.expire(*range(2, 6))
    (log / f"{5:020}.checkpoint.parquet").unlink()
    with pytest.raises(DataDamaged, match="held at version 5, which a batch was planned to read"):
        world.source.check(world.ingest)


def test_a_start_behind_the_newest_version_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path, starting=3)
    world.append(0, 1)
    with pytest.raises(SourceNotFound, match=r"begins with version 3, and .* with version 1"):
        world.source.steps(world.ingest)
    world.append(2)
    (first,) = world.source.steps(world.ingest)
    assert (first.begin, first.next) == (3, 3)


def test_versions_that_were_set_back_are_read_when_as_many_were_written_anew(
    world: World, tmp_path: Path
) -> None:
    older = tmp_path / "older"
    shutil.copytree(world.uri, older)
    (first,) = world.source.steps(world.ingest)
    world.plan(0, first)
    world.commit(0)
    world.append(6)
    (second,) = world.source.steps(world.ingest)
    world.plan(1, second)
    world.commit(1)
    shutil.rmtree(world.uri)
    shutil.copytree(older, world.uri)
    assert world.lost() == [("6-6", "set back")]
    world.accept()
    world.append(60)
    assert world.source.unread(world.ingest) is not None
    (again,) = world.source.steps(world.ingest)
    # The engine begins no batch at an offset that equals the one before.
    assert (again.begin, again.next) == (second.begin, second.next)
    assert again != second
    world.plan(2, again)
    assert [one.reason for one in world.source.reading(world.ingest, 2, None).verdicts] == [
        "set back"
    ]
    assert world.read(2) == [60]


def test_what_the_machine_lacks_is_no_verdict_on_a_file(world: World) -> None:
    (first,) = world.source.steps(world.ingest)
    world.plan(0, first)
    reading = world.source.reading(world.ingest, 0, None)
    one = world.source.slices(world.ingest, 0, reading)[0]
    with pytest.raises(StorageUnavailable, match="open files"), no_more_open_files():
        list(one.lines(10**9))
    assert sum(piece.num_rows for piece in one.lines(10**9)) == 1


def set_back(world: World, older: Path) -> None:
    shutil.rmtree(world.uri)
    shutil.copytree(older, world.uri)


def read_on(world: World, batch: int) -> list[int]:
    """What is read from a batch on, by batches that are planned as they are."""
    found = []
    for number, one in enumerate(world.source.steps(world.ingest), start=batch):
        world.plan(number, one)
        found += world.read(number)
        world.commit(number)
    return found


def test_versions_of_a_planned_batch_that_were_set_back_are_read_once(
    world: World, tmp_path: Path
) -> None:
    assert read_on(world, 0) == list(range(6))
    older = tmp_path / "older"
    shutil.copytree(world.uri, older)
    world.append(6, 7)
    (second,) = world.source.steps(world.ingest)
    world.plan(1, second)
    set_back(world, older)
    assert world.lost() == [("6-7", "set back"), ("6-7", "set back")]
    world.accept()
    assert world.lost() == []
    world.append(60)
    reading = world.source.reading(world.ingest, 1, None)
    assert (reading.read, [one.reason for one in reading.verdicts]) == ((), ["set back"])
    world.commit(1)
    assert read_on(world, 2) == [60]


def test_what_was_accepted_of_a_version_is_not_accepted_of_another_of_its_number(
    world: World, tmp_path: Path
) -> None:
    assert read_on(world, 0) == list(range(6))
    older = tmp_path / "older"
    shutil.copytree(world.uri, older)
    DeltaTable(world.uri).delete("n = 3")
    assert world.lost() == [("6", "changed rows")]
    world.accept()
    assert read_on(world, 1) == []
    set_back(world, older)
    assert world.lost() == [("6-6", "set back")]
    world.accept()
    world.append(60)
    assert read_on(world, 2) == [60]
    assert world.lost() == []


@pytest.mark.parametrize("is_read", [True, False])
def test_an_older_copy_that_was_written_to_since_is_another_history(
    world: World, tmp_path: Path, is_read: bool
) -> None:
    copy = shutil.copytree(world.uri, tmp_path / "copy")
    world.append(6)
    (first,) = world.source.steps(world.ingest)
    world.plan(0, first)
    if is_read:
        world.commit(0)
    shutil.rmtree(world.uri)
    shutil.copytree(copy, world.uri)
    world.append(60, 70)
    with pytest.raises(TableLost, match=r"Version 6 of .* is not the one that was read"):
        world.source.check(world.ingest)
    with pytest.raises(TableLost, match=r"Version 6 of .* is not the one that was read"):
        world.source.reading(world.ingest, 0, None)


@pytest.mark.parametrize(
    ("at_once", "words"),
    [(True, "ended with version 4"), (False, "Version 4 of .* is not the one")],
)
def test_a_copy_that_ends_before_what_was_read_and_was_written_to_is_no_set_back(
    tmp_path: Path, at_once: bool, words: str
) -> None:
    world = World(tmp_path)
    world.append(0, 1, 2)
    copy = Path(shutil.copytree(world.uri, tmp_path / "copy"))
    if not at_once:
        assert read_on(world, 0) == [0, 1, 2]
        world.append(3, 4)
        assert read_on(world, 1) == [3, 4]
    world.append(*range(3 if at_once else 5, 7))
    read_on(world, 0 if at_once else 2)
    set_back(world, copy)
    world.append(103, 104)
    for look in (world.accept, lambda: world.source.check(world.ingest)):
        with pytest.raises(TableLost, match=words):
            look()


def test_an_older_copy_in_place_of_one_that_was_accepted_is_no_set_back(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.append(0, 1)
    oldest = Path(shutil.copytree(world.uri, tmp_path / "oldest"))
    world.append(2)
    older = Path(shutil.copytree(world.uri, tmp_path / "older"))
    assert read_on(world, 0) == [0, 1, 2]
    world.append(3)
    assert read_on(world, 1) == [3]
    set_back(world, older)
    world.accept()
    assert world.lost() == []
    set_back(world, oldest)
    world.append(20, 30)
    with pytest.raises(TableLost, match=r"Version 2 of .* is not the one that was read"):
        world.source.steps(world.ingest)


def test_a_set_back_that_was_accepted_is_no_word_on_the_next_one(
    world: World, tmp_path: Path
) -> None:
    assert read_on(world, 0) == list(range(6))
    older = Path(shutil.copytree(world.uri, tmp_path / "older"))
    world.append(6, 7)
    assert read_on(world, 1) == [6, 7]
    set_back(world, older)
    world.accept()
    world.append(60, 70)
    assert read_on(world, 2) == [60, 70]
    set_back(world, older)
    world.append(600, 700, 800)
    with pytest.raises(TableLost, match=r"Version 7 of .* is not the one that was read"):
        world.source.check(world.ingest)


def test_a_set_back_that_was_accepted_is_no_word_on_a_batch_that_was_planned_since(
    world: World, tmp_path: Path
) -> None:
    assert read_on(world, 0) == list(range(6))
    older = Path(shutil.copytree(world.uri, tmp_path / "older"))
    world.append(6, 7)
    assert read_on(world, 1) == [6, 7]
    set_back(world, older)
    world.accept()
    world.append(60, 70)
    (third,) = world.source.steps(world.ingest)
    world.plan(2, third)
    set_back(world, older)
    assert world.lost() == [("6-7", "set back"), ("6-7", "set back")]
    world.accept()
    assert (world.lost(), world.read(2)) == ([], [])
    world.commit(2)
    world.append(600)
    assert read_on(world, 3) == [600]


def test_what_was_planned_and_not_read_is_no_version_that_a_batch_ended_with(
    world: World, tmp_path: Path
) -> None:
    assert read_on(world, 0) == list(range(6))
    older = Path(shutil.copytree(world.uri, tmp_path / "older"))
    world.append(6)
    never_read = Path(shutil.copytree(world.uri, tmp_path / "never read"))
    (second,) = world.source.steps(world.ingest)
    world.plan(1, second)
    set_back(world, older)
    world.accept()
    world.append(60, 70)
    world.commit(1)
    assert read_on(world, 2) == [60, 70]
    set_back(world, never_read)
    with pytest.raises(TableLost, match="ended with version 6"):
        world.lost()


def test_a_version_that_was_read_in_part_is_none_that_a_batch_ended_with(
    world: World, tmp_path: Path
) -> None:
    assert read_on(world, 0) == list(range(6))
    older = Path(shutil.copytree(world.uri, tmp_path / "older"))
    world.append(6)
    read_in_part = Path(shutil.copytree(world.uri, tmp_path / "read in part"))
    table = world.source.table()
    world.plan(1, Offset(table.id, 6, 6, mark=table.mark(6), stop=1))
    world.commit(1)
    set_back(world, older)
    world.accept()
    world.append(60, 70)
    assert read_on(world, 2) == [60, 70]
    set_back(world, read_in_part)
    with pytest.raises(TableLost, match="ended with version 6"):
        world.lost()


def test_a_set_back_that_was_accepted_and_undone_lets_nothing_be_read_twice(
    world: World, tmp_path: Path
) -> None:
    assert read_on(world, 0) == list(range(6))
    older = Path(shutil.copytree(world.uri, tmp_path / "older"))
    world.append(6, 7)
    assert read_on(world, 1) == [6, 7]
    newest = Path(shutil.copytree(world.uri, tmp_path / "newest"))
    set_back(world, older)
    world.accept()
    set_back(world, newest)
    assert (world.lost(), world.source.unread(world.ingest)) == ([], None)
    world.append(8)
    (step,) = world.source.steps(world.ingest)
    world.plan(2, step)
    reading = world.source.reading(world.ingest, 2, None)
    assert [one.reason for one in reading.verdicts] == ["set back"]
    assert world.read(2) == [8]


def test_a_set_back_that_was_undone_leaves_nothing_unread_that_was_only_planned(
    world: World, tmp_path: Path
) -> None:
    assert read_on(world, 0) == list(range(6))
    older = Path(shutil.copytree(world.uri, tmp_path / "older"))
    world.append(6, 7)
    (step,) = world.source.steps(world.ingest)
    world.plan(1, step)
    newest = Path(shutil.copytree(world.uri, tmp_path / "newest"))
    set_back(world, older)
    world.accept()
    assert world.read(1) == []
    world.commit(1)
    set_back(world, newest)
    assert world.lost() == []
    assert read_on(world, 2) == [6, 7]


def test_a_set_back_to_before_anything_was_read_passes_over_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, starting=2)
    world.append(0)
    copy = Path(shutil.copytree(world.uri, tmp_path / "copy"))
    world.append(1, 2, 3)
    assert read_on(world, 0) == [2, 3]
    set_back(world, copy)
    assert world.lost() == [("1-3", "set back")]
    world.accept()
    world.append(10)
    assert read_on(world, 1) == [10]


def test_offsets_without_marks_go_on_and_those_that_are_not_kept_do_not(
    world: World, tmp_path: Path
) -> None:
    """The former version wrote no marks; housekeeping removes offsets."""
    older = Path(shutil.copytree(world.uri, tmp_path / "older"))
    (first,) = world.source.steps(world.ingest)
    world.plan(0, replace(first, mark=None))
    world.commit(0)
    world.append(6)
    assert read_on(world, 1) == [6]
    set_back(world, older)
    assert world.lost() == [("6-6", "set back")]
    (world.folder / "offsets" / "0").unlink()
    with pytest.raises(TableLost, match="that the checkpoint still tells of ended with version 5"):
        world.lost()


def test_behind_a_rewind_a_set_back_into_a_batch_is_none(world: World, tmp_path: Path) -> None:
    assert read_on(world, 0) == list(range(6))
    world.append(6)
    older = Path(shutil.copytree(world.uri, tmp_path / "older"))
    world.append(7)
    assert read_on(world, 1) == [6, 7]
    set_back(world, older)
    with pytest.raises(TableLost, match="`tidemark rewind`"):
        world.lost()
    assert world.source.lost(AfterBatch(str(world.folder), {}, last=0)) == ()


def followed_world(root: Path) -> World:
    world = World(root)
    delta = {"table": "events", "changes": "follow", "key": "n"}
    columns = {"n": "long not null", "at": "timestamp"}
    source = {"delta": delta, "columns": columns, "event_time": {"column": "at"}}
    tables = {"per_hour": {"window": {"length": "1 hour"}, "measures": {"found": "count(*)"}}}
    place = Place(root, clicks(source=source, tables=tables))
    world.source = DeltaSourceHandle(place.pipeline, place.settings)
    return world


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (pa.string(), None),
        (pa.int8(), None),
        (pa.date32(), None),
        (pa.decimal128(10, 0), None),
        (pa.decimal128(10, 2), "decimal(10,2)"),
        (pa.float64(), "double"),
        (pa.bool_(), "boolean"),
        (pa.binary(), "binary"),
        (TIME, "timestamp"),
        (pa.list_(pa.string()), "array"),
        (pa.struct([("a", pa.int64())]), "struct"),
    ],
    ids=str,
)
def test_a_key_whose_text_may_be_another_in_bronze_is_refused(
    tmp_path: Path, kind: pa.DataType, told: str | None
) -> None:
    world = followed_world(tmp_path)
    fields: list[pa.Field[Any]] = [pa.field("n", kind), pa.field("at", TIME)]
    write_deltalake(world.uri, pa.schema(fields).empty_table())
    if told is None:
        world.source.check(world.ingest)
        return
    with pytest.raises(SourceRefused, match=rf"n \({re.escape(told)}\)"):
        world.source.check(world.ingest)


def follow(world: World, act: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Keep and note an act, as a run does; which keys went, and which came."""
    told = world.source.to_follow(world.ingest)
    assert told is not None
    change = told(act)
    folder = Path(world.source.places.retractions) / act
    folder.mkdir(parents=True)
    (folder / NEW_ROWS).write_bytes(change.new_rows or b"")
    notes = source_notes(world.ingest).model_copy(update={"followed": change.follows})
    write_source_notes(world.ingest, notes)
    return change.gone, change.came


def test_an_act_that_was_read_is_not_read_again_where_its_versions_were_set_back(
    tmp_path: Path,
) -> None:
    world = followed_world(tmp_path)
    world.append(0, 1, 2, 3)
    copy = Path(shutil.copytree(world.uri, tmp_path / "copy"))
    assert read_on(world, 0) == [0, 1, 2, 3]
    world.append(4)
    assert read_on(world, 1) == [4]
    DeltaTable(world.uri).delete("n = 4")
    world.append(5)
    assert follow(world, "20260701T000000Z") == (("4",), ("5",))
    assert read_on(world, 2) == [5]
    set_back(world, copy)
    world.accept()
    world.append(40)
    assert read_on(world, 3) == [40]
    world.append(50, 60, 70)
    assert read_on(world, 4) == [50, 60, 70]


def test_what_changed_behind_a_set_back_is_followed_once_a_batch_has_told_of_that(
    tmp_path: Path,
) -> None:
    world = followed_world(tmp_path)
    world.append(0, 1)
    copy = Path(shutil.copytree(world.uri, tmp_path / "copy"))
    assert read_on(world, 0) == [0, 1]
    world.append(2)
    assert read_on(world, 1) == [2]
    set_back(world, copy)
    world.accept()
    DeltaTable(world.uri).delete("n = 0")
    world.append(20)
    assert world.source.to_follow(world.ingest) is None
    (told,) = world.source.steps(world.ingest)
    world.plan(2, told)
    reading = world.source.reading(world.ingest, 2, None)
    assert (reading.read, [one.reason for one in reading.verdicts]) == ((), ["set back"])
    world.commit(2)
    assert follow(world, "20260701T000000Z") == (("0",), ("20",))
    assert read_on(world, 3) == [20]


def test_what_changed_behind_a_log_that_was_cleaned_up_is_refused_with_a_way_on(
    tmp_path: Path,
) -> None:
    world = followed_world(tmp_path)
    world.append(0, 1, 2)
    assert read_on(world, 0) == [0, 1, 2]
    world.append(3, 4)
    DeltaTable(world.uri).create_checkpoint()
    DeltaTable(world.uri).delete("n = 1")
    world.expire(0, 1, 2, 3)
    with pytest.raises(SourceRefused, match=r"held at version 2, .*changes to stop, and accept"):
        follow(world, "20260701T000000Z")
    # As it says.
    stopping = World(tmp_path)
    assert stopping.lost() == [("5", "changed rows"), ("3-3", "expired")]
    stopping.accept()
    assert read_on(stopping, 1) == [4]


@pytest.mark.parametrize("is_in_its_log", [True, False], ids=["in its log", "in its folder"])
def test_another_table_whose_rows_changed_is_read_as_it_is_and_then_followed(
    tmp_path: Path, is_in_its_log: bool
) -> None:
    world = followed_world(tmp_path)
    world.append(0, 1, 2)
    assert read_on(world, 0) == [0, 1, 2]
    replace_table(world, is_in_its_log)
    world.append(10, 11)
    DeltaTable(world.uri).delete("n = 11")
    assert world.lost() == [("3-", "replaced")]
    world.accept()
    assert world.source.to_follow(world.ingest) is None
    assert "is new" in (world.source.unread(world.ingest) or "")
    assert read_on(world, 1) == [10]
    assert (world.lost(), world.source.unread(world.ingest)) == ([], None)
    DeltaTable(world.uri).delete("n = 10")
    world.append(12)
    assert follow(world, "20260701T000000Z") == (("10",), ("12",))
    assert read_on(world, 2) == [12]
    assert has_followed(world)


def test_a_table_of_which_a_batch_took_note_and_read_nothing_is_read_as_it_is(
    tmp_path: Path,
) -> None:
    """As a former version planned where the rows of another table had changed."""
    world = followed_world(tmp_path)
    world.append(10, 11)
    DeltaTable(world.uri).delete("n = 11")
    world.plan(0, Offset(world.source.table().id, 0, 0))
    world.commit(0)
    assert world.source.to_follow(world.ingest) is None
    assert read_on(world, 1) == [10]


def test_what_is_followed_is_done_once_another_table_is_read(tmp_path: Path) -> None:
    world = followed_world(tmp_path)
    world.append(0, 1, 2)
    assert read_on(world, 0) == [0, 1, 2]
    DeltaTable(world.uri).delete("n = 0")
    follow(world, "20260701T000000Z")
    assert not has_followed(world)
    (step,) = world.source.steps(world.ingest)
    world.plan(1, step)
    replace_table(world, is_in_its_log=False)
    world.append(50)
    assert not has_followed(world)
    world.accept()
    world.commit(1)
    assert read_on(world, 2) == [50]
    assert has_followed(world)


def replace_table(world: World, is_in_its_log: bool) -> None:
    """By an empty one."""
    schema = DeltaTable(world.uri).schema()
    if not is_in_its_log:
        shutil.rmtree(world.uri)
    DeltaTable.create(world.uri, schema=schema, mode="overwrite")


def has_followed(world: World) -> bool:
    followed = source_notes(world.ingest).followed
    assert followed is not None
    return world.source.has_followed(world.ingest, followed)


@pytest.mark.parametrize("planned", [True, False], ids=["planned", "not yet planned"])
def test_a_file_of_what_is_followed_that_is_gone_has_to_be_accepted(
    tmp_path: Path, planned: bool
) -> None:
    """The rows that it replaces are out of bronze by then, and nothing else leads out."""
    world = followed_world(tmp_path)
    world.append(0, 1, 2)
    assert read_on(world, 0) == [0, 1, 2]
    DeltaTable(world.uri).delete("n = 2")
    world.append(7)
    there = {*DeltaTable(world.uri).file_uris()}
    world.append(8)
    (gone,) = {*DeltaTable(world.uri).file_uris()} - there
    went, came = follow(world, "20260701T000000Z")
    assert (went, {*came}) == (("2",), {"7", "8"})
    (step,) = world.source.steps(world.ingest)
    if planned:
        world.plan(1, step)
    Path(gone).unlink()
    part = f"5/{Path(gone).name}"
    assert world.lost() == [(part, "gone")]
    with pytest.raises(InputLost, match="`tidemark accept clicks --reason WHY`"):
        world.source.check(world.ingest)
    world.accept()
    assert world.lost() == []
    if not planned:
        assert world.source.steps(world.ingest) == [step]
        world.plan(1, step)
        assert world.lost() == []
    reading = world.source.reading(world.ingest, 1, None)
    assert [(one.part, one.reason) for one in reading.verdicts] == [(part, "gone")]
    assert world.read(1) == [7]
    world.commit(1)
    assert (world.lost(), world.source.steps(world.ingest)) == ([], [])


@pytest.mark.parametrize("rows", [(), (7,)], ids=["deletes only", "with new rows"])
def test_a_copy_brought_back_while_an_act_is_to_be_read_is_not_taken_for_it(
    tmp_path: Path, rows: tuple[int, ...]
) -> None:
    """Its rows would be passed over: the versions have the same numbers."""
    world = followed_world(tmp_path)
    world.append(0, 1, 2)
    copy = Path(shutil.copytree(world.uri, tmp_path / "copy"))
    assert read_on(world, 0) == [0, 1, 2]
    DeltaTable(world.uri).delete("n = 2")
    world.append(*rows)
    follow(world, "20260701T000000Z")
    set_back(world, copy)
    world.append(*range(90, 91 + len(rows)))
    for asked in (world.lost, lambda: world.source.steps(world.ingest)):
        with pytest.raises(TableLost, match="is not the one that was read"):
            asked()


def test_a_file_of_what_is_followed_that_goes_while_it_is_read_is_told_as_such(
    tmp_path: Path,
) -> None:
    world = followed_world(tmp_path)
    world.append(0)
    assert read_on(world, 0) == [0]
    DeltaTable(world.uri).delete("n = 0")
    world.append(1)
    follow(world, "20260701T000000Z")
    (step,) = world.source.steps(world.ingest)
    world.plan(1, step)
    reading = world.source.reading(world.ingest, 1, None)
    (file,) = DeltaTable(world.uri).file_uris()
    unreadable = {reading.read[0]: "It is no Parquet"}
    with pytest.raises(DataDamaged, match="Put the file back"):
        world.source.left_out(world.ingest, 1, reading, unreadable, False)
    Path(file).unlink()
    with pytest.raises(InputLost, match="is gone"):
        world.source.left_out(world.ingest, 1, reading, unreadable, False)


copies = st.one_of(
    st.tuples(st.just("run"), st.integers(0, 3)),
    st.tuples(st.just("run"), st.integers(1, 2)),
    st.tuples(st.just("plan"), st.integers(1, 2)),
    st.tuples(st.just("copy"), st.integers(0, 2)),
    st.tuples(st.just("back"), st.integers(0, 2)),
    st.tuples(st.just("back"), st.integers(0, 2)),
    st.tuples(st.just("accept"), st.integers(0, 3)),
)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(st.tuples(copies, st.integers(0, 9)), min_size=5, max_size=12))
def test_no_row_is_passed_over_whichever_copies_are_brought_back(
    acts: list[tuple[tuple[str, int], int]],
) -> None:
    """So many rows are appended before a run, one that is killed before it reads (`plan`), and a
    copy, and behind what was brought back or accepted."""
    with TemporaryDirectory() as folder:
        world, numbers = World(Path(folder)), itertools.count()
        world.append(next(numbers))
        kept = [Path(shutil.copytree(world.uri, f"{folder}/0"))]
        batch, is_pending = 0, False
        seen: set[int] = set()
        for (act, number), which in [*acts, (("accept", 3), 0), (("run", 0), 0)]:
            try:
                if act == "back":
                    set_back(world, kept[which % len(kept)])
                if act == "accept":
                    world.accept()
                world.append(*(next(numbers) for _ in range(number)))
                if act == "copy":
                    kept.append(Path(shutil.copytree(world.uri, f"{folder}/{len(kept)}")))
                if act not in ("run", "plan"):
                    continue
                world.source.unread(world.ingest)
                if is_pending:
                    seen.update(world.read(batch))
                    world.commit(batch)
                    batch, is_pending = batch + 1, False
                for one in world.source.steps(world.ingest):
                    world.plan(batch, one)
                    is_pending = act == "plan"
                    if not is_pending:
                        seen.update(world.read(batch))
                        world.commit(batch)
                        batch += 1
                if not is_pending:
                    assert set(DeltaTable(world.uri).to_pyarrow_table()["n"].to_pylist()) <= seen
            except InputLost:
                continue
            except TableLost:
                return


def test_what_is_lost_since_a_first_begin_was_noted_is_told_by_the_lag_too(tmp_path: Path) -> None:
    world = World(tmp_path, starting="latest")
    world.append(1)
    world.source.prepare(world.ingest)
    world.append(2, 3)
    version = world.source.table().version(1)
    assert version is not None
    (file,) = version.added
    (Path(world.uri) / file.path).unlink()
    assert world.lost() == [(str(DeltaPart(1, file.path)), "gone")]
    lag = world.source.lag(world.ingest)
    assert lag is not None
    assert (lag.messages, lag.lost) == (2, 1)


@pytest.mark.parametrize("time", ["-1793000000000000", '"2026-07-01"', "null"])
def test_a_version_whose_time_is_none_is_as_one_without(tmp_path: Path, time: str) -> None:
    world = World(tmp_path)
    world.append(1, 2)
    log = Path(world.uri) / "_delta_log"
    (later,) = re.findall(r'"timestamp":(\d+)', (log / f"{1:020}.json").read_text())
    first = log / f"{0:020}.json"
    first.write_text(re.sub(r'"timestamp":\d+', f'"timestamp":{time}', first.read_text()))
    lag = world.source.lag(world.ingest)
    assert lag is not None
    assert (lag.messages, lag.since) == (2, instant_of(int(later)))
