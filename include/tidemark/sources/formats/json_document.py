"""JSON documents: objects and arrays of objects in any layout, each object as a JSON line.

A file is values behind each other, with nothing or blanks between them: of an array each element
is a record, and each object that stands by itself. What is neither is a record too, which the judge
rejects: an element is what stands between two commas, whatever that is, so that a missing comma
costs two records and an unclosed bracket or quote what follows it, and none is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from tidemark.judge.arrow import Array
from tidemark.judge.arrow import kernels as pc
from tidemark.pipeline.instants import epoch_ms
from tidemark.sources.formats.whole_files import BadRecord, Piece, WholeFile
from tidemark.sources.large_lines import LargeLine, bounded
from tidemark.sources.source import AS_READ
from tidemark.storage.files import FileFacts, Options

# JSON's white space.
_BLANK = b" \t\r\n"
_TEXT = rb'"(?:[^"\\]++|\\.)*+"'
_INNER = rb'(?:[^{}\[\]"]++|' + _TEXT + rb")*+"
_TOKENS = re.compile(
    # Neither quotes nor brackets; an object that holds no other one; a text; a single sign.
    rb'[^"\[\]{},]++|\{' + _INNER + rb"\}|" + _TEXT + rb'|[\[\]{},"]',
    re.DOTALL,
)
# What most elements are, for speed: an object of values, and of objects and arrays of values.
_ELEMENT = re.compile(
    rb'[ \t\r\n]*+(\{(?:[^{}\[\]"]++|%b|\{%b\}|\[%b\])*+\})[ \t\r\n]*+,' % (_TEXT, _INNER, _INNER),
    re.DOTALL,
)
_REST_OF_TEXT = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
# A record that stood in no array, as it would be none or several there.
_BETWEEN = re.compile(rb'(?:[^\[\]{},"]|\}|%b)*+[\],](?:[^\[{"]|%b)*+' % (_TEXT, _TEXT), re.DOTALL)
# A record none of whose texts holds the end of a line: in one that does JSON allows none.
_ENDS_IN_ARRAY, _ENDS_WITHIN = "the file ends before its array does", "the file ends within it"
_TEXTS_ON_A_LINE = r'^(?:[^"]|"(?:[^"\\\r\n]|\\[^\r\n])*")*$'


@dataclass(frozen=True)
class DocumentSlice(WholeFile):
    """A whole file of JSON documents."""

    def lines(self, most_bytes: int) -> Iterator[pa.Table]:
        number = 0
        for piece in _records(self.text(), most_bytes):
            if isinstance(piece, LargeLine):
                found, size = piece.columns(f"Record {number + 1:,}", most_bytes), 1
            elif isinstance(piece, BadRecord):
                found, size = piece.columns(), 1
            else:
                found, size = _judged(piece, most_bytes, number), len(piece)
            yield self.with_origin(found, number)
            number += size


def _judged(records: Array, most: int, before: int) -> Mapping[str, Array]:
    held = dict(bounded(records, most, lambda place: f"Record {before + place + 1:,}"))
    if pc.any(pc.match_substring_regex(records, r"[\r\n]")).as_py():
        texts = zip(
            held["_value"].to_pylist(),
            pc.match_substring_regex(held["_value"], _TEXTS_ON_A_LINE).to_pylist(),
            strict=True,
        )
        on_a_line = [
            text.replace(b"\n", b" ").replace(b"\r", b" ") if is_one else text
            for text, is_one in texts
        ]
        held[AS_READ] = pa.array(on_a_line, pa.binary())
    return held


def document_slice(uri: str, facts: FileFacts, options: Options) -> DocumentSlice:
    """A file as it is now."""
    return DocumentSlice(uri, facts.size, epoch_ms(facts.modified), dict(options))


def document_of(records: Iterable[tuple[bytes, str | None]]) -> Iterator[bytes]:
    """A text that has these records of a file, each with the detail of its reject, and no others:
    in one array, as far as that has them."""
    yield b"[\n"
    between, is_open = b"", True
    for text, detail in records:
        if detail == _ENDS_WITHIN or (detail is None and _BETWEEN.fullmatch(text)):
            yield (b"\n]\n" if is_open else b"\n") + text
            is_open = False
        else:
            yield (between if is_open else b"\n[\n") + text
            between, is_open = b",\n", True
        if detail == _ENDS_IN_ARRAY:
            return
        if detail == _no_value_before(b"]"):
            yield b"\n]\n"
            is_open = False
    if is_open:
        yield b"\n]\n"


def _no_value_before(sign: bytes) -> str:
    return f"there is no value before `{sign.decode()}`"


def _records(chunks: Iterator[bytes], most: int) -> Iterator[Piece]:
    """The records of a file's text, in their order. One of more than `most` bytes is held no longer
    than that can be told."""
    splitter = _DocumentSplitter(most)
    for chunk in chunks:
        yield from splitter.pieces(chunk)
    yield from splitter.end()


class _DocumentSplitter:
    """Text into records.

    `in_array`: records are its elements, `elements` so far. `depth`: the record's brackets that are
    open. `in_text`: a text is open; `escape` is its backslash where the chunk ended with it.
    `held`: the record's text so far, without blanks before it; where that is too large, `large`.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.in_array = self.in_text = False
        self.depth = self.elements = 0
        self.held, self.escape = b"", b""
        self.large: LargeLine | None = None
        self.found: list[bytes] = []

    def pieces(self, chunk: bytes) -> Iterator[Piece]:
        data, self.escape = self.escape + chunk, b""
        place = begin = 0
        while place < len(data):
            if self.in_text:
                rest = _REST_OF_TEXT.match(data, place)
                place = rest.end() if rest else place
                if place == len(data):
                    break
                if data[place : place + 1] == b"\\":
                    # What it escapes stands in the next chunk.
                    self.escape, data = b"\\", data[:place]
                    break
                self.in_text, place = False, place + 1
            if self.in_array and begin == place and not (self.depth or self.held or self.large):
                while one := _ELEMENT.match(data, place):
                    self.found.append(one[1])
                    self.elements += 1
                    begin = place = one.end()
            for token in _TOKENS.finditer(data, place):
                sign, place = token[0], token.end()
                first = sign[:1]
                if sign == b'"':
                    self.in_text = True
                    break
                if first not in b"[]{},":
                    continue
                if self.depth:
                    if sign in b"[{":
                        self.depth += 1
                    elif sign in b"]}":
                        self.depth -= 1
                        if not (self.depth or self.in_array):
                            yield from self._ended(data[begin:place])
                            begin = place
                elif self.in_array:
                    if sign in b"[{":
                        self.depth = 1
                    elif sign in b",]":
                        yield from self._ended(data[begin : token.start()], sign)
                        begin = place
                        break
                elif first in b"[{":
                    # What stands before it is neither.
                    yield from self._ended(data[begin : token.start()])
                    begin = token.start()
                    if sign == b"[":
                        self.in_array, self.elements, begin = True, 0, place
                        break
                    elif sign == b"{":
                        self.depth = 1
                    else:
                        yield from self._ended(sign)
                        begin = place
        if self.found:
            yield self._taken()
        self._hold(data[begin:])

    def end(self) -> Iterator[Piece]:
        """What is left where the file ends."""
        self._hold(self.escape)
        text = self.held.rstrip(_BLANK)
        if self.large is not None:
            yield self.large
        elif self.in_array:
            yield BadRecord(text, _ENDS_IN_ARRAY)
        elif self.depth or self.in_text:
            yield BadRecord(text, _ENDS_WITHIN)
        elif text:
            yield pa.array([text], pa.binary())

    def _ended(self, text: bytes, sign: bytes = b"") -> Iterator[Piece]:
        """The record that this text ends; `sign` stands behind it in an array."""
        if self.large is not None:
            self.large.add(text)
            if self.found:
                yield self._taken()
            yield self.large
        else:
            record = (self.held + text).strip(_BLANK)
            if record:
                self.found.append(record)
            elif sign == b"," or (sign and self.elements):
                if self.found:
                    yield self._taken()
                yield BadRecord(b"", _no_value_before(sign))
        self.held, self.large = b"", None
        self.elements += 1
        self.in_array = self.in_array and sign != b"]"

    def _taken(self) -> Array:
        taken, self.found = self.found, []
        return pa.array(taken, pa.binary())

    def _hold(self, text: bytes) -> None:
        if self.large is not None:
            self.large.add(text)
            return
        self.held = self.held + text if self.held else text.lstrip(_BLANK)
        if len(self.held) > self.most:
            self.large, self.held = LargeLine(self.held), b""
