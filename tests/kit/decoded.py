"""A search for a value in all files below a folder, listed by a table or not: as they are, and as
what they hold once decoded."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

_LZ4_BLOCK = b"LZ4Block"
_GZIP, _ZSTD, _ZIP = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04"


def files_holding(root: Path, value: str) -> list[str]:
    """The files below a folder that hold a value, by their names from the folder on."""
    wanted = value.encode()
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return [
        path.relative_to(root).as_posix()
        for path in files
        if wanted in path.name.encode() or any(wanted in one for one in decoded(path.read_bytes()))
    ]


def decoded(data: bytes) -> Iterator[bytes]:
    """The bytes, and what they are in the forms that are known here. What LZ4 and Snappy have not
    seen before stands in their blocks as it is, RocksDB's among them."""
    yield data
    if data[:4] == b"PAR1":
        yield from _of_parquet(data)
    elif data.startswith(_ZIP):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name in archive.namelist():
                yield name.encode()
                yield from decoded(archive.read(name))
    elif data.startswith(_GZIP):
        yield from decoded(gzip.decompress(data))
    elif data.startswith(_ZSTD):
        yield pa.CompressedInputStream(pa.py_buffer(data), "zstd").read()
    elif _LZ4_BLOCK in data:
        yield b"".join(_of_lz4_blocks(data))
    with suppress(ValueError):
        # A text in a text, as statistics are in a log, has its quotes escaped.
        yield from (_plain(json.loads(line)).encode() for line in data.splitlines())


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{name}\n{_plain(of)}" for name, of in value.items())
    if isinstance(value, list):
        return "\n".join(map(_plain, value))
    return str(value)


def _of_parquet(data: bytes) -> Iterator[bytes]:
    file = pq.ParquetFile(io.BytesIO(data))
    yield repr(file.read().to_pylist()).encode()
    yield repr(file.metadata.to_dict()).encode()


def _of_lz4_blocks(data: bytes) -> Iterator[bytes]:
    """As Spark frames what it compresses: name, kind, size here, size decoded, checksum, block."""
    codec, at = pa.Codec("lz4_raw"), data.find(_LZ4_BLOCK)
    while at >= 0:
        kind = data[at + 8] & 0xF0
        size, whole = (int.from_bytes(data[at + n : at + n + 4], "little") for n in (9, 13))
        block = data[at + 21 : at + 21 + size]
        yield bytes(codec.decompress(block, whole)) if kind == 0x20 else block
        at = data.find(_LZ4_BLOCK, at + 21 + size)
