"""Which lines a source's records come to: those of this pipeline, of an array each of its elements.

Before anything is judged, `when` looks at the text of one field: a record in which it holds
another text is not this pipeline's, whatever else stands in it. Then `explode` makes a line of
each element, in which the element stands in the array's place. A record of which neither can be
told is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from json.encoder import encode_basestring
from typing import Any

import numpy as np
import pyarrow as pa

from tidemark.judge.arrow import Array
from tidemark.judge.arrow import kernels as pc
from tidemark.judge.exact import RejectedLine
from tidemark.judge.fast_forms import BLANKS, ONE_WORD, object_with
from tidemark.judge.json_text import (
    JSON_NUMBER,
    LineReader,
    NotAnObject,
    Number,
    json_text,
    object_decoder,
    parse_object,
)
from tidemark.judge.rules import Rules
from tidemark.pipeline.model import When
from tidemark.pipeline.reasons import MALFORMED, MISSING_FIELD, SHOWN, WRONG_TYPE
from tidemark.storage.delta.rows import RecordCounts

# Lines of elements are handed on when they have so many bytes together, as each of them has its
# record's other fields.
_MOST_BYTES = 16 * 1024 * 1024
# So many records are held as Python's objects at a time.
_PORTION = 4_096
_MISSING = "is missing or null, so it is not known whether the record is of this pipeline"
_BARE = re.compile(f"{JSON_NUMBER}|true|false", re.ASCII)
_WORDS = {None: "null", True: "true", False: "false"}


@dataclass(frozen=True)
class RecordLines:
    """Some records' lines (binary), and records that are rejected.

    `records`: of each line the place of its record; `elements` (int32): its element's place in
    the array, from 0; None: lines are records. `rejected`: why, by the record's place.
    """

    lines: Array
    records: Any
    elements: Array | None
    rejected: dict[int, RejectedLine]
    counts: RecordCounts


class RecordReader:
    """Reads records by the rules' `when` and `explode`. Not to be shared by threads."""

    def __init__(self, rules: Rules) -> None:
        self._chooser = None if rules.when is None else _Chooser(rules.when)
        self._exploder = None if rules.explode is None else _Exploder(rules.explode)

    def read(self, records: Array) -> Iterator[RecordLines]:
        """The lines of records (binary, none null), in their order."""
        own: Any = np.arange(len(records))
        other = 0
        rejected: dict[int, RejectedLine] = {}
        if self._chooser is not None:
            own, other, rejected = self._chooser.choose(records)
        counts = RecordCounts(other=other)
        if self._exploder is None:
            yield RecordLines(records.take(pa.array(own)), own, None, rejected, counts)
            return
        yield RecordLines(records.slice(0, 0), own[:0], pa.array([], pa.int32()), rejected, counts)
        for start in range(0, len(own), _PORTION):
            yield from self._exploder.explode(records, own[start : start + _PORTION])


class _Chooser:
    """Says which records are this pipeline's: many at once where their forms are plain, the others
    one by one."""

    def __init__(self, when: When) -> None:
        self._path, self._texts = when.field, frozenset(when.texts)
        self._decoder = object_decoder(_with_doubles)
        self._names = [encode_basestring(name) for name in when.field]
        record = ONE_WORD
        for name in reversed(when.field):
            record = object_with(name, record)
        self._expression = f"^{BLANKS}{record}{BLANKS}$"
        last = "".join(rf"\x{byte:02x}" for byte in self._names[-1].encode())
        self._value = f"{last}{BLANKS}:{BLANKS}(?P<value>{ONE_WORD})"
        # Without quotes it is a number or a boolean, and no other text: "click" in quotes is none.
        bare = [text for text in when.texts if _BARE.fullmatch(text)]
        words = [*map(encode_basestring, when.texts), *bare]
        self._words = pa.array([word.encode() for word in words], pa.binary())

    def choose(self, records: Array) -> tuple[Any, int, dict[int, RejectedLine]]:
        """The places of own records, how many are others', and those that are rejected."""
        plain, own = self._at_once(records)
        others = int((plain & ~own).sum())
        rejected: dict[int, RejectedLine] = {}
        for place in np.flatnonzero(~plain).tolist():
            verdict = self._one(records[place].as_py())
            if isinstance(verdict, RejectedLine):
                rejected[place] = verdict
            elif verdict:
                own[place] = True
            else:
                others += 1
        return np.flatnonzero(own), others, rejected

    def _at_once(self, records: Array) -> tuple[Any, Any]:
        """Which records are plain, and which of these are own, as NumPy's booleans."""
        nothing = np.zeros(len(records), np.bool_)
        try:
            records.cast(pa.string())
            matches = pc.match_substring_regex(records, self._expression)
        except pa.ArrowInvalid:
            # Not all are UTF-8, or the path is too long for RE2.
            return nothing, nothing.copy()
        once = [pc.equal(pc.count_substring(records, name), 1) for name in self._names]
        plain = reduce(pc.and_, [matches, *once])
        values = pc.extract_regex(records.filter(plain), self._value).field("value")
        found = plain.to_numpy(zero_copy_only=False)
        own = nothing
        own[found] = pc.is_in(values, value_set=self._words).to_numpy(zero_copy_only=False)
        return found, own

    def _one(self, record: bytes) -> bool | RejectedLine:
        try:
            _, part = parse_object(record, self._decoder)
        except NotAnObject as error:
            return RejectedLine(MALFORMED, str(error))
        label = ".".join(self._path)
        found: Any = part
        for name in self._path:
            if type(found) is not dict:
                break
            found = found.get(name)
        else:
            if type(found) in (str, Number, bool):
                return self._text(found) in self._texts
        if found is _Double:
            return RejectedLine(MALFORMED, f"{label} stands twice")
        if found is None:
            return RejectedLine(MISSING_FIELD, f"{label} {_MISSING}")
        return RejectedLine(WRONG_TYPE, f"{label}, by which records are chosen, holds no text")

    def _text(self, part: Any) -> str:
        if type(part) is str:
            return part
        return str(part, "ascii") if type(part) is Number else _WORDS[part]


