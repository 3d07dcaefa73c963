"""A file's lines by slices: the same wherever it is cut, however it is packed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sources.packers import PACKERS
from tidemark.errors import SourceChanging
from tidemark.sources.files.slices import FileSlice, file_slices
from tidemark.sources.source import PartUnreadable
from tidemark.storage import files
from tidemark.storage.files import stat_files

CONTENTS = (
    b"", b"\n", b"\n\n", b"a", b"a\n", b"a\nbb\n\nccc", b"a\r\nb\r\n", b"\n\na", b"\xff\n\xfe\n",
    b"\xef\xbb\xbfa\nb\n\xef\xbb\xbfc",
    "ä\n€\n😀".encode(), b"x" * 40 + b"\n" + b"y" * 3 + b"\n" + b"z" * 50,
)  # fmt: skip


def lines_of(content: bytes) -> list[bytes]:
    """What a file's lines are: the last one needs no end, a mark at its start is none of them."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    return content.removesuffix(b"\n").split(b"\n") if content else []


def landed(folder: Path, content: bytes, name: str = "a.json") -> str:
    file = folder / name
    file.write_bytes(content)
    return file.as_uri()


def slices_of(uri: str, most: int) -> list[FileSlice]:
    facts = {place: found for place, found in stat_files([uri], {}).items() if found}
    return file_slices(facts, {}, most)


def read(slices: list[FileSlice]) -> list[bytes]:
    return [row["_value"] for row in rows(slices)]


def rows(slices: list[FileSlice], most_bytes: int = 10**9) -> list[dict[str, Any]]:
    pieces = [piece for one in slices for piece in one.lines(most_bytes)]
    return [row for piece in pieces for row in piece.to_pylist()]


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 1_000])
@pytest.mark.parametrize("content", CONTENTS)
def test_lines_are_the_same_with_cuts_at_every_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, chunk: int
) -> None:
    monkeypatch.setattr(files, "_CHUNK", chunk)
    uri = landed(tmp_path, content)
    for most in range(1, len(content) + 2):
        assert read(slices_of(uri, most)) == lines_of(content), most


@given(
    content=st.binary(max_size=60).map(lambda data: data.replace(b"\0", b"\n")),
    most=st.integers(1, 70),
    chunk=st.integers(1, 20),
)
def test_each_line_of_random_bytes_is_in_one_slice(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, most: int, chunk: int
) -> None:
    uri = landed(tmp_path_factory.mktemp("slices"), content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_CHUNK", chunk)
        assert read(slices_of(uri, most)) == lines_of(content)


@pytest.mark.parametrize("most_bytes", [5, 10**9])
@given(
    content=st.binary(max_size=60).map(lambda data: data.replace(b"\0", b"\n")),
    has_mark=st.booleans(),
    most=st.integers(1, 70),
    chunk=st.integers(1, 20),
)
def test_the_place_of_a_line_is_the_byte_at_which_it_begins(
    tmp_path_factory: pytest.TempPathFactory,
    most_bytes: int,
    content: bytes,
    has_mark: bool,
    most: int,
    chunk: int,
) -> None:
    content = b"\xef\xbb\xbf" * has_mark + content
    uri = landed(tmp_path_factory.mktemp("slices"), content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_CHUNK", chunk)
        found = rows(slices_of(uri, most), most_bytes)
    for row, line in zip(found, lines_of(content), strict=True):
        place = row["_place"]
        assert content[place : place + len(line)] == line
        assert content[place + len(line) : place + len(line) + 1] in (b"", b"\n")
    places = [row["_place"] for row in found]
    assert places == sorted(set(places))


@pytest.mark.parametrize("ending", PACKERS)
def test_a_packed_file_is_one_slice_with_the_lines_that_were_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setattr(files, "_CHUNK", 100)
    content = b"".join(b'{"n":%d}\n' % n for n in range(2_000))
    uri = landed(tmp_path, PACKERS[ending](content), f"a.json{ending}")
    assert read(slices_of(uri, 50)) == lines_of(content)
    # As if it were not packed.
    places = [row["_place"] for row in rows(slices_of(uri, 50))]
    assert [content[place:].partition(b"\n")[0] for place in places] == lines_of(content)
    assert len(slices_of(uri, 50)) == 1


@pytest.mark.parametrize("ending", PACKERS)
@pytest.mark.parametrize("spoil", ["cut", "other bytes"])
def test_a_packed_file_that_is_spoiled_cannot_be_read(
    tmp_path: Path, ending: str, spoil: str
) -> None:
    packed = PACKERS[ending](os.urandom(50_000))
    content = packed[:-20] if spoil == "cut" else b"plain text, which is not packed\n"
    uri = landed(tmp_path, content, f"a.json{ending}")
    with pytest.raises(PartUnreadable) as error:
        read(slices_of(uri, 50))
    assert error.value.part == uri
    assert "cannot be read to its end" in error.value.cause


@pytest.mark.parametrize("ending", [".snappy", ".xz", ".zip"])
def test_a_file_whose_packing_is_not_read_is_told_by_its_name(tmp_path: Path, ending: str) -> None:
    uri = landed(tmp_path, b"{}\n", f"a.json{ending}")
    with pytest.raises(PartUnreadable, match=f"ends with {ending}, which is not read"):
        read(slices_of(uri, 50))


def test_a_file_that_is_gone_cannot_be_read(tmp_path: Path) -> None:
    uri = landed(tmp_path, b"a\nb\n")
    planned = slices_of(uri, 50)
    (tmp_path / "a.json").unlink()
    with pytest.raises(PartUnreadable, match="gone between listing and reading"):
        read(planned)


@pytest.mark.parametrize("change", ["longer", "another time"])
def test_a_file_that_changed_since_it_was_planned_is_an_error(tmp_path: Path, change: str) -> None:
    uri = landed(tmp_path, b"a\nb\n")
    planned = slices_of(uri, 50)
    file = tmp_path / "a.json"
    if change == "longer":
        file.write_bytes(b"a\nb\nc\n")
    else:
        os.utime(file, (1, 1))
    with pytest.raises(SourceChanging, match="Land files whole"):
        read(planned)


def test_a_line_knows_its_file(tmp_path: Path) -> None:
    uri = landed(tmp_path, b"a\nb\n")
    (piece,) = slices_of(uri, 50)[0].lines(10**9)
    assert piece["_file"].to_pylist() == [uri, uri]
