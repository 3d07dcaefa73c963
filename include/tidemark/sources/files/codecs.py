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
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

_CHUNK = 8 * 1024 * 1024
# Ends of names whose packing nothing here reads.
_NOT_READ = (".snappy", ".lzo", ".sz", ".xz", ".br", ".zip", ".7z", ".tar", ".tgz", ".z")
_ARROW = {".zst": "zstd", ".lz4": "lz4"}
PACKED = (".gz", ".bz2", ".deflate", *_ARROW)
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
    """The bytes in pieces. Raises one of FAULTS where they are not packed as the name says."""
    name = place.lower()
    if not name.endswith(PACKED):
        return chunks
    return _read(_opened(name, ChunkFile(chunks)))


def _opened(name: str, packed: io.RawIOBase) -> BinaryIO:
    buffered = io.BufferedReader(packed, _CHUNK)
    if name.endswith(".gz"):
        return cast(BinaryIO, gzip.GzipFile(fileobj=buffered))
    if name.endswith(".bz2"):
        return cast(BinaryIO, bz2.BZ2File(buffered))
    if name.endswith(".deflate"):
        return cast(BinaryIO, io.BufferedReader(_Inflated(cast(BinaryIO, buffered)), _CHUNK))
    # Loaded where it is needed: a Dag file reads this module too.
    import pyarrow as pa

    codec: Any = next(codec for ending, codec in _ARROW.items() if name.endswith(ending))
    return cast(BinaryIO, pa.CompressedInputStream(pa.PythonFile(buffered, "r"), codec))


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
        self._rest = self._rest or next(self._chunks, b"")
        taken = self._rest[: len(buffer)]
        buffer[: len(taken)] = taken
        self._rest = self._rest[len(taken) :]
        return len(taken)


class _Inflated(io.RawIOBase):
    """Hadoop's `.deflate`: the format of zlib, which has no file class of its own."""

    def __init__(self, packed: BinaryIO) -> None:
        self._packed = packed
        self._zlib = zlib.decompressobj()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while not self._zlib.eof:
            data = self._zlib.unconsumed_tail or self._packed.read(64 * 1024)
            if not data:
                raise EOFError("it ends before its end of stream")
            if out := self._zlib.decompress(data, len(buffer)):
                buffer[: len(out)] = out
                return len(out)
        return 0
