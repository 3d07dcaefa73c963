"""What is read once in a look, and which handles the steps of a run share."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from tests.storage.s3 import Requests, copy_to_store, make_bucket, s3_server
from tidemark.storage import file_place
from tidemark.storage.delta.place import TablePlace, own_handles, shared_handles
from tidemark.storage.file_place import FilePlace, one_look
from tidemark.storage.files import write_bytes


def append(place: TablePlace) -> None:
    write_deltalake(
        place.uri, pa.table({"n": [1]}), mode="append", storage_options=dict(place.options)
    )


@pytest.fixture
def place(tmp_path: Path) -> TablePlace:
    place = TablePlace(str(tmp_path / "t"))
    append(place)
    append(place)
    return place


def test_a_look_sees_each_place_as_it_was_when_it_saw_it_first(
    tmp_path: Path, place: TablePlace
) -> None:
    folder, missing = FilePlace(str(tmp_path / "f")), TablePlace(str(tmp_path / "none"))
    (tmp_path / "f").mkdir()
    (tmp_path / "f/a").write_bytes(b"1")
    with one_look():
        seen = place.existing()
        assert missing.open() is None
        assert (folder.read("a"), folder.names(), len(folder.files())) == (b"1", {"a": False}, 1)
        append(place)
        append(missing)
        (tmp_path / "f/a").write_bytes(b"2")
        (tmp_path / "f/b").write_bytes(b"2")
        with one_look():
            assert place.existing() is seen
        assert seen.version() == 1
        assert missing.open() is None
        assert (folder.read("a"), folder.names(), len(folder.files())) == (b"1", {"a": False}, 1)
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(lambda: place.existing().version()).result() == 2
    assert place.existing().version() == 2
    assert missing.existing().version() == 0
    assert (folder.read("a"), len(folder.files())) == (b"2", 2)


def test_a_folder_of_a_listed_one_is_not_listed_again(tmp_path: Path) -> None:
    for name in ("a b/1", "a b/2/3", "a bc/4", "5"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    for place in (FilePlace(str(tmp_path)), FilePlace(tmp_path.as_uri())):
        alone = place.files("a b")
        with one_look():
            assert len(place.files()) == 4
            assert place.files("a b") == alone
            assert len(alone) == 2
            assert place.files("none") == {}


def test_marks_in_the_place_of_folders_are_no_reason_to_list_again(tmp_path: Path) -> None:
    asked = Requests(tmp_path / "requests")
    with s3_server(requests=asked.file) as options:
        folder = FilePlace("s3://lake/f", options)
        write_bytes(folder.below("a/1"), b"x", options)
        for mark in ("f/", "f/a/"):
            make_bucket(f"{options['AWS_ENDPOINT_URL']}/lake/{mark}")
        asked = asked.from_now()
        with one_look():
            assert len(folder.files()) == 3
            assert "s3://lake/f/a/1" in folder.files("a")
        assert asked.count() == {"LIST f/": 1}


def test_a_shared_handle_is_opened_again_where_the_table_has_changed(
    tmp_path: Path, place: TablePlace
) -> None:
    with shared_handles():
        first = place.existing()
        assert place.existing() is first
        append(place)
        second = place.existing()
        assert (first.version(), second.version()) == (1, 2)
        # Its own commit moves it.
        write_deltalake(second, pa.table({"n": [2]}), mode="append")
        assert place.existing() is second
        assert second.version() == 3
        assert place.at_version(0).version() == 0
        assert place.existing().version() == 3
        with own_handles():
            assert place.existing() is not second
        assert place.existing() is second
        shutil.rmtree(tmp_path / "t")
        assert place.open() is None
        append(place)
        assert place.existing().version() == 0
    assert place.existing() is not second


def test_a_look_is_a_part_of_the_run_whose_handles_it_shares(place: TablePlace) -> None:
    with shared_handles():
        with one_look():
            seen = place.existing()
            append(place)
            assert place.existing() is seen
            assert place.at_version(2).version() == 2
            assert place.existing() is seen
        assert place.existing().version() == 2
        with one_look():
            assert place.existing().version() == 2


def test_that_a_table_has_not_changed_costs_one_request_and_nothing_in_a_look(
    tmp_path: Path, place: TablePlace
) -> None:
    DeltaTable(place.uri).create_checkpoint()
    append(place)
    asked = Requests(tmp_path / "requests")
    with s3_server(requests=asked.file) as options:
        copy_to_store(tmp_path / "t", "s3://lake/t", options)
        there = TablePlace("s3://lake/t", options)
        with shared_handles():
            there.existing()
            asked = asked.from_now()
            there.existing()
            assert asked.count() == {"LIST t/_delta_log/": 1}
            with one_look():
                there.existing()
                there.existing()
            assert asked.count() == {"LIST t/_delta_log/": 2}
            append(there)
            assert there.existing().version() == 3
            assert there.at_version(1).version() == 1
            assert there.existing().version() == 3
            with pytest.raises(DeltaError):
                there.at_version(4)


def test_a_file_that_looks_list_as_it_was_is_read_once(tmp_path: Path) -> None:
    asked = Requests(tmp_path / "requests")
    with s3_server(requests=asked.file) as options:
        folder = FilePlace("s3://lake/f%20x", options)
        write_bytes(folder.below("a/1"), b"one", options)
        write_bytes(folder.below("a/2"), b"two", options)
        asked = asked.from_now()
        for content in (b"one", b"one", b"uno"):
            write_bytes(folder.below("a/1"), content, options)
            with one_look():
                folder.files()
                assert folder.read("a/1") == content
                assert folder.read("a/1") == content
                assert folder.read("a/2") == b"two"
        with one_look():
            assert folder.read("a/2") == b"two"
        kinds = asked.count()
    # Two of `a/1`, one of `a/2`; one without a listing.
    assert kinds["GET f x/a/"] == 2 + 1 + 1


def test_no_more_than_some_megabytes_are_kept_of_what_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_place, "_LARGEST_KEPT", 6)
    monkeypatch.setattr(file_place, "_MOST_KEPT", 10)
    monkeypatch.setattr(file_place, "_KEPT", {})
    asked = Requests(tmp_path / "requests")
    sizes = {"a": 6, "b": 4, "large": 7, "c": 1}
    with s3_server(requests=asked.file) as options:
        folder = FilePlace("s3://lake/f", options)
        for name, size in sizes.items():
            write_bytes(folder.below(name), size * b"x", options)
        asked = asked.from_now()
        for name in [*sizes, "b", "c", "a", "large"]:
            with one_look():
                folder.files()
                assert folder.read(name) == sizes[name] * b"x"
        kinds = asked.count()
    # `c` took the place of `a`.
    assert kinds["GET f/"] == 4 + 2
