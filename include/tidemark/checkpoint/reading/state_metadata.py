"""What an operator's own files say of it: its name, its stores, the schema of their rows.

OperatorStateMetadata: `_metadata/metadata` (v1, Spark 4.0 or later) or `_metadata/v2/BATCH` (v2,
arbitrary state). StateSchemaCompatibilityChecker with SchemaHelper: `schema` files,
whose texts are Java's modified UTF-8 with a length before them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tidemark.checkpoint.reading.log_formats import (
    NotTheFormat,
    UnknownFormat,
    in_format,
    json_object,
    versioned_lines,
)
from tidemark.storage.json_text import json_value, long, number_of

NEWEST_SCHEMA = 3


@dataclass(frozen=True)
class OperatorMetadata:
    """An operator as the engine names it (`stateStoreSave`, `symmetricHashJoin` …), with the names
    of its stores. `partitions` is the number at the query's start: an offline repartition does not
    change it in v1. `prefix_columns`: so many columns of a key the engine looks up by, 0 where by
    all of them; the most that a store has."""

    version: int
    operator: int
    name: str
    stores: tuple[str, ...]
    partitions: int
    prefix_columns: int = 0


@dataclass(frozen=True)
class StateSchema:
    """The columns of a store's keys and values; empty where the version has another layout (v3)."""

    version: int
    key: tuple[str, ...] = ()
    value: tuple[str, ...] = ()


def parse_operator_metadata(data: bytes) -> OperatorMetadata:
    """Raises NotTheFormat or UnknownFormat, as the parsers of logs do."""
    version, lines = versioned_lines(data, newest=2)
    metadata = json_object("\n".join(lines))
    with in_format("no operatorInfo or stateStoreInfo"):
        info, stores = metadata["operatorInfo"], metadata["stateStoreInfo"]
        return OperatorMetadata(
            version,
            long(info["operatorId"]),
            str(info["operatorName"]),
            tuple(str(store["storeName"]) for store in stores),
            max((long(store["numPartitions"]) for store in stores), default=0),
            max((long(store.get("numColsPrefixKey", 0)) for store in stores), default=0),
        )


def parse_schema(data: bytes) -> StateSchema:
    """The schema file of a store; of v3 only the version. Raises as the parsers of logs do."""
    reader = _MetadataReader(data)
    version = reader.text()
    number = number_of(version.removeprefix("v"))
    if not version.startswith("v") or number is None or number > NEWEST_SCHEMA:
        raise UnknownFormat(version[:20])
    if number == NEWEST_SCHEMA:
        return StateSchema(NEWEST_SCHEMA)
    texts = reader.text if number == 1 else reader.chunks
    return StateSchema(number, tuple(_columns(texts())), tuple(_columns(texts())))


def _columns(schema: str) -> Iterator[str]:
    with in_format(repr(schema[:80])):
        fields: list[dict[str, Any]] = json_value(schema)["fields"]
        for field in fields:
            kind = field["type"]
            yield f"{field['name']}: {kind if isinstance(kind, str) else kind['type']}"


class _MetadataReader:
    """Java's DataInput, as far as schema files need it."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def text(self) -> str:
        (length,) = struct.unpack(">H", self._take(2))
        return self._take(length).decode(errors="replace")

    def chunks(self) -> str:
        (count,) = struct.unpack(">i", self._take(4))
        return "".join(self.text() for _ in range(count))

    def _take(self, length: int) -> bytes:
        taken = self._data[self._at : self._at + length]
        if len(taken) < length:
            raise NotTheFormat(f"{len(self._data)} bytes, which end too early")
        self._at += length
        return taken
