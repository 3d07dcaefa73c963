"""Packed files, every codec, spoiled anywhere: all of their rows, or an error. Never some rows."""

from __future__ import annotations

from base64 import b64decode
from itertools import accumulate
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sources.packers import PACKERS
from tidemark.pipeline.model import FilesSource
from tidemark.sources.files.codecs import FAULTS, PACKED, unpacked
from tidemark.sources.files.first_lines import copy_first_lines

JSON_LINES = FilesSource.model_construct(format="json_lines", columns={})
ONE, MANY = b'{"n":1}\n', b"\n".join(b'{"n":%d}' % n for n in range(1, 41))
# What the tools `zstd` 1.5 and `lz4` 1.9 make of them: with a sum of the content, which Arrow's
# packers leave out.
BY_TOOLS = {
    ".zst": {
        b"": "KLUv/SQAAQAAmenYUQ==",
        ONE: "KLUv/QRYQQAAeyJuIjoxfQozFZs8",
        MANY: "KLUv/QRY1QMAdAN7Im4iOjF9CnsibiI6MjM0NTY3ODkxMDExMTExMTExMTIyMjIyMjIyMjIzMzMzMzMzMzMz"
        "NDB9JiCAk9IDRMgljAhyhCVCDmFEkCMMEXKEJUIOYUQm10kYJ5FNcpqEZRLBJHdJmCWRSnIJGTOTJZ/MssgH"
        "MrssKgH4gJoi",
    },
    ".lz4": {
        b"": "BCJNGGRApwAAAAAFXcwC",
        ONE: "BCJNGGRApwgAAIB7Im4iOjF9CgAAAADoFg5L",
        MANY: "BCJNGGRAp6wAAACBeyJuIjoxfQoIABMyCAATMwgAEzQIABM1CAATNggAEzcIABM4CAATOQgAJDEwCQAEUg"
        "AUMVMAFDFUABQxVQAUMVYAFDFXABQxWAAUMVkAFDFaABQyWgAUMloAFDJaABQyWgAUMloAFDJaABQyWgAUMloA"
        "FDJaABQyWgAUM1oAFDNaABQzWgAUM1oAFDNaABQzWgAUM1oAFDNaABQzWgDAMzl9CnsibiI6NDB9AAAAANpI0VM=",
    },
}


def stream_of(ending: str, content: bytes) -> bytes:
    known = BY_TOOLS.get(ending)
    return b64decode(known[content]) if known else PACKERS[ending](content)


def read(ending: str, packed: bytes, piece: int) -> bytes | None:
    """What is read of a file that comes in pieces of this size; None where that is an error."""
    pieces = (packed[at : at + piece] for at in range(0, len(packed), piece))
    try:
        return b"".join(unpacked(f"a.json{ending}", pieces))
    except FAULTS:
        return None


def expected(contents: list[bytes], streams: list[bytes], cut: int) -> bytes | None:
    """What the first `cut` bytes hold: whole streams, or one that is cut, which is an error."""
    ends = list(accumulate(map(len, streams), initial=0))
    return b"".join(contents[: ends.index(cut)]) if cut in ends else None


def test_each_codec_has_a_packer() -> None:
    assert set(PACKERS) == set(PACKED)


contents = st.lists(st.sampled_from([b"", ONE, MANY]), min_size=1, max_size=4)
pieces = st.sampled_from([1, 7, 1_000])


@pytest.mark.parametrize("ending", PACKERS)
@given(data=st.data(), contents=contents, piece=pieces)
def test_streams_behind_each_other_are_all_read_or_none_where_the_last_is_cut(
    ending: str, data: st.DataObject, contents: list[bytes], piece: int
) -> None:
    streams = [stream_of(ending, content) for content in contents]
    whole = b"".join(streams)
    assert read(ending, whole, piece) == b"".join(contents)
    cut = data.draw(st.integers(1, len(whole)), "cut")
    assert read(ending, whole[:cut], piece) == expected(contents, streams, cut)


@pytest.mark.parametrize("ending", PACKERS)
@given(contents=contents, piece=pieces, behind=st.binary(min_size=1, max_size=20))
def test_bytes_behind_the_last_stream_are_an_error(
    ending: str, contents: list[bytes], piece: int, behind: bytes
) -> None:
    whole = b"".join(stream_of(ending, content) for content in contents)
    # Zeros behind a gzip file are padding, as its tool has it.
    padded = ending == ".gz" and not behind.strip(b"\0")
    assert read(ending, whole + behind, piece) == (b"".join(contents) if padded else None)


@pytest.mark.parametrize("ending", PACKERS)
@given(data=st.data(), contents=contents, piece=pieces, bit=st.integers(0, 7))
def test_a_damaged_byte_is_an_error_or_costs_no_row(
    ending: str, data: st.DataObject, contents: list[bytes], piece: int, bit: int
) -> None:
    whole = bytearray(b"".join(stream_of(ending, content) for content in contents))
    whole[data.draw(st.integers(0, len(whole) - 1), "at")] ^= 1 << bit
    assert read(ending, bytes(whole), piece) in (None, b"".join(contents))


@pytest.mark.parametrize("ending", [*PACKERS, ".GZ", ".gz.bz2"])
def test_copied_first_lines_are_read_as_plain_ones_whatever_packed_the_file(
    tmp_path: Path, ending: str
) -> None:
    file = tmp_path / f"a.json{ending}"
    pack = PACKERS[f".{ending.rpartition('.')[2].lower()}"]
    file.write_bytes(pack(ONE) + pack(ONE))
    taken = copy_first_lines(JSON_LINES, [str(file)], {}, 10, 10**6, tmp_path / "copies")
    assert (taken.rows, taken.notes) == (2, ())
    (copy,) = (path for path in (tmp_path / "copies").rglob("*") if path.is_file())
    assert b"".join(unpacked(str(copy), iter([copy.read_bytes()]))) == ONE * 2


@pytest.mark.slow
@pytest.mark.parametrize("ending", PACKERS)
def test_what_is_larger_than_any_buffer_is_read_whole_or_not_at_all(ending: str) -> None:
    random = Random(7)
    contents = [
        b"x" * 12_000_000,
        b"",
        random.randbytes(300_000),
        b"".join(b'{"n":%d}\n' % n for n in range(100_000)),
    ]
    streams = [PACKERS[ending](content) for content in contents]
    whole = b"".join(streams)
    assert read(ending, whole, 100_000) == b"".join(contents)
    for end in accumulate(map(len, streams)):
        for cut in (end - 9, end - 1, end, end + 1, end + 9):
            if cut <= len(whole):
                assert read(ending, whole[:cut], 100_000) == expected(contents, streams, cut), cut
    assert read(ending, whole + b"more", 100_000) is None
