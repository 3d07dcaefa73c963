"""The lines of a file as the ingest splits it: by `\\n`, those of a `.gz` decompressed."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator

from tidemark.errors import SampleUnusable
from tidemark.storage.files import Options, read_chunks

LONGEST_LINE = 16 * 1024 * 1024
# Spark reads these too; nothing here does.
_OTHER_CODECS = (".bz2", ".zst", ".lz4", ".snappy", ".deflate")


def read_lines(place: str, options: Options) -> Iterator[bytes]:
    """The lines of a file without their `\\n`; no more is read of it than the caller takes.

    SampleUnusable where it cannot be read to its end, or a line is longer than LONGEST_LINE;
    FileMissing where it is not there.
    """
    if place.endswith(_OTHER_CODECS):
        raise SampleUnusable(f"{place} is neither plain nor gzip, and is not read here.")
    chunks = io.BufferedReader(_Chunks(read_chunks(place, options)))
    lines = gzip.GzipFile(fileobj=chunks) if place.endswith(".gz") else chunks
    number = 0
    try:
        while line := lines.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                limit = f"{LONGEST_LINE // 1024**2} MiB"
                raise SampleUnusable(f"Line {number:,} of {place} is longer than {limit}.")
            yield line.removesuffix(b"\n")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise SampleUnusable(f"{place} cannot be read beyond line {number:,}: {error}") from error


class _Chunks(io.RawIOBase):
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
