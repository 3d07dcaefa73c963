"""Was a compressed file of state written to its end?

The engine compresses deltas, HDFS-backed snapshots and changelogs, by default with LZ4, whose
stream (LZ4BlockOutputStream) ends with a block of no bytes: its magic, a byte that names the
method, and three zeros of four bytes each. Which codec it is stands in the offset log.
"""

from __future__ import annotations

from collections.abc import Mapping

_CODEC = "spark.sql.streaming.stateStore.compression.codec"
_MAGIC = b"LZ4Block"
_ZEROS = bytes(12)
LZ4_END = len(_MAGIC) + 1 + len(_ZEROS)


def is_lz4(conf: Mapping[str, str]) -> bool:
    """Does the recorded configuration say that state is compressed with LZ4?"""
    return conf.get(_CODEC) == "lz4"


def ends_as_lz4(end: bytes) -> bool:
    """Are the last LZ4_END bytes of a file the block that ends a stream?"""
    return len(end) == LZ4_END and end.startswith(_MAGIC) and end.endswith(_ZEROS)
