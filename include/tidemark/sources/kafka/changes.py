"""Messages that change rows: which is the newest of its key, and what becomes of the others.

`upsert`: a message is the row that its key names, as it is from now on; one without a value
deletes that row. `debezium`: a change event, whose `after` is the row and whose operation `d`
deletes it; as JSON it may stand in a `payload` beside its schema, and so may the key. An event
without a value follows one that deletes, for compaction. Source: debezium.io, the connectors'
sections *Data change events*, and *Avro Serialization*.

Which message is newer its offset says: messages of one key lie in one partition. A message counts
by its key alone, so that one that is rejected takes the place of the row of before, too.

Of a large value that an update left as it was, databases tell Debezium nothing, and `after` has a
placeholder in its place: a text, of bytes their base64 or hex, an array of it, a map of it to
itself, that map as text; of arrays of numbers and dates its bytes, of UUIDs one made of them; of
PostGIS's geometries and geographies, and of points, a place that nobody is at. Values of Avro come
here as JSON too, so bytes are base64. Source: debezium.io, *Toasted values* and
`unavailable.value.placeholder`; its UnchangedToastedPlaceholder.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

import numpy as np
import pyarrow as pa

from tidemark.errors import InputNeeded, SourceRefused
from tidemark.judge.json_text import LineReader, NotAnObject, Number, json_text
from tidemark.pipeline.model import KafkaSource
from tidemark.pipeline.reasons import NO_KEY, ROW_DELETED, SUPERSEDED
from tidemark.pipeline.row_key import key_text
from tidemark.sources.kafka.offsets import OffsetRange
from tidemark.sources.kafka.values import MessageValues, Schemas, ValueUnusable

if TYPE_CHECKING:
    from confluent_kafka import Message

Form = Literal["upsert", "debezium"]
# In the place of the offset of a newer message.
_DELETES, _NO_KEY = -1, -2
_WRITES, _REMOVES, _EMPTIES = ("c", "r", "u"), "d", "t"
_FIELDS: list[pa.Field[Any]] = [
    pa.field("key", pa.string()),
    pa.field("part", pa.int32()),
    pa.field("place", pa.int64()),
    pa.field("deletes", pa.bool_()),
    pa.field("lacks", pa.string()),
    pa.field("whole", pa.binary()),
]
_READ = pa.schema(_FIELDS)
_MOST_SHOWN = 5
_PLACEHOLDER = "__debezium_unavailable_value"
_ITS_BYTES = _PLACEHOLDER.encode()
# Of a point each coordinate; of a geometry and a geography the point as WKB: that one, and
# (179.999999, 89.999999).
_NOWHERE = -99_999_999
_GEOMETRY = bytes.fromhex("0101000020e6100000000000fc83d797c1000000fc83d797c1")
_GEOGRAPHY = bytes.fromhex("0101000020e61000000c21e7fdff7f66401842cefbff7f5640")
_OF_BYTES = (_ITS_BYTES, _GEOMETRY, _GEOGRAPHY)
_PLACEHOLDERS = {
    *(_PLACEHOLDER, json.dumps({_PLACEHOLDER: _PLACEHOLDER}, separators=(",", ":"))),
    *(base64.b64encode(one).decode() for one in _OF_BYTES),
    *(one.hex() for one in _OF_BYTES),
    str(UUID(bytes=hashlib.md5(_ITS_BYTES, usedforsecurity=False).digest(), version=3)),
}
# An array with an element for each byte: whole numbers, floating ones, and days as Avro has them.
_ARRAYS: tuple[list[Any], ...] = (
    [str(byte).encode() for byte in _ITS_BYTES],
    [f"{byte}.0".encode() for byte in _ITS_BYTES],
    [(date(1970, 1, 1) + timedelta(byte)).isoformat() for byte in _ITS_BYTES],
)


@dataclass(frozen=True)
class RowKeys:
    """How the row is told that a message changes: by the fields at `paths` of the message's key, or
    by all of a key that is text (its one path is empty); and how values and keys are written. A key
    of Debezium that is text is JSON. `taken`: the fields of a row that bronze takes; None: all."""

    form: Form
    paths: tuple[tuple[str, ...], ...]
    values: MessageValues
    keys: MessageValues
    taken: frozenset[str] | None = None

    @classmethod
    def of(cls, source: KafkaSource, schemas: Schemas = MappingProxyType({})) -> RowKeys | None:
        """Those of a source; None where its messages change no rows. `schemas`: those that are
        known of a registry."""
        form = source.kafka.changes
        if form is None:
            return None
        paths = tuple(source.columns[name].path(name) for name in source.followed_key)
        if form == "upsert" and source.key_format == "text":
            paths = ((),)
        values = MessageValues(source.format, schemas)
        taken = None
        if source.unknown_fields == "ignore":
            taken = frozenset(one.path(name)[0] for name, one in source.columns.items())
        return cls(form, paths, values, MessageValues(source.key_format, schemas, "key"), taken)

    def needed(self, messages: Sequence[Message]) -> set[str]:
        """The ids of schemas that these messages name and that are not known."""
        return self.values.needed(messages) | self.keys.needed(messages)

    def change(
        self, message: Message, lines: LineReader
    ) -> tuple[str | None, bool, str | None, bytes | None]:
        """The key of the row as text, is the row deleted, a field whose value the message does not
        tell, and a digest of a message's key that has other fields too. No key: the message names
        no row. SourceRefused where it empties the table."""
        key, whole = self._key(message, lines)
        return (*self._change(message, lines, key), whole)

    def _change(
        self, message: Message, lines: LineReader, key: str | None
    ) -> tuple[str | None, bool, str | None]:
        value = message.value()
        if self.form == "upsert" or value is None:
            return key, value is None, None
        try:
            event = _payload(lines.read(self.values.line(value, self.values.header(message))))
        except (NotAnObject, ValueUnusable):
            return key, False, None
        operation = event.get("op")
        if operation == _EMPTIES:
            raise SourceRefused(
                f"The message of topic {message.topic()}, partition {message.partition()}, offset "
                f"{message.offset()}, says that the table was emptied (truncate), and names no "
                "row. Nothing was read. Let a pipeline of a new name read the topic from behind "
                "it (source.kafka.starting)."
            )
        after = event.get("after")
        if operation not in _WRITES or type(after) is not dict:
            return key, operation == _REMOVES, None
        if self._told_by(after) != key:
            return None, False, None
        return key, False, next((name for name in after if self._lacks(name, after[name])), None)

    def _lacks(self, name: str, value: Any) -> bool:
        return (self.taken is None or name in self.taken) and _has_placeholder(value)

    def row(self, value: bytes) -> bytes:
        """The row of a value that writes one; ValueUnusable where it is none."""
        if self.form == "upsert":
            return value
        try:
            event = _payload(LineReader().read(value))
        except NotAnObject as error:
            raise ValueUnusable(str(error)) from None
        after = event.get("after")
        if event.get("op") not in _WRITES or type(after) is not dict:
            raise ValueUnusable(
                f"No change event of Debezium: its `op` is {_shown(event.get('op'))}, its `after` "
                f"{'an object' if type(after) is dict else _shown(after)}"
            )
        return json_text(after).encode()

    def _key(self, message: Message, lines: LineReader) -> tuple[str | None, bytes | None]:
        data = message.key()
        if data is None:
            return None, None
        try:
            if self.keys.format in ("avro", "json_schema"):
                data = self.keys.line(data, self.keys.header(message))
            text = data.decode()
        except (UnicodeDecodeError, ValueUnusable):
            return None, None
        if self.paths == ((),):
            return text, None
        # A key that is one value is no line.
        try:
            found: Any = lines.read(b'{"_key":' + text.encode() + b"}")
        except NotAnObject:
            return None, None
        if self.form == "debezium":
            found = found["_key"]
            found = _payload(found) if type(found) is dict else None
        whole = _leaves(found)
        more = len(whole) > len(self.paths)
        digest = hashlib.blake2b(repr(whole).encode(), digest_size=16).digest() if more else None
        return self._told_by(found), digest

    def _told_by(self, fields: Any) -> str | None:
        """What they have at the paths; None where one is none."""
        texts = []
        for path in self.paths:
            found = fields
            for name in path:
                found = found.get(name) if type(found) is dict else None
            texts.append(_text(found))
        known = [one for one in texts if one is not None]
        return key_text(known) if len(known) == len(texts) else None


def _leaves(value: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], str]]:
    """What a key says, each value with its path, whatever the order of its fields."""
    if type(value) is not dict:
        return [(path, json_text(value))]
    return sorted(one for name in value for one in _leaves(value[name], (*path, name)))


def _payload(event: dict[str, Any]) -> dict[str, Any]:
    """Of an event or a key with its schema, what it says."""
    inner = event.get("payload")
    return inner if "schema" in event and type(inner) is dict else event


def _has_placeholder(value: Any) -> bool:
    """Does a value, or one within it, stand for one that the database did not tell?"""
    kind = type(value)
    if kind is str:
        return value in _PLACEHOLDERS
    if kind is list:
        return value in _ARRAYS or any(map(_has_placeholder, value))
    if kind is not dict:
        return False
    is_point = _is_nowhere(value.get("x")) and _is_nowhere(value.get("y"))
    return is_point or any(map(_has_placeholder, value.values()))


def _is_nowhere(value: Any) -> bool:
    # Java writes it as -9.9999999E7.
    return type(value) is Number and float(value) == _NOWHERE


def _text(value: Any) -> str | None:
    """Text, or a whole number as bronze's key has it as text; None of any other value."""
    if type(value) is Number:
        number = str(value, "ascii")
        if not number.removeprefix("-").isdecimal():
            return None
        return "0" if number == "-0" else number
    return value if type(value) is str else None


