"""The columns of a Delta table in the words of a pipeline's file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidemark.cli.new.sample import KnownType
from tidemark.pipeline.column_types import parse_type

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Delta's names of primitive types (its protocol, "Primitive Types"), and a pipeline's.
_TYPES = {
    **dict.fromkeys(["string", "long", "short", "byte", "float", "double"]),
    **dict.fromkeys(["boolean", "binary", "date", "timestamp"]),
    "integer": "int",
}
_WITHOUT_ZONE = "timestamp_ntz"
_FIELD = re.compile(r"\w+", re.ASCII)


class _NoType(ValueError):
    """No type of a pipeline's columns holds it; the text says why."""


def schema_of(table: DeltaTable) -> dict[str, KnownType]:
    """By column, in the table's order."""
    fields = json.loads(table.schema().to_json())["fields"]
    return {one["name"]: _known(one["type"], bool(one["nullable"])) for one in fields}


def _known(kind: Any, nullable: bool) -> KnownType:
    if kind == _WITHOUT_ZONE:
        return KnownType("string", nullable, "timestamps without a zone, as text")
    try:
        text = _ddl(kind)
        parse_type(text)
    except ValueError as why:
        return KnownType("", unusable=str(why))
    return KnownType(text, nullable)


def _ddl(kind: Any) -> str:
    if isinstance(kind, str):
        return _simple(kind)
    match kind["type"]:
        case "array":
            return f"array<{_ddl(kind['elementType'])}>"
        case "map" if kind["keyType"] == "string":
            return f"map<string,{_ddl(kind['valueType'])}>"
        case "map":
            raise _NoType(f"is a map with keys of type {kind['keyType']}; here they are text")
    return f"struct<{', '.join(_fields(kind['fields']))}>"


def _simple(kind: str) -> str:
    if kind.startswith("decimal"):
        return kind
    if kind == _WITHOUT_ZONE:
        raise _NoType("has timestamps without a zone inside, for which there is no type here")
    if kind not in _TYPES:
        raise _NoType(f"is of type {kind}, which no column here can have")
    return _TYPES[kind] or kind


def _fields(fields: Sequence[Mapping[str, Any]]) -> list[str]:
    for one in fields:
        if not _FIELD.fullmatch(one["name"]):
            raise _NoType(f"has a field {one['name']!r} inside, which cannot be named here")
    return [f"{one['name']}: {_ddl(one['type'])}" for one in fields]
