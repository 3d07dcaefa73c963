r"""A file's lines, cut into slices: plain files by bytes, at line ends; packed files whole.

A line ends with `\n`; the last one of a file needs no end. A slice has the lines that begin within
its bytes, so that each line is in one slice wherever the cuts are.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from tidemark.errors import SourceChanging
from tidemark.judge.arrow import Array
from tidemark.judge.arrow import kernels as pc
from tidemark.pipeline.instants import epoch_ms
from tidemark.sources.files.codecs import FAULTS, is_packed, unpacked, why_not_read
from tidemark.sources.large_lines import LargeLine, LineColumns, bounded
from tidemark.sources.source import PLACE, PartUnreadable, Slice, check_is_of_the_part
from tidemark.storage.files import FileFacts, FileMissing, Options, open_file

GONE = "It was gone between listing and reading"
# A plain file is cut so that several processes share a large one.
SLICE_BYTES = 32 * 1024 * 1024
# So many times as large is a packed file's text, as a rule.
_UNPACKED = 10


@dataclass(frozen=True)
class FileSlice(Slice):
    """Bytes `start` to `end` of a file, which was of this size and time when it was planned."""

    part: str
    start: int
    end: int
    size: int
    modified_ms: int
    options: Options

    @property
    def label(self) -> str:
        return self.part if self.start == 0 else f"{self.part} from byte {self.start:,} on"

    @property
    def estimated_bytes(self) -> int:
        own = self.end - self.start
        return own * _UNPACKED if is_packed(self.part) else own

    def lines(self, most_bytes: int) -> Iterator[pa.Table]:
        for columns, places in self._pieces(most_bytes):
            yield pa.table({**columns, **of_file(self.part, places)})

    def _pieces(self, most: int) -> Iterator[tuple[LineColumns, Any]]:
        """Lines, and the byte at which each begins, as NumPy's numbers."""
        number = 0
        # One byte earlier: a line that begins at `start` is told by the end before it.
        first, planned = max(0, self.start - 1), (self.size, self.modified_ms)
        with planned_file(self.part, first, planned, self.options) as data:
            begin, chunks = self._own_bytes(data)
            for piece in _at_line_ends(chunks, most):
                if isinstance(piece, LargeLine):
                    columns, sizes = piece.columns(self._name(number), most), np.array([piece.size])
                else:
                    lines = split_lines(piece)
                    columns = bounded(lines, most, self._names(number))
                    sizes = pc.binary_length(lines).to_numpy()
                ends = begin + np.cumsum(sizes + 1, dtype=np.int64)
                yield columns, ends - sizes - 1
                number, begin = number + len(sizes), int(ends[-1])

    def _name(self, number: int) -> str:
        """What the slice's line of this number, from 0, is called."""
        if self.start:
            return f"Line {number + 1:,} of those that begin at byte {self.start:,} or later"
        return f"Line {number + 1:,}"

    def _names(self, before: int) -> Callable[[int], str]:
        return lambda place: self._name(before + place)

    def _own_bytes(self, chunks: Iterator[bytes]) -> tuple[int, Iterator[bytes]]:
        """The byte at which the slice's first line begins, and the bytes from there to the end of
        its last one. A byte order mark at the file's start is no part of a line."""
        begin, data = max(0, self.start - 1), b""
        if self.start == 0:
            for chunk in chunks:
                data += chunk
                if len(data) >= len(BOM_UTF8):
                    break
            begin = len(BOM_UTF8) if data.startswith(BOM_UTF8) else 0
            data = data.removeprefix(BOM_UTF8)
        for chunk in chunks if self.start else ():
            cut = chunk.find(b"\n") + 1
            begin += cut or len(chunk)
            data = chunk[cut:] if cut else b""
            if begin >= self.end:
                return begin, iter(())
            if cut:
                break
        own = chain([data], chunks)
        return begin, own if is_packed(self.part) else self._to_end(begin, own)

    def _to_end(self, begin: int, chunks: Iterator[bytes]) -> Iterator[bytes]:
        position = begin
        for data in chunks:
            # The last own line ends at the first end of a line from the last own byte on.
            stop = data.find(b"\n", max(0, self.end - 1 - position))
            if stop >= 0:
                yield data[: stop + 1]
                return
            yield data
            position += len(data)