def _shown(value: Any) -> str:
    return json.dumps(value if value is None or type(value) is str else "another value")


@dataclass(frozen=True)
class NewestMessages:
    """Of messages that change rows, which count.

    `keys`: of each row that is named, the partition, and whether it is deleted now. `others`: by
    partition the offsets of messages that are no row of now, in their order, and for each of them
    the offset of the one that counts instead, or why there is none.
    """

    keys: Mapping[str, tuple[int, bool]]
    others: Mapping[int, tuple[Any, Any]]

    def verdict(self, partition: int, offset: int) -> tuple[str, str] | None:
        """Why a message is no row, as a reject's reason and detail; None: it is one."""
        offsets, newer = self.others.get(partition, (np.empty(0, np.int64), None))
        place = int(np.searchsorted(offsets, offset))
        if newer is None or place == len(offsets) or offsets[place] != offset:
            return None
        match int(newer[place]):
            case -1:
                return ROW_DELETED, "The message says that the row of its key is deleted"
            case -2:
                return NO_KEY, "The message's key does not tell which row it changes"
            case by:
                return (
                    SUPERSEDED,
                    f"The message at offset {by} has the row of this key as it is now",
                )

    def only(self, ranges: Iterable[OffsetRange]) -> NewestMessages:
        """What says whether messages of these ranges count: it goes to the task that reads them."""
        others = {}
        for one in ranges:
            if one.partition in self.others:
                offsets, newer = self.others[one.partition]
                first, end = np.searchsorted(offsets, [one.first, one.first + one.number])
                others[one.partition] = offsets[first:end], newer[first:end]
        return NewestMessages({}, others)


