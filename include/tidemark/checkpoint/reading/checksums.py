"""The checksum files beside a checkpoint's files.

`.NAME.crc` is what Hadoop's ChecksumFileSystem keeps of every local file; it reads no file whose
bytes do not match. `NAME.crc` is ChecksumCheckpointFileManager's, which state stores of Spark 4.1
or later may write.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Container, Iterable, Iterator

from tidemark.checkpoint.reading.log_formats import in_format, json_object
from tidemark.storage.json_text import long

_MAGIC = b"crc\0"
_HEADER = 8


def twin_of(name: str) -> str:
    """Where Hadoop's checksum of a local file lies."""
    folder, slash, last = name.rpartition("/")
    return f"{folder}{slash}.{last}.crc"


def after_checksums(names: Iterable[str], known: Container[str]) -> Iterator[str]:
    """Each file after those of its checksums that are `known`: removed in this order, and killed in
    between, no checksum is left behind without its file."""
    for name in names:
        own = f"{name}.crc"
        yield from (one for one in (twin_of(own), own, twin_of(name)) if one in known)
        yield name


def matches_twin(data: bytes, twin: bytes) -> bool:
    """Does a file match its `.NAME.crc`? True where that is none that Hadoop's class writes."""
    if len(twin) < _HEADER or not twin.startswith(_MAGIC):
        return True
    (chunk,) = struct.unpack(">i", twin[len(_MAGIC) : _HEADER])
    if chunk <= 0:
        return True
    sums = [zlib.crc32(data[at : at + chunk]) for at in range(0, len(data), chunk)]
    return twin[_HEADER:] == struct.pack(f">{len(sums)}I", *sums)


def recorded_size(data: bytes) -> int:
    """The size of a file by its checksum of ChecksumCheckpointFileManager; the sum itself is not
    computed here. NotTheFormat where it is none."""
    value = json_object(data.decode(errors="replace"))
    with in_format("no mainFileSize"):
        return long(value["mainFileSize"])