@contextmanager
def planned_file(
    part: str, start: int, planned: tuple[int, int], options: Options
) -> Iterator[Iterator[bytes]]:
    """A file's bytes from one on, unpacked. PartUnreadable, SourceChanging and StorageUnavailable
    as `Slice.lines`: it has to be of the planned size and time (in milliseconds) when it is opened,
    and after reading; whoever closes early is not told."""
    if reason := why_not_read(part):
        raise PartUnreadable(part, reason)
    try:
        with open_file(part, start, options) as opened:
            _check(part, opened.facts(), planned)
            try:
                yield unpacked(part, opened.chunks)
            except Exception:
                # What is half written cannot be read either, and may be whole at the next try.
                _check(part, opened.facts(), planned)
                raise
            _check(part, opened.facts(), planned)
    except FileMissing as error:
        raise PartUnreadable(part, GONE) from error
    except FAULTS as error:
        check_is_of_the_part(part, error)
        raise PartUnreadable(part, _why_unreadable(error)) from error


def _check(part: str, facts: FileFacts, planned: tuple[int, int]) -> None:
    if (facts.size, epoch_ms(facts.modified)) != planned:
        raise changed_while_read([part])


def file_slices(
    uris: Mapping[str, FileFacts], options: Options, most: int = SLICE_BYTES
) -> list[FileSlice]:
    """The slices of files as they are now."""
    slices: list[FileSlice] = []
    for uri, facts in uris.items():
        step = facts.size if is_packed(uri) else most
        modified_ms = epoch_ms(facts.modified)
        for start in range(0, facts.size, max(1, step)):
            end = min(start + step, facts.size)
            slices.append(FileSlice(uri, start, end, facts.size, modified_ms, dict(options)))
    return slices


def of_file(part: str, places: Any) -> dict[str, Array]:
    """The origin's columns of records of a file, by their places in it."""
    first = pa.repeat(pa.scalar(0, pa.int32()), len(places))
    file = pa.DictionaryArray.from_arrays(first, pa.array([part]))
    return {"_file": file, PLACE.name: pa.array(places, pa.int64())}


def split_lines(data: bytes) -> Array:
    """The lines of a piece, as binary, without their ends."""
    text = data.removesuffix(b"\n")
    pieces = pc.split_pattern(pa.scalar(text, pa.large_binary()), "\n")
    lines: Array = pieces.values.cast(pa.binary())
    return lines


def changed_while_read(parts: list[str]) -> SourceChanging:
    """The error of files that are not what they were a moment ago."""
    return SourceChanging(
        f"{len(parts)} files changed while they were read, among them "
        f"{', '.join(parts[:5])}. Nothing of the batch was committed in this try. Land files "
        "whole: write them elsewhere, then rename them. The next run reads the batch again."
    )


def _at_line_ends(chunks: Iterator[bytes], most: int) -> Iterator[bytes | LargeLine]:
    """The bytes in pieces that end with a line, none of them empty. A line of more than `most`
    bytes is held no longer than that can be told, and is one piece."""
    begun: list[bytes] = []
    large: LargeLine | None = None
    for data in chunks:
        chunk = data
        if large is not None:
            rest, end, chunk = data.partition(b"\n")
            large.add(rest)
            if not end:
                continue
            yield large
            large = None
        if cut := chunk.rfind(b"\n") + 1:
            yield b"".join([*begun, chunk[:cut]])
            begun = []
        if chunk[cut:]:
            begun.append(chunk[cut:])
        if sum(map(len, begun)) > most:
            large = LargeLine(b"".join(begun))
            begun = []
    if large is not None:
        yield large
    elif begun:
        yield b"".join(begun)


def _why_unreadable(error: Exception) -> str:
    if isinstance(error, PermissionError):
        return "It may not be read (permission denied)"
    if isinstance(error, FileNotFoundError):
        return GONE
    said = str(error) or type(error).__name__
    return f"It cannot be read to its end ({said})"
