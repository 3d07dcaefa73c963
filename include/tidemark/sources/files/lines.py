r"""The first lines of a file, for a look at it: by `\n`, those of a packed file unpacked."""

from __future__ import annotations

import io
from collections.abc import Iterator

from tidemark.errors import SampleUnusable
from tidemark.sources.files.codecs import FAULTS, ChunkFile, unpacked, why_not_read
from tidemark.storage.files import Options, read_chunks

LONGEST_LINE = 16 * 1024 * 1024


def read_lines(place: str, options: Options) -> Iterator[bytes]:
    r"""The lines of a file without their `\n`; no more is read of it than the caller takes.

    SampleUnusable where it cannot be read to its end, or a line is longer than LONGEST_LINE;
    FileMissing where it is not there.
    """
    if reason := why_not_read(place):
        raise SampleUnusable(f"{place} is not read here. {reason}.")
    lines = io.BufferedReader(ChunkFile(unpacked(place, read_chunks(place, options))))
    number = 0
    try:
        while line := lines.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                limit = f"{LONGEST_LINE // 1024**2} MiB"
                raise SampleUnusable(f"Line {number:,} of {place} is longer than {limit}.")
            yield line.removesuffix(b"\n")
    except FAULTS as error:
        raise SampleUnusable(f"{place} cannot be read beyond line {number:,}: {error}") from error