def newest_messages(
    pieces: Iterable[Sequence[Message]], keys: RowKeys, with_keys: bool = False
) -> NewestMessages:
    """Of messages of one topic, each read once; the keys where they are asked for.

    SourceRefused where messages of a key lie in several partitions, so that it is not told which is
    newer; where their own keys differ in other fields; where the newest of a key does not tell all
    of its row; and as `RowKeys.change`. InputNeeded where they name schemas that are not known.
    """
    # Tasks import this module, and do without it.
    from tidemark.storage.duckdb_in_utc import duckdb_in_utc

    lines, read = LineReader(), [_READ.empty_table()]
    for messages in pieces:
        if needed := keys.needed(messages):
            raise InputNeeded(tuple(sorted(needed)))
        found = [keys.change(one, lines) for one in messages]
        columns: list[Any] = [
            [key for key, _, _, _ in found],
            [one.partition() for one in messages],
            [one.offset() for one in messages],
            [deletes for _, deletes, _, _ in found],
            [lacks for _, _, lacks, _ in found],
            [whole for _, _, _, whole in found],
        ]
        read.append(pa.table(dict(zip(_READ.names, columns, strict=True)), _READ))
    with duckdb_in_utc() as connection:
        connection.register("messages", pa.concat_tables(read))
        connection.execute(
            f"""
            CREATE TEMP TABLE found AS
            SELECT *,
                key IS NOT NULL AND min(part) OVER same < max(part) OVER same AS is_apart,
                key IS NOT NULL AND min(whole) OVER same < max(whole) OVER same AS differs,
                CASE
                    WHEN key IS NULL THEN {_NO_KEY}
                    WHEN max(place) OVER same > place THEN max(place) OVER same
                    WHEN deletes THEN {_DELETES}
                END AS newer
            FROM messages WINDOW same AS (PARTITION BY key)
            """
        )
        apart, differing = (
            connection.sql(f"SELECT DISTINCT key FROM found WHERE {one} ORDER BY key").fetchall()
            for one in ("is_apart", "differs")
        )
        if differing:
            raise _several_rows([str(key) for (key,) in differing])
        check_in_one_partition([str(key) for (key,) in apart])
        lacking = connection.execute(
            """
            SELECT part, place, lacks FROM found WHERE newer IS NULL AND lacks IS NOT NULL
            ORDER BY part, place LIMIT 1
            """
        ).fetchone()
        if lacking:
            raise _not_whole(*lacking)
        newest = connection.sql(
            """
            SELECT key, part, deletes FROM found
            WHERE key IS NOT NULL AND coalesce(newer, -1) = -1 ORDER BY key
            """
        )
        rows = newest.fetchall() if with_keys else []
        others = connection.sql(
            "SELECT part, place, newer FROM found WHERE newer IS NOT NULL ORDER BY part, place"
        ).fetchnumpy()
    parts = np.asarray(others["part"])
    return NewestMessages(
        {key: (part, deletes) for key, part, deletes in rows},
        {
            int(one): (
                np.asarray(others["place"])[parts == one],
                np.asarray(others["newer"])[parts == one],
            )
            for one in np.unique(parts)
        },
    )


