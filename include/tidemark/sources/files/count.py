"""How many lines files have: counted in the files themselves, without a Spark job, which costs a
small run half a second."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from tidemark.errors import StorageUnavailable
from tidemark.sources.source import LineCount
from tidemark.storage.files import Options, read_chunks, stat_files

# Names of files that Spark's reader takes as they are; by others it may see a codec.
_PLAIN = {".json", ".jsonl", ".ndjson", ".log", ".txt"}
# More bytes than this are better counted by many tasks.
_MOST_BYTES = 2_000_000_000


def count_plain(uris: Sequence[str], options: Options, most: int = _MOST_BYTES) -> LineCount | None:
    """None where files are not plain text by their names, larger than `most` bytes together, or
    cannot be read: then Spark counts, and finds out which file is at fault.
    """
    if any(PurePosixPath(uri).suffix not in _PLAIN for uri in uris):
        return None
    facts = stat_files(uris, options).values()
    if sum(one.size if one else 0 for one in facts) > most:
        return None
    try:
        counts = [_count(uri, options) for uri in uris]
    except StorageUnavailable:
        return None
    return LineCount(sum(one.lines for one in counts), sum(one.bytes for one in counts))


def _count(uri: str, options: Options) -> LineCount:
    """A last line needs no end."""
    lines, size, last = 0, 0, b"\n"
    for chunk in read_chunks(uri, options):
        lines, size, last = lines + chunk.count(b"\n"), size + len(chunk), chunk[-1:] or last
    return LineCount(lines + (last != b"\n"), size)
