"""What packs a file, by the end of its name, and its bytes unpacked.

Spark's reader decides by the name too (Hadoop's class CompressionCodecFactory), but its readers of
`.zst`, `.lz4` and `.snappy` need native code or expect Hadoop's own framing, and end without a
word. Here Zstandard and LZ4 are read as their own tools write them.
"""

from __future__ import annotations

import bz2
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, cast

from tidemark.pipeline.source_files import PACKED

_CHUNK = 8 * 1024 * 1024
# So much of a packed file is given to a decoder of streams at once.
_PACKED_CHUNK = 64 * 1024
# Ends of names whose packing nothing here reads.
_NOT_READ = (".snappy", ".lzo", ".sz", ".xz", ".br", ".zip", ".7z", ".tar", ".tgz", ".z")
_ARROW = {".zst": "zstd", ".lz4": "lz4"}
# What the readers say of bytes that are not packed as the name says, or end too early.
# ValueError: Arrow's.
FAULTS = (gzip.BadGzipFile, EOFError, zlib.error, OSError, ValueError)


def is_packed(place: str) -> bool:
    """Must the file be read from its beginning?"""
    return place.lower().endswith((*PACKED, *_NOT_READ))


def why_not_read(place: str) -> str | None:
    """What is said of a file whose packing is not read; None: it is read."""
    name = place.rpartition("/")[2].lower()
    for ending in _NOT_READ:
        if name.endswith(ending):
            packed = ", ".join(PACKED)
            return f"Its name ends with {ending}, which is not read: land it plain, or as {packed}"
    return None


def unpacked(place: str, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The bytes in pieces, of a packed file those of all its streams. Raises one of FAULTS where
    they are not packed as the name says, the last stream is cut, or other bytes lie behind it."""
    name = place.lower()
    if not name.endswith(PACKED):
        return chunks
    packed: Any = io.BufferedReader(ChunkFile(chunks), _CHUNK)
    # Neither zlib nor Python's BZ2File, which takes what it cannot read behind a stream for
    # nothing, reads several streams to their end.
    if name.endswith(".bz2"):
        return _streams(packed, bz2.BZ2Decompressor, _out_of_bz2)
    if name.endswith(".deflate"):
        return _streams(packed, zlib.decompressobj, _out_of_zlib)
    return _read(_opened(name, packed))


def _opened(name: str, packed: Any) -> BinaryIO:
    if name.endswith(".gz"):
        return cast(BinaryIO, gzip.GzipFile(fileobj=packed))
    # Loaded where it is needed: a Dag file reads this module too.
    import pyarrow as pa

    codec: Any = next(codec for ending, codec in _ARROW.items() if name.endswith(ending))
    return cast(BinaryIO, pa.CompressedInputStream(pa.PythonFile(packed, "r"), codec))


def _read(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK):
        yield chunk


class ChunkFile(io.RawIOBase):
    """A file's pieces as a stream."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        # No bytes would be its end, and a piece may have none.
        self._rest = self._rest or next(filter(None, self._chunks), b"")
        taken = self._rest[: len(buffer)]
        buffer[: len(taken)] = taken
        self._rest = self._rest[len(taken) :]
        return len(taken)


def _streams(
    packed: BinaryIO, begin: Callable[[], Any], out_of: Callable[[Any, bytes], Iterator[bytes]]
) -> Iterator[bytes]:
    """Streams behind each other, each to its end; what follows one begins the next."""
    stream, rest = begin(), b""
    while data := rest or packed.read(_PACKED_CHUNK):
        if stream.eof:
            stream = begin()
        yield from out_of(stream, data)
        rest = stream.unused_data
    if not stream.eof:
        raise EOFError("it ends before its end of stream")


def _out_of_zlib(stream: Any, data: bytes) -> Iterator[bytes]:
    while data and not stream.eof:
        yield stream.decompress(data, _CHUNK)
        data = stream.unconsumed_tail


def _out_of_bz2(stream: Any, data: bytes) -> Iterator[bytes]:
    yield stream.decompress(data, _CHUNK)
    while not (stream.eof or stream.needs_input):
        yield stream.decompress(b"", _CHUNK)
