"""Files that one process reads from the beginning to the end, as nothing in them says where a
record begins."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidemark.judge.arrow import Array
from tidemark.pipeline.reasons import MALFORMED
from tidemark.sources.files.codecs import is_packed
from tidemark.sources.files.slices import of_file, planned_file
from tidemark.sources.large_lines import LargeLine
from tidemark.sources.source import AS_READ, DETAIL, REASON, Slice, TypedRows
from tidemark.storage.files import Options

_UNPACKED = 10


@dataclass(frozen=True)
class BadRecord:
    """A record that is rejected as it stands, and why."""

    text: bytes
    why: str

    def columns(self) -> Mapping[str, Array]:
        """Its reject, in the columns of `Slice.lines`."""
        text = pa.array([self.text], pa.binary())
        why = {REASON: pa.array([MALFORMED]), DETAIL: pa.array([self.why])}
        return {"_value": text, AS_READ: text, **why}


# Records without what stands between them; or one that is rejected.
Piece = Array | BadRecord | LargeLine


@dataclass(frozen=True)
class WholeFile(Slice):
    """A file that was of this size and time when it was planned."""

    part: str
    size: int
    modified_ms: int
    options: Options

    @property
    def label(self) -> str:
        return self.part

    @property
    def estimated_bytes(self) -> int:
        return self.size * _UNPACKED if is_packed(self.part) else self.size

    def with_origin(self, columns: Mapping[str, Array], before: int) -> pa.Table:
        """Lines of this file in the columns of `Slice.lines`; `before` others come before them."""
        places = np.arange(before, before + len(columns["_value"]))
        return pa.table({**columns, **of_file(self.part, places)})

    def text(self, encoding: str = "utf-8") -> Iterator[bytes]:
        """Its text in UTF-8, without a byte order mark; what is no UTF-8 is the judge's to say.
        Raises as `data`, also where another encoding has no text for its bytes."""
        with self.data() as data:
            yield from _without_mark(_decoded(data, encoding))

    def data(self) -> AbstractContextManager[Iterator[bytes]]:
        """Its bytes, as `planned_file` has them."""
        return planned_file(self.part, 0, (self.size, self.modified_ms), self.options)


def row_name(before: int, place: int) -> str:
    """What messages call a row, by its place among those that follow `before` others."""
    return f"Row {before + place + 1:,}"


def _without_mark(chunks: Iterator[bytes]) -> Iterator[bytes]:
    begun: bytes | None = b""
    for chunk in chunks:
        if begun is None:
            yield chunk
        elif len(begun := begun + chunk) >= len(codecs.BOM_UTF8):
            yield begun.removeprefix(codecs.BOM_UTF8)
            begun = None
    if begun:
        yield begun


def _decoded(chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    if codecs.lookup(encoding).name == "utf-8":
        yield from chunks
        return
    decoder = codecs.getincrementaldecoder(encoding)()
    for chunk in chunks:
        yield decoder.decode(chunk).encode()
    yield decoder.decode(b"", final=True).encode()


def all_lines(typed: Iterator[TypedRows]) -> Iterator[pa.Table]:
    """A line of each row."""
    for one in typed:
        yield one.lines(None)
