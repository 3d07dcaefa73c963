r"""The records of a CSV file, and their fields: what a record is, told exactly.

RFC 4180, with what files have instead: another delimiter, quote, or end of a line (`\n` or `\r\n`).
A record ends with the line in which all quotes are closed. A field that begins with a quote ends
with the next one that is not doubled (or escaped), and nothing may stand behind it; in any other
field a quote stands for nothing good, and the record is malformed. What spans lines has to be well
formed: else its first line alone is rejected, and the next one begins anew, so that one quote too
many never takes the rest of a file along.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import pyarrow as pa

from tidemark.judge.arrow import Array
from tidemark.judge.arrow import kernels as pc
from tidemark.sources.formats.csv_form import CsvForm
from tidemark.sources.formats.whole_files import BadRecord, Piece
from tidemark.sources.large_lines import LargeLine

_NOT_CLOSED = "a quote is not closed"
# A record, its fields' texts with whether each was quoted; or why it is none.
Fields = list[tuple[str, bool]]


def fields_of(record: str, form: CsvForm) -> Fields | str:
    """The fields of a record; a text says why it has none."""
    fields: Fields = []
    place, size = 0, len(record)
    while True:
        if form.quote and record.startswith(form.quote, place):
            text, place = _quoted(record, place + 1, form)
            if text is None:
                return _NOT_CLOSED
            if place < size and record[place] != form.delimiter:
                return f"there is text behind the closing quote of field {len(fields) + 1}"
            fields.append((text, True))
        else:
            end = record.find(form.delimiter, place)
            end = size if end < 0 else end
            text, place = record[place:end], end
            if form.quote and form.quote in text:
                return (
                    f"a quote stands within field {len(fields) + 1}, which does not begin with one"
                )
            fields.append((text, False))
        if place >= size:
            return fields
        place += 1


def _quoted(record: str, place: int, form: CsvForm) -> tuple[str | None, int]:
    """The text up to the closing quote, and the place behind that; None where it is not closed."""
    parts: list[str] = []
    begun = place
    while place < len(record):
        one = record[place]
        if form.escape and one == form.escape and place + 1 < len(record):
            parts.append(record[begun:place])
            begun, place = place + 1, place + 2
        elif one != form.quote:
            place += 1
        elif not form.escape and record.startswith(form.quote, place + 1):
            parts.append(record[begun : place + 1])
            begun = place = place + 2
        else:
            return "".join([*parts, record[begun:place]]), place + 1
    return None, place


def records(chunks: Iterator[bytes], form: CsvForm, most: int) -> Iterator[Piece]:
    """The records of a file's bytes (UTF-8), in their order; comments are none. A line of more than
    `most` bytes is held no longer than that can be told."""
    splitter = _Splitter(form, most)
    rest = b""
    large: LargeLine | None = None
    for chunk in chunks:
        data = rest + chunk
        if large is not None:
            cut = data.find(b"\n") + 1
            large.add(data[: cut - 1] if cut else data)
            if not cut:
                continue
            yield large
            large, data = None, data[cut:]
        cut = data.rfind(b"\n") + 1
        if cut:
            yield from splitter.pieces(data[: cut - 1])
        rest = data[cut:]
        if len(rest) > most:
            yield from splitter.end()
            large, rest = LargeLine(rest), b""
    if large is not None:
        yield large
    elif rest:
        yield from splitter.pieces(rest)
    yield from splitter.end()


class _Splitter:
    """Lines into records: `open` are those of a record whose quotes are not closed yet, `size` the
    bytes that these have."""

    def __init__(self, form: CsvForm, most: int) -> None:
        self.form, self.most = form, most
        self.quote, self.escape = form.quote.encode(), form.escape.encode()
        self.comment = form.comment.encode()
        self.open: list[bytes] = []
        self.is_open, self.size = False, 0

    def pieces(self, data: bytes) -> Iterator[Piece]:
        values = pc.split_pattern(pa.scalar(data, pa.large_binary()), "\n").values
        lines = values.cast(pa.binary())
        if not self.open and not self._any_open(lines):
            yield self._without_comments(_without_returns(lines))
            return
        yield from self._one_by_one(deque(lines.to_pylist()))

    def end(self) -> Iterator[Piece]:
        """What is left of a record that is never closed."""
        while self.open:
            first, *others = self._taken()
            yield BadRecord(first.removesuffix(b"\r"), _NOT_CLOSED)
            yield from self._one_by_one(deque(others))

    def _any_open(self, lines: Array) -> bool:
        if not self.form.quote:
            return False
        if self.form.escape:
            return bool(pc.any(pc.match_substring(lines, self.form.quote)).as_py())
        counts = pc.count_substring(lines, self.form.quote)
        return bool(pc.any(pc.equal(pc.bit_wise_and(counts, 1), 1)).as_py())

    def _without_comments(self, lines: Array) -> Array:
        if not self.form.comment:
            return lines
        return lines.filter(pc.invert(pc.starts_with(lines, self.form.comment)))

    def _one_by_one(self, lines: deque[bytes]) -> Iterator[Piece]:
        found: list[bytes] = []
        while lines:
            line = lines.popleft()
            if not self.open and self.comment and line.startswith(self.comment):
                continue
            self.open.append(line)
            self.size += len(line) + 1
            self.is_open ^= self._changes(line)
            if self.is_open and self.size <= self.most:
                continue
            closed, whole = not self.is_open, self._taken()
            record = b"\n".join(whole).removesuffix(b"\r")
            if closed and (len(whole) == 1 or isinstance(self._fields(record), list)):
                found.append(record)
                continue
            yield from _some(found)
            found = []
            yield BadRecord(whole[0].removesuffix(b"\r"), _NOT_CLOSED)
            lines.extendleft(reversed(whole[1:]))
        yield from _some(found)

    def _taken(self) -> list[bytes]:
        taken, self.open, self.is_open, self.size = self.open, [], False, 0
        return taken

    def _changes(self, line: bytes) -> bool:
        """Is a quote open behind the line that was not before it, or the other way round?"""
        if not self.quote:
            return False
        if self.escape:
            line = line.replace(self.escape * 2, b"").replace(self.escape + self.quote, b"")
        return line.count(self.quote) % 2 == 1

    def _fields(self, record: bytes) -> Fields | str:
        return fields_of(record.decode(errors="replace"), self.form)


def _some(found: Sequence[bytes]) -> Iterator[Piece]:
    if found:
        yield pa.array(found, pa.binary())


def _without_returns(lines: Array) -> Array:
    r"""Lines that ended with `\r\n`, without what is left of that."""
    ends = pc.ends_with(lines, "\r")
    if not pc.any(ends).as_py():
        return lines
    return pc.if_else(ends, pc.binary_slice(lines, 0, -1), lines)
