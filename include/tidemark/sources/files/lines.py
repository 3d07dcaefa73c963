"""The first records of a file, for a look at it: as a run reads them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from tidemark.errors import SampleUnusable
from tidemark.pipeline.model import FilesSource
from tidemark.sources.formats.formats import slices_of
from tidemark.sources.source import PartUnreadable
from tidemark.storage.files import FileMissing, Options, stat_files

if TYPE_CHECKING:
    import pyarrow as pa


def first_lines(
    source: FilesSource, place: str, options: Options, most: int, most_bytes: int
) -> Iterator[pa.Table]:
    """At most so many records, in pieces, in the columns of `Slice.lines`; hardly more is read.

    SampleUnusable where these cannot be read; FileMissing where the file is not there.
    """
    facts = stat_files([place], options)[place]
    if facts is None:
        raise FileMissing(f"{place} could not be read: there is no such file.")
    number = 0
    try:
        slices = slices_of(source, {place: facts}, options)
        for piece in chain.from_iterable(one.lines(most_bytes) for one in slices):
            yield piece.slice(0, most - number)
            number += len(piece)
            if number >= most:
                return
    except PartUnreadable as error:
        message = f"{place} cannot be read beyond line {number:,}: {error.cause}."
        raise SampleUnusable(message) from error
