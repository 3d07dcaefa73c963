"""Messages as lines: the value, and what of the message itself a pipeline names.

A declared `_key`, `_kafka_time` or `_headers` is set in front of the value's own fields, so that
one judge judges them all. A field of the value that has such a name stands twice in the line then,
which is a verdict of the judge.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from tidemark.pipeline.kafka_columns import HEADERS, KEY, OFFSET, PARTITION, TIME, TOPIC, TYPES
from tidemark.pipeline.model import KafkaSource, Pipeline
from tidemark.pipeline.reasons import MALFORMED, NO_VALUE, TOO_LARGE
from tidemark.sources.kafka.changes import NewestMessages, RowKeys
from tidemark.sources.kafka.values import MessageValues, Schemas, ValueUnusable
from tidemark.sources.large_lines import LargeLine
from tidemark.sources.source import AS_READ, DETAIL, REASON, TypedRows

if TYPE_CHECKING:
    from confluent_kafka import Message

_Header = tuple[str, bytes | str | None]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Confluent's `TIMESTAMP_NOT_AVAILABLE`: a message of before Kafka 0.10.
_NO_TIME = 0
_BLANK = b" \t\r\n"


@dataclass(frozen=True)
class AsLines:
    """Which further fields a line has (`fields`), how large a value may be by the pipeline, and how
    values are written, and keys; `keys` None: they are text. Where messages change rows, which row
    each is of, and which of them count."""

    fields: tuple[str, ...]
    most_bytes: int
    values: MessageValues
    keys: MessageValues | None = None
    row_keys: RowKeys | None = None
    newest: NewestMessages | None = None

    def needed(self, messages: Sequence[Message]) -> set[str]:
        """The ids of schemas that these messages name and that are not known."""
        found = self.values.needed(messages)
        return found | self.keys.needed(messages) if self.keys else found

    @property
    def ask_registry(self) -> bool:
        """Does reading them take schemas of a registry?"""
        return self.values.ask_registry or (self.keys is not None and self.keys.ask_registry)

    def typed(self, messages: Sequence[Message], most_bytes: int) -> TypedRows:
        """Messages in their order whose values are Avro, and all that their lines have."""
        from tidemark.sources.kafka.avro_columns import typed_records

        prefixed = [one.value() if self.values.header(one) is None else None for one in messages]
        rows, small = typed_records(prefixed, self.values.schemas, min(self.most_bytes, most_bytes))

        def lines(places: pa.Array[Any] | None) -> pa.Table:
            chosen = messages if places is None else [messages[n] for n in places.to_numpy()]
            return self.table(chosen, most_bytes)

        return TypedRows(rows, pa.table(_origin(messages)), small, lines)

    def table(self, messages: Sequence[Message], most_bytes: int) -> pa.Table:
        """The messages in their order, in the columns of `Slice.lines`; a value, and a line with
        its further fields, of more than `most_bytes` is too large by any pipeline."""
        lines = [self._line(message, most_bytes) for message in messages]
        columns: dict[str, pa.Array[Any]] = {
            "_value": pa.array([one.value for one in lines], pa.binary()),
            AS_READ: pa.array([one.as_read for one in lines], pa.binary()),
            REASON: pa.array([one.reason for one in lines], pa.string()),
            DETAIL: pa.array([one.detail for one in lines], pa.string()),
        }
        return pa.table({**columns, **_origin(messages)})

    def _line(self, message: Message, most_bytes: int) -> _Line:
        value, most = message.value(), min(self.most_bytes, most_bytes)
        if self.newest is not None and (verdict := self.newest.verdict(*_place(message))):
            large = value is not None and len(value) > most
            return _Line(LargeLine(value).shown if value and large else value, None, *verdict)
        if value is None:
            return _Line(None, None, NO_VALUE, "The message has no value (a tombstone)")
        if len(value) > most:
            return _too_large(value, "The value", most)
        try:
            said = self.values.line(value, self.values.header(message))
            row = said if self.row_keys is None else self.row_keys.row(said)
            line = spliced(row, self._fields(message)) if self.fields else row
        except ValueUnusable as error:
            return _Line(value, None, MALFORMED, str(error))
        if len(line) > most_bytes:
            with_fields = " with what is declared of the message" if self.fields else " as JSON"
            what = f"The value{with_fields}"
            return _too_large(line, what, most_bytes)
        return _Line(said, line, None, None)

    def _fields(self, message: Message) -> bytes:
        """The further fields as JSON without its braces."""
        found: dict[str, Any] = {}
        for name in self.fields:
            match name:
                case "_key" if self.keys is None:
                    found[KEY] = _text(message.key(), "The message's key")
                case "_kafka_time":
                    found[TIME] = _time(message)
                case "_headers":
                    found[HEADERS] = [
                        {"key": key, "value": _text(value, f"The message's header `{key}`")}
                        for key, value in cast("list[_Header]", message.headers() or [])
                    ]
                case "_topic":
                    found[TOPIC] = message.topic()
                case "_partition":
                    found[PARTITION] = message.partition()
                case "_offset":
                    found[OFFSET] = message.offset()
        fields = json.dumps(found, ensure_ascii=False).encode()[1:-1]
        if self.keys is None or KEY not in self.fields:
            return fields
        data = self.keys.bytes_of(message)
        key = b"null" if data is None else self.keys.line(data, self.keys.header(message))
        return f'"{KEY}": '.encode() + key + (b", " + fields if fields else b"")


def as_lines(
    pipeline: Pipeline,
    most_bytes: int,
    schemas: Schemas = MappingProxyType({}),
    newest: NewestMessages | None = None,
) -> AsLines:
    """A function that makes lines of messages, with the columns of the pipeline that are the
    message's own. `schemas`: those that are known of a registry, by their ids; `newest`: which
    count, where messages change rows."""
    source = pipeline.source
    assert isinstance(source, KafkaSource)
    declared = {column.path(name)[0] for name, column in source.columns.items()}
    fields = tuple(name for name in TYPES if name in declared)
    row_keys = RowKeys.of(source, schemas)
    text = (KEY not in declared and row_keys is None) or source.key_format == "text"
    keys = None if text else MessageValues(source.key_format, schemas, "key")
    values = MessageValues(source.format, schemas)
    return AsLines(fields, most_bytes, values, keys, row_keys, newest)


def spliced(value: bytes, fields: bytes) -> bytes:
    """The JSON object `value` with further fields in front; any other value as it is."""
    body = value.lstrip(_BLANK)
    if not body.startswith(b"{"):
        return value
    rest = body[1:]
    comma = b"" if rest.lstrip(_BLANK).startswith(b"}") else b","
    return b"{" + fields + comma + rest


def _place(message: Message) -> tuple[int, int]:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return partition, offset


def _origin(messages: Sequence[Message]) -> dict[str, pa.Array[Any]]:
    return {
        TOPIC: pa.array([one.topic() for one in messages], pa.string()),
        PARTITION: pa.array([one.partition() for one in messages], pa.int32()),
        OFFSET: pa.array([one.offset() for one in messages], pa.int64()),
    }


@dataclass(frozen=True)
class _Line:
    value: bytes | None
    as_read: bytes | None
    reason: str | None
    detail: str | None


def _too_large(line: bytes, what: str, most: int) -> _Line:
    large = LargeLine(line)
    return _Line(large.shown, None, TOO_LARGE, large.detail(what, most))


def _text(data: bytes | str | None, what: str) -> str | None:
    try:
        return data.decode() if isinstance(data, bytes) else data
    except UnicodeDecodeError as error:
        raise ValueUnusable(f"{what} is not UTF-8") from error


def _time(message: Message) -> str | None:
    kind, milliseconds = message.timestamp()
    if kind == _NO_TIME:
        return None
    try:
        time = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError as error:
        detail = f"Kafka's time of the message, {milliseconds} ms, is beyond the year 9999"
        raise ValueUnusable(detail) from error
    return time.isoformat(timespec="milliseconds")
