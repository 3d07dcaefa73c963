"""The values and the keys of messages as JSON, by the pipeline's `format` and `key_format`.

`json`: what it is. `text`: one text, which of a value is the line's field `value`. `json_schema`,
`avro` and `protobuf`: as the serializers of a schema registry write them: a zero, the id of the
schema that the writer had in four bytes, and then JSON, a record of Avro, or a message of Protobuf
behind its place in the schema. What names the schema may stand in a header instead: there it is
such an id, or a one and the schema's GUID in sixteen bytes, with a message's place behind it.
Source: docs.confluent.io, *Formats, Serializers, and Deserializers*, section *Wire format*;
confluent-kafka's class SchemaId, and its `dual_schema_id_deserializer`.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, cast
from uuid import UUID

from tidemark.pipeline.model import ValueFormat

if TYPE_CHECKING:
    from confluent_kafka import Message

# A registry's schemas by their ids or GUIDs, as `schema_text` has them; None: it has none of it.
Schemas = Mapping[str, str | None]
# A zero and an id of four bytes; a one and a GUID.
PREFIX, _GUID_PREFIX = 5, 17


class ValueUnusable(Exception):
    """A message has no line; the text says why."""


@dataclass(frozen=True)
class MessageValues:
    """How values, or keys, are written, and what is known of the schemas that they name: plain
    data, which can be sent to another process."""

    format: ValueFormat
    schemas: Schemas = field(default_factory=dict)
    of: Literal["value", "key"] = "value"

    @property
    def ask_registry(self) -> bool:
        """Does reading them take schemas of a registry?"""
        return self.format in ("avro", "protobuf")

    def needed(self, messages: Iterable[Message]) -> set[str]:
        """The ids of schemas that these messages name and that are not known."""
        if not self.ask_registry:
            return set()
        ids = {
            named[0]
            for message in messages
            if (data := self.bytes_of(message)) is not None
            and (named := _named(data, self.header(message))) is not None
        }
        return ids - self.schemas.keys()

    def bytes_of(self, message: Message) -> bytes | None:
        """The message's value, or its key."""
        return message.value() if self.of == "value" else message.key()

    def header(self, message: Message) -> bytes | None:
        """The first header that names the schema, where a serializer of a registry wrote it."""
        if self.format in ("json", "text"):
            return None
        name = f"__{self.of}_schema_id"
        for key, value in cast("list[tuple[str, bytes | str | None]]", message.headers() or []):
            if key == name and value is not None:
                return value.encode() if isinstance(value, str) else value
        return None

    def line(self, data: bytes, header: bytes | None = None) -> bytes:
        """The value as a line, or the key as JSON; ValueUnusable where it is none. `header`: of
        the schema."""
        if self.format == "json":
            return data if self.of == "value" else _one_of_json(data)
        if self.format == "text":
            try:
                return json.dumps({"value": data.decode()}, ensure_ascii=False).encode()
            except UnicodeDecodeError:
                raise ValueUnusable("The value is not UTF-8") from None
        if (named := _named(data, header)) is None:
            of, begin = ("header", header) if header is not None else ("", data)
            what = f"schema's {of} of the {self.of}" if of else self.of
            raise ValueUnusable(
                f"The {what} begins with {begin[:PREFIX].hex(' ') or 'nothing'}, and not with the "
                "zero and the schema's id of a schema registry's serializers"
            )
        number, body = named
        if self.format == "json_schema":
            return body if self.of == "value" else _one_of_json(body)
        return self._record(number, body)

    def _record(self, number: str, body: bytes) -> bytes:
        text = self.schemas[number]
        if text is None:
            raise ValueUnusable(f"The schema registry has no schema of the id {number}")
        stream = io.BytesIO(body)
        # Texts of values are what they were before keys had formats.
        it, its = ("It", "its") if self.of == "value" else ("The key", "the key's")
        try:
            line = _line_reader(text, self.format)(stream)
            behind = len(body) - stream.tell()
        except MemoryError:
            raise
        # Bytes that are no record of the schema raise nearly any error: all are about the value.
        except Exception as error:
            # Of some errors with where the stream lies in memory.
            said = f"{error}".replace(f" from {stream}", "") or type(error).__name__
            raise ValueUnusable(f"{it} is no record of schema {number} ({said})") from error
        if behind:
            raise ValueUnusable(f"{behind:,} bytes lie behind {its} record of schema {number}")
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

    from tidemark.sources.formats.avro import ESCAPED, parsed_schema, record_line

    parsed = parsed_schema(content)
    read = partial(fastavro.schemaless_reader, handle_unicode_errors=ESCAPED)
    return lambda stream: record_line(read(stream, parsed, None))


def _one_of_json(data: bytes) -> bytes:
    """A key that is JSON; more than one value would be further fields of its line."""
    try:
        json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueUnusable(f"The key is not exactly one JSON value ({error})") from None
    return data


def _named(data: bytes, header: bytes | None) -> tuple[str, bytes] | None:
    """The id of the schema that is named, and what is read by it; None where none is named."""
    names = data if header is None else header
    behind = b"" if header is None else data
    if len(names) >= PREFIX and names[0] == 0:
        return str(int.from_bytes(names[1:PREFIX], "big")), names[PREFIX:] + behind
    if header is not None and len(names) >= _GUID_PREFIX and names[0] == 1:
        return str(UUID(bytes=names[1:_GUID_PREFIX])), names[_GUID_PREFIX:] + behind
    return None