class _Double:
    """In the place of a field that stands twice in its object."""


def _with_doubles(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                fields[name] = _Double
            seen.add(name)
    return fields


@dataclass
class _Portion:
    """Lines of elements that are not handed on yet."""

    lines: list[bytes] = field(default_factory=list)
    records: list[int] = field(default_factory=list)
    elements: list[int] = field(default_factory=list)
    rejected: dict[int, RejectedLine] = field(default_factory=dict)
    without_elements: int = 0
    exploded: int = 0
    bytes: int = 0

    def handed_on(self) -> RecordLines:
        counts = RecordCounts(
            without_elements=self.without_elements,
            exploded=self.exploded,
            elements=len(self.lines),
        )
        lines, elements = pa.array(self.lines, pa.binary()), pa.array(self.elements, pa.int32())
        return RecordLines(lines, np.array(self.records, np.int64), elements, self.rejected, counts)


class _Exploder:
    """Makes lines of an array's elements."""

    def __init__(self, path: tuple[str, ...]) -> None:
        self._path = path
        self._lines = LineReader()

    def explode(self, records: Array, places: Any) -> Iterator[RecordLines]:
        """The lines of the records at these places."""
        portion = _Portion()
        for place, record in zip(
            places.tolist(), records.take(pa.array(places)).to_pylist(), strict=True
        ):
            try:
                fields = self._lines.read(record)
                items, before, behind = self._taken_apart(fields)
            except NotAnObject as error:
                portion.rejected[place] = RejectedLine(MALFORMED, str(error))
                continue
            except _NoArray as error:
                portion.rejected[place] = RejectedLine(WRONG_TYPE, str(error))
                continue
            if items:
                portion.exploded += 1
            else:
                portion.without_elements += 1
            for number, item in enumerate(items):
                line = f"{before}{json_text(item)}{behind}".encode()
                portion.lines.append(line)
                portion.records.append(place)
                portion.elements.append(number)
                portion.bytes += len(line)
                if portion.bytes > _MOST_BYTES:
                    yield portion.handed_on()
                    portion = _Portion()
        yield portion.handed_on()

    def _taken_apart(self, fields: dict[str, Any]) -> tuple[list[Any], str, str]:
        """The elements, and what stands before and behind one in its line."""
        before, behind = "", ""
        found: Any = fields
        for name in self._path:
            if found is None:
                break
            if type(found) is not dict:
                raise self._no_array(found)
            others = [
                f"{encode_basestring(other)}:{json_text(part)},"
                for other, part in found.items()
                if other != name
            ]
            before = f"{before}{{{''.join(others)}{encode_basestring(name)}:"
            behind += "}"
            found = found.get(name)
        if found is None:
            return [], before, behind
        if type(found) is not list:
            raise self._no_array(found)
        return found, before, behind

    def _no_array(self, part: Any) -> _NoArray:
        shown = json_text(part)[:SHOWN]
        return _NoArray(f"{'.'.join(self._path)}, which is exploded, is no array: {shown}")


class _NoArray(ValueError):
    """Something else stands in the place of the array."""
