"""The values of messages as JSON lines, by the pipeline's `format`.

`json`: the value as it is. `text`: the value is one text, the line's field `value`. `json_schema`,
`avro` and `protobuf`: values as the serializers of a schema registry write them: a zero, the id of
the schema that the writer had in four bytes, and then JSON, a record of Avro, or a message of
Protobuf behind its place in the schema.
Source: docs.confluent.io, *Formats, Serializers, and Deserializers*, section *Wire format*.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from tidemark.pipeline.model import ValueFormat

if TYPE_CHECKING:
    from confluent_kafka import Message

# A registry's schemas by their ids, as `schema_text` has them; None: the registry has none of it.
Schemas = Mapping[int, str | None]
# A zero, and an id of four bytes.
PREFIX = 5


class ValueUnusable(Exception):
    """A message has no line; the text says why."""


@dataclass(frozen=True)
class MessageValues:
    """How values are written, and what is known of the schemas that they name: plain data, which
    can be sent to another process."""

    format: ValueFormat
    schemas: Schemas = field(default_factory=dict)

    def needed(self, messages: Iterable[Message]) -> set[int]:
        """The ids of schemas that these messages name and that are not known."""
        if self.format not in ("avro", "protobuf"):
            return set()
        values = (message.value() for message in messages)
        ids = {_id(value) for value in values if value is not None}
        return {one for one in ids if one is not None and one not in self.schemas}

    def line(self, value: bytes) -> bytes:
        """The value as a line; ValueUnusable where it has none."""
        if self.format == "json":
            return value
        if self.format == "text":
            try:
                return json.dumps({"value": value.decode()}, ensure_ascii=False).encode()
            except UnicodeDecodeError:
                raise ValueUnusable("The value is not UTF-8") from None
        number = _id(value)
        if number is None:
            raise ValueUnusable(
                f"The value begins with {value[:PREFIX].hex(' ') or 'nothing'}, and not with the "
                "zero and the schema's id of a schema registry's serializers"
            )
        return value[PREFIX:] if self.format == "json_schema" else self._record(number, value)

    def _record(self, number: int, value: bytes) -> bytes:
        text = self.schemas[number]
        if text is None:
            raise ValueUnusable(f"The schema registry has no schema of the id {number}")
        stream = io.BytesIO(value)
        stream.seek(PREFIX)
        try:
            line = _line_reader(text, self.format)(stream)
            behind = len(value) - stream.tell()
        except MemoryError:
            raise
        # Bytes that are no record of the schema raise nearly any error: all are about the value.
        except Exception as error:
            said = f"{error}" or type(error).__name__
            raise ValueUnusable(f"It is no record of schema {number} ({said})") from error
        if behind:
            raise ValueUnusable(f"{behind:,} bytes lie behind its record of schema {number}")
        return line


def schema_text(kind: str, schema: str, references: Mapping[str, str]) -> str:
    """A schema of a kind (AVRO, JSON, PROTOBUF) with those that it refers to, by their names, each
    behind its own. One of Protobuf is kept as it is compiled, or as what is wrong with it."""
    content = {"kind": kind, "schema": schema, "references": dict(references)}
    if kind == "PROTOBUF":
        # It takes a tenth of a second to load, which messages of other formats do without.
        from tidemark.sources.kafka.protobuf import compiled

        try:
            content = {"kind": kind, "descriptors": compiled(schema, references)}
        except ValueError as error:
            content = {"kind": kind, "fault": str(error)}
    return json.dumps(content)


@lru_cache(maxsize=256)
def _line_reader(text: str, kind: ValueFormat) -> Callable[[io.BytesIO], bytes]:
    """A function from a record of a schema to its line."""
    content = json.loads(text)
    if content["kind"] != kind.upper():
        raise ValueError(f"it is a schema of {content['kind']}, and the pipeline says {kind}")
    return _of_avro(content) if kind == "avro" else _of_protobuf(content)


def _of_protobuf(content: Mapping[str, Any]) -> Callable[[io.BytesIO], bytes]:
    from tidemark.sources.kafka.protobuf import protobuf_reader

    if "fault" in content:
        raise ValueError(content["fault"])
    read = protobuf_reader(content["descriptors"])
    return lambda stream: read(stream.read())


def _of_avro(content: Mapping[str, Any]) -> Callable[[io.BytesIO], bytes]:
    import fastavro

    from tidemark.sources.formats.avro import ESCAPED, read_own_types, record_line

    named: dict[str, Any] = {}
    for one in content["references"].values():
        fastavro.parse_schema(json.loads(one), named_schemas=named)
    parsed = fastavro.parse_schema(json.loads(content["schema"]), named_schemas=named, expand=True)
    read_own_types(parsed)
    read = partial(fastavro.schemaless_reader, handle_unicode_errors=ESCAPED)
    return lambda stream: record_line(read(stream, parsed, None))


def _id(value: bytes) -> int | None:
    """The id of the schema that a value names; None where it names none."""
    names_one = len(value) >= PREFIX and value[0] == 0
    return int.from_bytes(value[1:PREFIX], "big") if names_one else None
