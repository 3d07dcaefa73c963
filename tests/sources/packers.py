"""Content, packed as the end of a file's name says."""

from __future__ import annotations

import bz2
import gzip
import zlib
from collections.abc import Callable

import pyarrow as pa


def by_arrow(codec: str) -> Callable[[bytes], bytes]:
    def packed(data: bytes) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, codec) as stream:
            stream.write(data)
        return sink.getvalue().to_pybytes()

    return packed


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda data: gzip.compress(data, mtime=0),
    ".bz2": bz2.compress,
    ".deflate": zlib.compress,
    ".zst": by_arrow("zstd"),
    ".lz4": by_arrow("lz4"),
}
