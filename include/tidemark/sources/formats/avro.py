"""Records of an Avro file as the JSON lines that they would be.

Names and values are those of the file's own schema; of a union its value stands without its branch.
An instant is ISO 8601 in UTC; a local timestamp is ISO 8601 without a zone, and a date or time too,
to the microsecond; decimals have all their digits, bytes are base64, a uuid is its text. A logical
type that the specification does not know is the type below it, as the specification says
(https://avro.apache.org/docs/1.12.0/specification/#logical-types). NaN and the infinities have no
JSON, nor have times beyond the years 1 to 9999 and text that is not UTF-8: their row is malformed.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
from fastavro.read import LOGICAL_READERS

from tidemark.errors import TidemarkError
from tidemark.pipeline.instants import epoch_ms
from tidemark.sources.files.codecs import ChunkFile, unpacked
from tidemark.sources.formats.whole_files import WholeFile, row_name
from tidemark.sources.large_lines import bounded
from tidemark.sources.source import PartUnreadable, check_is_of_the_part
from tidemark.storage.files import FileFacts, Options, read_chunks

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  the zone is written behind it
_DAY = date(1970, 1, 1).toordinal()
_SECOND = 1_000_000
# Lines that are passed on at a time; fewer where so many have more bytes than that.
_AT_ONCE = 20_000
_BYTES_AT_ONCE = 16 * 1024 * 1024
# Of a block so much is asked for at a time, whatever size a damaged one says it has.
_READ_AT_ONCE = 1024 * 1024
# A row as JSON is about so much larger than in its file.
_UNPACKED = 8
# How bytes that are no UTF-8 go through a text.
ESCAPED = "surrogateescape"
# Before the names of logical types that are read here: fastavro's own raise an error in the middle
# of a block where Python has no such time.
OWN = "tidemark-"


class _Bare:
    """A value whose JSON is no text, or that has none: what stands in its place."""

    def __init__(self, text: str) -> None:
        self.text = text


@dataclass(frozen=True)
class AvroSlice(WholeFile):
    """A whole file, of which a block at a time is in memory."""

    @property
    def estimated_bytes(self) -> int:
        return self.size * _UNPACKED

    def lines(self, most_bytes: int) -> Iterator[pa.Table]:
        number = 0
        for lines in self._pieces():
            found = pa.array(lines, pa.binary())
            columns = bounded(found, most_bytes, partial(row_name, number))
            yield self.with_origin(columns, number)
            number += len(lines)

    def _pieces(self) -> Iterator[list[bytes]]:
        begun: list[bytes] = []
        size = 0
        for line in self._lines():
            begun.append(line)
            size += len(line)
            if len(begun) == _AT_ONCE or size >= _BYTES_AT_ONCE:
                yield begun
                begun, size = [], 0
        if begun:
            yield begun

    def _lines(self) -> Iterator[bytes]:
        with self.data() as data:
            yield from self._lines_in(data)

    def _lines_in(self, data: Iterator[bytes]) -> Iterator[bytes]:
        try:
            # So bytes that are no UTF-8 stand in the line as they are: the judge says so of a row.
            stream: Any = _Stream(data)
            blocks: Any = fastavro.block_reader(stream, handle_unicode_errors=ESCAPED)
            _read_own_types(blocks.writer_schema)
            for block in blocks:
                # A record has one byte at least, unless all of its fields are null.
                size = block.bytes_.getbuffer().nbytes
                if block.num_records < 0 or block.num_records > size:
                    raise ValueError(f"a block of {size:,} bytes has {block.num_records:,} records")
                yield from map(record_line, block)
                # fastavro does not look behind the last record.
                if block.bytes_.read(1):
                    raise ValueError(f"a block has more than its {block.num_records:,} records")
        except (TidemarkError, PartUnreadable, MemoryError):
            raise
        # Each way to pack a block has errors of its own, and bytes that are no Avro raise nearly
        # any: all of them are about the file's bytes, and are told.
        except Exception as error:
            check_is_of_the_part(self.part, error)
            said = f"{error}" or type(error).__name__
            raise PartUnreadable(self.part, f"It cannot be read as Avro ({said})") from error


def avro_slice(uri: str, facts: FileFacts, options: Options) -> AvroSlice:
    """A file as it is now."""
    return AvroSlice(uri, facts.size, epoch_ms(facts.modified), dict(options))


def avro_schema(uri: str, options: Options) -> Any:
    """The own schema of a file that can be read."""
    stream: Any = _Stream(unpacked(uri, read_chunks(uri, options)))
    return fastavro.block_reader(stream).writer_schema


def record_line(record: Any) -> bytes:
    """A record, read by a schema that went through `_read_own_types`, as its JSON line."""
    try:
        text = _PLAIN.encode(record)
    except _NotPlain:
        text = _text(record)
    return text.encode(errors=ESCAPED)


class _NotPlain(Exception):
    """A record has a value that Python's encoder cannot write."""


