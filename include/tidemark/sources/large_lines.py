"""Lines that are larger than is taken: never held as a whole where they need not be, and told in
rejects by their size, their first bytes and their digest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import cast

import pyarrow as pa

from tidemark.judge.arrow import Array
from tidemark.judge.arrow import kernels as pc
from tidemark.pipeline.reasons import TOO_LARGE
from tidemark.sources.source import DETAIL, REASON

LineColumns = Mapping[str, Array]
SHOWN_BYTES = 4 * 1024


class LargeLine:
    """A line by its pieces, which are added in their order and not kept."""

    def __init__(self, *pieces: bytes) -> None:
        self.size = 0
        self._first = b""
        self._digest = sha256()
        for piece in pieces:
            self.add(piece)

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        self._first += piece[: SHOWN_BYTES - len(self._first)]
        self._digest.update(piece)

    @property
    def shown(self) -> bytes:
        """Its first bytes, of text no half of a character."""
        for cut in range(4):
            first = self._first[: len(self._first) - cut]
            try:
                first.decode()
            except UnicodeDecodeError:
                continue
            return first
        return self._first

    def detail(self, what: str, most: int) -> str:
        """The detail of its reject; `what` it is, and of how many bytes one is taken."""
        return (
            f"{what} has {self.size:,} bytes, at most {most:,} are taken; here are the first "
            f"{len(self.shown):,}. SHA-256 of all: {self._digest.hexdigest()}"
        )

    def columns(self, what: str, most: int) -> LineColumns:
        """Its reject, in the columns of `Slice.lines`."""
        return _columns([self.shown], [self.detail(what, most)])


def bounded(lines: Array, most: int, what: Callable[[int], str]) -> LineColumns:
    """Lines (binary, none null) in the columns of `Slice.lines`, with rejects in the place of those
    of more than `most` bytes. `what` calls one by its place among them."""
    too_large = pc.greater(pc.binary_length(lines), most)
    if not pc.any(too_large).as_py():
        return {"_value": lines}
    values = cast("list[bytes]", lines.to_pylist())
    details: list[str | None] = [None] * len(values)
    for place in pc.indices_nonzero(too_large).to_pylist():
        line = LargeLine(values[place])
        values[place], details[place] = line.shown, line.detail(what(place), most)
    return _columns(values, details)


def _columns(values: list[bytes], details: list[str | None]) -> LineColumns:
    reasons = [None if detail is None else TOO_LARGE for detail in details]
    return {
        "_value": pa.array(values, pa.binary()),
        REASON: pa.array(reasons, pa.string()),
        DETAIL: pa.array(details, pa.string()),
    }