def _not_whole(partition: int, offset: int, field: str) -> SourceRefused:
    return SourceRefused(
        f"The message of partition {partition}, offset {offset}, does not tell its row's value of "
        f"`{field}`: there is the placeholder that Debezium sends for a large value which an "
        f"update left as it was ({_PLACEHOLDER}). Nothing was read. Set REPLICA IDENTITY FULL for "
        "the table (PostgreSQL), or have Debezium's reselect columns post processor fill such "
        "values in. Then update the row, so that a newer message has all of it, and run again; "
        "where that is refused too, let a pipeline of a new name read the topic."
    )


def _several_rows(keys: Sequence[str]) -> SourceRefused:
    return SourceRefused(
        "The messages' own keys have other fields than source.kafka.key, and differ in them where "
        f"it is the same ({_some(keys)}), so which rows they change is not told. Nothing was read. "
        "Let a pipeline of a new name read the topic, whose source.kafka.key has all columns that "
        "tell the rows apart."
    )


def _some(keys: Sequence[str]) -> str:
    return ", ".join(keys[:_MOST_SHOWN]) + (" …" if len(keys) > _MOST_SHOWN else "")


def check_in_one_partition(apart: Sequence[str]) -> None:
    """SourceRefused where there are keys whose messages lie in several partitions."""
    if apart:
        raise SourceRefused(
            f"Messages of one key lie in several partitions ({_some(apart)}), so which of them is "
            "newer is not told. Nothing was read. Has the topic more partitions than before, or "
            "has it writers of another partitioner? Copy it to one whose keys lie in one partition "
            "each, and let a pipeline of a new name read that."
        )