def _plain(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise _NotPlain


_PLAIN = json.JSONEncoder(ensure_ascii=False, default=_plain)


def _text(value: Any) -> str:
    if isinstance(value, _Bare):
        return value.text
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_PLAIN.encode(key)}: {_text(value[key])}' for key in value)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    return _PLAIN.encode(value)


class _Stream:
    """A file's pieces, as fastavro reads them."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._file = io.BufferedReader(ChunkFile(chunks))
        self._at = 0

    def read(self, size: int) -> bytes:
        found = []
        while size > 0 and (piece := self._file.read(min(size, _READ_AT_ONCE))):
            found.append(piece)
            size -= len(piece)
            self._at += len(piece)
        return b"".join(found)

    def tell(self) -> int:
        return self._at


def parsed_schema(content: Mapping[str, Any]) -> Any:
    """What reads records of a `schema`, which may refer to `references`, by name; all are JSON."""
    named: dict[str, Any] = {}
    for one in content["references"].values():
        fastavro.parse_schema(json.loads(one), named_schemas=named)
    parsed = fastavro.parse_schema(json.loads(content["schema"]), named_schemas=named, expand=True)
    _read_own_types(parsed)
    return parsed


def _read_own_types(schema: Any, within: tuple[str, ...] = ()) -> None:
    """Let what this module knows of logical types read a schema, as fastavro has parsed it: changed
    in place, as names that stand for a type lead to the same one. ValueError where a type holds
    itself, whose records could be of any depth, or has two fields of one name."""
    if isinstance(schema, str):
        if schema in within:
            raise ValueError(f"its schema is recursive: {schema} holds itself")
    elif isinstance(schema, list):
        for branch in schema:
            _read_own_types(branch, within)
    else:
        kind = schema["type"]
        if not isinstance(kind, str):
            _read_own_types(kind, within)
        if f"{kind}-{OWN}{schema.get('logicalType')}" in LOGICAL_READERS:
            schema["logicalType"] = f"{OWN}{schema['logicalType']}"
        inner = (*within, schema["name"]) if "name" in schema else within
        names = set()
        for field in schema.get("fields", ()):
            # fastavro keeps the value of the last one.
            if field["name"] in names:
                raise ValueError(f"its record {schema['name']} has two fields {field['name']}")
            names.add(field["name"])
            _read_own_types(field["type"], inner)
        for part in ("items", "values"):
            if part in schema:
                _read_own_types(schema[part], inner)


def _timestamp(unit: int, zone: str, value: int, *_: Any) -> str | _Bare:
    return _time(lambda: f"{(_EPOCH + _micros(value, unit)).isoformat()}{zone}")


def _time_of_day(unit: int, value: int, *_: Any) -> str | _Bare:
    if not 0 <= value < 86_400 * unit:
        return _Bare(f"(no time of a day: {value})")
    return (_EPOCH + _micros(value, unit)).time().isoformat()


def _date(value: int, *_: Any) -> str | _Bare:
    return _time(lambda: date.fromordinal(_DAY + value).isoformat())


def _micros(value: int, unit: int) -> timedelta:
    """A time in `unit` parts of a second; digits beyond microseconds are cut off."""
    return timedelta(microseconds=value * _SECOND // unit)


def _time(text: Callable[[], str]) -> str | _Bare:
    """A time's text; what is no JSON where Python has no such time."""
    try:
        return text()
    except (OverflowError, ValueError) as error:
        return _Bare(f"({error})")


def _decimal(value: bytes, schema: Any, *_: Any) -> _Bare:
    sign, digits, _exponent = Decimal(int.from_bytes(value, "big", signed=True)).as_tuple()
    return _Bare(format(Decimal((sign, digits, -schema.get("scale", 0))), "f"))


def _uuid_text(value: str, *_: Any) -> str:
    return value


def _uuid_bytes(value: bytes, *_: Any) -> str:
    return str(UUID(bytes=value))


_UNITS = {"millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}
for _name, _unit in _UNITS.items():
    LOGICAL_READERS[f"long-{OWN}timestamp-{_name}"] = partial(_timestamp, _unit, "Z")
    LOGICAL_READERS[f"long-{OWN}local-timestamp-{_name}"] = partial(_timestamp, _unit, "")
LOGICAL_READERS |= {
    f"int-{OWN}time-millis": partial(_time_of_day, _UNITS["millis"]),
    f"long-{OWN}time-micros": partial(_time_of_day, _UNITS["micros"]),
    f"int-{OWN}date": _date,
    f"bytes-{OWN}decimal": _decimal,
    f"fixed-{OWN}decimal": _decimal,
    f"string-{OWN}uuid": _uuid_text,
    f"fixed-{OWN}uuid": _uuid_bytes,
}
