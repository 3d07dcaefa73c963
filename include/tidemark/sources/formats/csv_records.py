r"""The records of a CSV file, and their fields: what a record is, told exactly.

RFC 4180, with what files have instead: another delimiter, quote, or end of a line (`\n` or `\r\n`;
`\r` alone ends none, and is malformed outside of quotes). A record ends with the line in which all
quotes are closed. A field that begins with a quote ends with the next one that is not doubled (or
escaped), and nothing may stand behind it; in any other field a quote stands for nothing good, and
the record is malformed. What spans lines has to be well formed: else its first line alone is
rejected, and the next one begins anew, so that one quote too many never takes the rest of a file
along. That holds for what is too large to be held too: whether it is a record is seen where it
ends, and if it is none, the file is read again from its second line.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence

import pyarrow as pa

from tidemark.judge.arrow import Array
from tidemark.judge.arrow import kernels as pc
from tidemark.sources.formats.csv_form import CsvForm
from tidemark.sources.formats.whole_files import BadRecord, Piece
from tidemark.sources.large_lines import LargeLine

_NOT_CLOSED = "a quote is not closed"
_RETURN = r"a `\r` without `\n` stands outside of quotes: lines end with `\n` or `\r\n`"
# So much of a record that is not closed yet is held, where a record may not have more.
_HELD = 16 * 1024 * 1024
# A record, its fields' texts with whether each was quoted; or why it is none.
Fields = list[tuple[str, bool]]


def fields_of(record: str, form: CsvForm) -> Fields | str:
    """The fields of a record; a text says why it has none."""
    fields = _fields_of(record, form)
    if not isinstance(fields, str) and any("\r" in text and not q for text, q in fields):
        return _RETURN
    return fields


def _fields_of(record: str, form: CsvForm) -> Fields | str:
    """Those of a record in which `\\r` is a character as any other: of what spans lines, nobody's
    text becomes records for one."""
    fields: Fields = []
    place, size = 0, len(record)
    while True:
        if form.quote and record.startswith(form.quote, place):
            text, place = _quoted(record, place + 1, form)
            if text is None:
                return _NOT_CLOSED
            if record.startswith("\r", place):
                return _RETURN
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


def records(
    text: Callable[[], Iterator[bytes]], form: CsvForm, most: int
) -> Generator[Piece, None, None]:
    """The records of a file, in their order; comments are none. Records of more than `most` bytes
    are held no longer than that can be told. `text` begins to read the file's bytes (UTF-8)."""
    begin = yield from _records(text(), 0, form, most, alone=False)
    while begin is not None:
        begin = yield from _records(_behind(text(), begin), begin, form, most, alone=True)


def _behind(chunks: Iterator[bytes], size: int) -> Iterator[bytes]:
    for chunk in chunks:
        yield chunk[size:]
        size = max(0, size - len(chunk))


def _records(
    chunks: Iterator[bytes], begin: int, form: CsvForm, most: int, alone: bool
) -> Generator[Piece, None, int | None]:
    """The records from a byte on, where the first line is none with `alone`. Returns where a line
    begins with which what was taken for a large record begins."""
    splitter = _Splitter(form, most, alone)
    large: _LargeRecord | None = None
    place, rest, again = begin, b"", b""
    while (chunk := again or next(chunks, None)) is not None:
        place, again = place + len(chunk), b""
        data, is_new = rest + chunk, large is None
        if large is None:
            cut = data.rfind(b"\n") + 1
            if cut:
                yield from splitter.pieces(data[: cut - 1])
            rest = data[cut:]
            if splitter.size + len(rest) <= max(_HELD, most + 1):
                continue
            data = splitter.taken() + rest
            is_comment = splitter.comment and data.startswith(splitter.comment)
            is_line = bool(splitter.alone or is_comment or not form.quote)
            large, splitter.alone = _LargeRecord(form, place - len(data), is_line), False
        # It may be of the line's end.
        rest = b"\r" if data.endswith(b"\r") else b""
        end = large.add(data.removesuffix(b"\r"))
        if is_new and (large.is_none or end is not None):
            # No record, and held as a whole.
            splitter.alone, end = True, 0
        elif large.is_none:
            return large.begin
        elif end is not None:
            yield large.line
        if end is not None:
            again, large, rest = data[end:], None, b""
            place -= len(again)
    if large is None:
        if rest:
            yield from splitter.pieces(rest)
        yield from splitter.end()
    elif large.is_open:
        return large.begin
    else:
        yield large.line
    return None


