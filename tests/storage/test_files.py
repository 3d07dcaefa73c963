from __future__ import annotations

import threading
from datetime import UTC
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemark.errors import StorageUnavailable
from tidemark.storage.files import (
    FileInTheWay,
    FileMissing,
    copy_file,
    list_files,
    list_folder,
    read_bytes,
    read_end,
    remove_files,
    stat_files,
    write_bytes,
)


def test_what_is_written_is_read_back_and_its_folders_are_made(tmp_path: Path) -> None:
    place = f"{tmp_path}/a/b/c.json"
    write_bytes(place, b"one", {})
    write_bytes(place, b"two", {})
    assert read_bytes(place, {}) == b"two"
    assert Path(place).read_bytes() == b"two"


def test_a_copy_of_a_local_file_is_no_second_name_of_it(tmp_path: Path) -> None:
    file, copy = tmp_path / "one", tmp_path / "folder/two"
    file.write_bytes(b"as it was")
    copy_file(str(file), str(copy), {})
    with file.open("r+b") as opened:
        opened.write(b"in place!")
    assert copy.read_bytes() == b"as it was"
    with pytest.raises(FileMissing):
        copy_file(f"{tmp_path}/none", str(copy), {})


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(["a b.json", "x+%20ü.json", "#h", "p~[1]*.json", "a%2Fb", "q?x=1", "日本"])
)
def test_a_file_of_any_name_is_found_by_path_and_by_uri(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    folder = tmp_path_factory.mktemp("files")
    (folder / name).write_bytes(b"x")
    path, uri = f"{folder}/{name}", f"file://{folder}/{quote(name)}"
    assert read_bytes(path, {}) == read_bytes(uri, {}) == b"x"
    assert list(list_files(str(folder), {})) == [path]
    assert list(list_files(f"file://{folder}", {})) == [uri]
    facts = stat_files([path, uri], {})
    assert facts[path] == facts[uri]


def test_facts_are_those_of_the_file_system(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"12345")
    missing = str(tmp_path / "none")
    facts = stat_files([str(file), missing, str(file)], {})
    assert list(facts) == [str(file), missing]
    found = facts[str(file)]
    assert found is not None
    assert found.size == 5
    assert found.modified.tzinfo is UTC or found.modified.utcoffset() is not None
    assert abs(found.modified.timestamp() - file.stat().st_mtime) < 0.001
    assert facts[missing] is None


@pytest.mark.parametrize(("length", "end"), [(1, b"d"), (3, b"bcd"), (4, b"abcd"), (9, b"abcd")])
def test_the_end_of_a_file_is_read_alone(tmp_path: Path, length: int, end: bytes) -> None:
    write_bytes(f"{tmp_path}/a", b"abcd", {})
    assert read_end(f"{tmp_path}/a", 4, length, {}) == end


def test_files_are_listed_at_any_depth_and_none_where_no_folder_is(tmp_path: Path) -> None:
    for name in ("a.json", "b/c.json", "b/d/e.json"):
        write_bytes(f"{tmp_path}/in/{name}", b"x", {})
    write_bytes(f"{tmp_path}/inner/other.json", b"x", {})
    found = list_files(f"{tmp_path}/in", {})
    assert sorted(found) == [
        f"{tmp_path}/in/{name}" for name in ("a.json", "b/c.json", "b/d/e.json")
    ]
    assert list_files(f"{tmp_path}/none", {}) == {}


def test_a_folder_is_looked_at_without_what_is_below_it(tmp_path: Path) -> None:
    write_bytes(f"{tmp_path}/a b%/one/two", b"", {})
    write_bytes(f"{tmp_path}/.hidden", b"", {})
    assert list_folder(str(tmp_path), {}) == {"a b%": True, ".hidden": False}
    assert list_folder(tmp_path.as_uri(), {}) == {"a b%": True, ".hidden": False}
    assert list_folder(f"{tmp_path}/none", {}) == {}


def test_files_are_removed_and_one_that_is_gone_is_no_error(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_bytes(b"x")
    remove_files([f"{tmp_path}/{name}" for name in ("a", "none", "b")], {})
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_of_many_writers_that_create_a_file_one_succeeds(tmp_path: Path) -> None:
    place, won, lost = f"{tmp_path}/lease", [], []
    start = threading.Barrier(8)

    def create(number: int) -> None:
        start.wait()
        try:
            write_bytes(place, str(number).encode() * 10_000, {}, create_only=True)
            won.append(number)
        except FileInTheWay:
            lost.append(number)

    writers = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(won) == 1
    assert len(lost) == 7
    assert read_bytes(place, {}) == str(won[0]).encode() * 10_000


def test_a_write_never_shows_half_a_file(tmp_path: Path) -> None:
    place = f"{tmp_path}/result.json"
    write_bytes(place, b"0" * 3_000_000, {})
    seen: set[bytes] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            content = read_bytes(place, {})
            seen.add(content[:1] + content[-1:] + str(len(content)).encode())

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(1, 10):
        write_bytes(place, str(number).encode() * 3_000_000, {})
    done.set()
    reader.join()
    assert seen <= {str(n).encode() * 2 + b"3000000" for n in range(10)}


def test_a_place_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(FileMissing, match="none could not be read: there is no such file"):
        read_bytes(f"{tmp_path}/none", {})
    with pytest.raises(StorageUnavailable, match="file/below could not be written"):
        write_bytes(f"{tmp_path}/file/below", b"x", {})
    with pytest.raises(StorageUnavailable, match="nowhere://b/x could not be reached"):
        read_bytes("nowhere://b/x", {})
    assert StorageUnavailable.retry_can_help


@pytest.mark.long
def test_a_store_that_does_not_answer_is_named_without_its_secrets() -> None:
    options = {
        "AWS_REGION": "x",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ALLOW_HTTP": "true",
    }
    options |= {"AWS_ACCESS_KEY_ID": "AKIA-KEY", "AWS_SECRET_ACCESS_KEY": "s3cr3t-words"}
    with pytest.raises(StorageUnavailable, match="s3a://b/x could not be read") as raised:
        read_bytes("s3a://b/x", options)
    assert "s3cr3t" not in str(raised.value)