class _LargeRecord:
    """A record from the byte `begin` of its file, by its pieces, which are not kept; `is_line`: it
    ends with its line, whatever stands in it.

    `is_open`: a quote is. `is_none`: no record can begin so.
    """

    def __init__(self, form: CsvForm, begin: int, is_line: bool) -> None:
        self.begin, self.is_line, self.line = begin, is_line, LargeLine()
        self.is_open = self.is_none = False
        self.quote, self.escape = form.quote.encode(), form.escape.encode()
        self.delimiter = form.delimiter.encode()
        # What was read last, where it says what may follow.
        self.before = self.delimiter

    def add(self, data: bytes) -> int | None:
        """Where what follows the record begins; None: it goes on. `\\r` and `\\n` of one end are
        in one piece."""
        end = data.find(b"\n") if self.is_line else self._end(data)
        self.line.add(data if end < 0 else data[:end].removesuffix(b"\r"))
        return None if end < 0 else end + 1

    def _end(self, data: bytes) -> int:
        """The fields of records, one after the other, by `_fields_of`."""
        in_quotes = re.compile(b"[%b]" % re.escape(self.quote + self.escape))
        outside = re.compile(b"[\n%b]" % re.escape(self.delimiter + self.quote))
        place = 0
        while place < len(data):
            sign, before = data[place : place + 1], self.before
            self.before = b""
            if self.is_open and before and before == self.escape:
                place += 1
            elif self.is_open:
                found = in_quotes.search(data, place)
                if found is None:
                    return -1
                self.before, place = found[0], found.end()
                self.is_open = self.before != self.quote
            elif (before == self.quote and sign == self.quote and not self.escape) or (
                before == self.delimiter and sign == self.quote
            ):
                self.is_open, place = True, place + 1
            elif before == self.quote and not data.startswith(
                (self.delimiter, b"\n", b"\r\n"), place
            ):
                self.is_none = True
                return -1
            else:
                found = outside.search(data, place)
                self.is_none = found is not None and found[0] == self.quote
                if found is None or self.is_none:
                    return -1
                if found[0] == b"\n":
                    return found.start()
                self.before, place = found[0], found.end()
        return -1


class _Splitter:
    """Lines into records: `open` are those of a record whose quotes are not closed yet, `size` the
    bytes that these have. `alone`: the next line is none, and begins none."""

    def __init__(self, form: CsvForm, most: int, alone: bool) -> None:
        self.form, self.most, self.alone = form, most, alone
        self.quote, self.escape = form.quote.encode(), form.escape.encode()
        self.comment = form.comment.encode()
        self.open: list[bytes] = []
        self.is_open, self.size = False, 0

    def pieces(self, data: bytes) -> Iterator[Piece]:
        values = pc.split_pattern(pa.scalar(data, pa.large_binary()), "\n").values
        lines = values.cast(pa.binary())
        if not (self.open or self.alone or self._any_open(lines)):
            found = _without_returns(lines)
            if not self.comment:
                yield found
                return
            comments = pc.starts_with(found, self.form.comment)
            if not any(map(self._is_told, found.filter(comments).to_pylist())):
                yield found.filter(pc.invert(comments))
                return
        yield from self._one_by_one(deque(lines.to_pylist()))

    def end(self) -> Iterator[Piece]:
        """What is left of a record that is never closed."""
        while self.open:
            first, *others = self._lines()
            yield self._bad(first)
            yield from self._one_by_one(deque(others))

    def _any_open(self, lines: Array) -> bool:
        if not self.form.quote:
            return False
        if self.form.escape:
            return bool(pc.any(pc.match_substring(lines, self.form.quote)).as_py())
        counts = pc.count_substring(lines, self.form.quote)
        return bool(pc.any(pc.equal(pc.bit_wise_and(counts, 1), 1)).as_py())

    def _one_by_one(self, lines: deque[bytes]) -> Iterator[Piece]:
        found: list[bytes] = []
        while lines:
            line = lines.popleft()
            why = _NOT_CLOSED
            if self.alone:
                self.alone, whole = False, [line]
            elif not self.open and self.comment and line.startswith(self.comment):
                if not self._is_told(line.removesuffix(b"\r")):
                    continue
                whole, why = [line], _RETURN
            else:
                self.open.append(line)
                self.size += len(line) + 1
                self.is_open ^= self._changes(line)
                if self.is_open:
                    continue
                whole = self._lines()
                record = b"\n".join(whole).removesuffix(b"\r")
                if len(whole) == 1 or isinstance(self._fields(record), list):
                    found.append(record)
                    continue
            yield from _some(found)
            found = []
            yield self._bad(whole[0], why)
            lines.extendleft(reversed(whole[1:]))
        yield from _some(found)

    def taken(self) -> bytes:
        """The lines of the record that is open, which are forgotten."""
        return b"".join(line + b"\n" for line in self._lines())

    def _lines(self) -> list[bytes]:
        taken, self.open, self.is_open, self.size = self.open, [], False, 0
        return taken

    def _is_told(self, comment: bytes) -> bool:
        """Is it rejected, as it may be a whole file?"""
        return b"\r" in comment or len(comment) > self.most

    def _bad(self, line: bytes, why: str = _NOT_CLOSED) -> BadRecord | LargeLine:
        line = line.removesuffix(b"\r")
        return LargeLine(line) if len(line) > self.most else BadRecord(line, why)

    def _changes(self, line: bytes) -> bool:
        """Is a quote open behind the line that was not before it, or the other way round?"""
        if not self.quote:
            return False
        if self.escape:
            line = line.replace(self.escape * 2, b"").replace(self.escape + self.quote, b"")
        return line.count(self.quote) % 2 == 1

    def _fields(self, record: bytes) -> Fields | str:
        return _fields_of(record.decode(errors="replace"), self.form)


def _some(found: Sequence[bytes]) -> Iterator[Piece]:
    if found:
        yield pa.array(found, pa.binary())


def _without_returns(lines: Array) -> Array:
    r"""Lines that ended with `\r\n`, without what is left of that."""
    ends = pc.ends_with(lines, "\r")
    if not pc.any(ends).as_py():
        return lines
    return pc.if_else(ends, pc.binary_slice(lines, 0, -1), lines)
