"""What sources say themselves of their columns: the schemas of tables, Parquet and Avro files.

Each is told as Delta's own JSON of types (its protocol, "Schema Serialization Format"), and of that
the type of a pipeline's column that takes the values as a source's lines have them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from tidemark.pipeline.column_types import is_wider, parse_type
from tidemark.sources.formats.formats import AVRO, PARQUET, format_of
from tidemark.storage.files import FileMissing, Options, stat_files

# Delta's names of primitive types (its protocol, "Primitive Types"), and a pipeline's.
_TYPES = {
    **dict.fromkeys(["string", "long", "short", "byte", "float", "double"]),
    **dict.fromkeys(["boolean", "binary", "date", "timestamp"]),
    "integer": "int",
}
_WITHOUT_ZONE = "timestamp_ntz"
# Arrow's names of types, and Delta's; whole numbers without a sign have the next larger type.
_ARROW = {
    "bool": "boolean",
    "int8": "byte",
    "int16": "short",
    "int32": "integer",
    "int64": "long",
    "uint8": "short",
    "uint16": "integer",
    "uint32": "long",
    "uint64": "decimal(20,0)",
    "halffloat": "float",
    "date32": "date",
    "date64": "date",
    **dict.fromkeys(("large_string", "string_view", "time32", "time64"), "string"),
    **dict.fromkeys(("large_binary", "binary_view", "fixed_size_binary"), "binary"),
}
_LISTS = ("list", "large_list", "fixed_size_list")
_AVRO = {"int": "integer", "bytes": "binary", "fixed": "binary", "enum": "string"}
_UNITS = ("millis", "micros", "nanos")
# Those of its logical types that the lines have otherwise than the type below.
_LOGICAL = {
    **dict.fromkeys((f"long-timestamp-{unit}" for unit in _UNITS), "timestamp"),
    **dict.fromkeys((f"long-local-timestamp-{unit}" for unit in _UNITS), _WITHOUT_ZONE),
    **dict.fromkeys(("int-time-millis", "long-time-micros", "fixed-uuid"), "string"),
    "int-date": "date",
}
_FIELD = re.compile(r"\w+", re.ASCII)


@dataclass(frozen=True)
class KnownType:
    """What the source itself says of a column: its type in a pipeline's words, and whether it may
    be null. `note` tells people what of it is lost; `unusable` why it can be no column."""

    type: str
    nullable: bool = True
    note: str = ""
    unusable: str = ""


# A column that a file has no values of.
_EMPTY = KnownType("", unusable="null in each row")


class _NoType(ValueError):
    """No type of a pipeline's columns holds it; the text says why."""


class _SeveralTypes(Exception):
    """Its values may be of several types."""


def known_type(kind: Any, nullable: bool) -> KnownType:
    """What a type, as Delta writes it, is to a pipeline."""
    if kind == _WITHOUT_ZONE:
        return KnownType("string", nullable, "timestamps without a zone, as text")
    if kind == "null":
        return _EMPTY
    try:
        text = _ddl(kind)
        parse_type(text)
    except ValueError as why:
        return KnownType("", unusable=str(why))
    return KnownType(text, nullable)


def schema_of_files(
    files: Collection[str], options: Options
) -> Mapping[str, KnownType | None] | None:
    """The columns of Parquet and Avro files by their own schemas, None where not all are such
    files. Of a column's types that which takes the others; None where none does, or where a schema
    says several: its values have to tell."""
    found: dict[str, list[KnownType | None]] = {}
    for file in files:
        kind = format_of(None, file)
        if kind not in (PARQUET, AVRO):
            return None
        columns = _of_parquet(file, options) if kind == PARQUET else _of_avro(file, options)
        for name, known in columns.items():
            found.setdefault(name, []).append(known)
    lacking: list[KnownType | None] = [_EMPTY]
    return {
        name: reduce(_wider, known if len(known) == len(files) else known + lacking)
        for name, known in found.items()
    }


def _wider(one: KnownType | None, other: KnownType | None) -> KnownType | None:
    """The type that takes both; a date is no timestamp in a line."""
    if one is None or other is None:
        return None
    if _EMPTY in (one, other):
        return replace(other if one == _EMPTY else one, nullable=True)
    nullable = one.nullable or other.nullable
    if replace(one, nullable=True) == replace(other, nullable=True):
        return replace(one, nullable=nullable)
    for wide, narrow in ((one, other), (other, one)):
        if narrow.type not in ("", "date") and is_wider(wide.type, narrow.type):
            return replace(wide, nullable=nullable)
    return None


def _of_parquet(file: str, options: Options) -> dict[str, KnownType | None]:
    from tidemark.sources.formats.parquet import parquet_schema

    schema = parquet_schema(file, options)
    return {one.name: known_type(_arrow_kind(one.type), one.nullable) for one in schema}


def _arrow_kind(kind: Any) -> Any:
    (name,) = re.findall(r"^[a-z_]+\d*", str(kind))
    if name == "timestamp":
        return "timestamp" if kind.tz else _WITHOUT_ZONE
    if name == "dictionary":
        return _arrow_kind(kind.value_type)
    if name == "struct":
        return _struct({one.name: _arrow_kind(one.type) for one in kind})
    if name == "map":
        return _map(_arrow_kind(kind.key_type), _arrow_kind(kind.item_type))
    if name in _LISTS:
        return _array(_arrow_kind(kind.value_type))
    if name.startswith("decimal"):
        return f"decimal({kind.precision},{kind.scale})"
    return _ARROW.get(name, str(kind))


def _of_avro(file: str, options: Options) -> dict[str, KnownType | None]:
    from tidemark.sources.formats.avro import avro_slice

    facts = stat_files([file], options)[file]
    if facts is None:
        raise FileMissing(f"{file} could not be read: there is no such file.")
    schema = avro_slice(file, facts, options).schema()
    named: dict[str, Any] = {}
    found: dict[str, KnownType | None] = {}
    for field in schema["fields"]:
        branches = field["type"] if isinstance(field["type"], list) else [field["type"]]
        try:
            kind = _avro_kind(field["type"], named)
            found[field["name"]] = known_type(kind, nullable="null" in branches)
        except _SeveralTypes:
            found[field["name"]] = None
    return found


def _avro_kind(schema: Any, named: dict[str, Any]) -> Any:
    """`named`: the types that have a name, by it, as far as they have come."""
    if isinstance(schema, str):
        return _avro_kind(named[schema], named) if schema in named else _AVRO.get(schema, schema)
    if isinstance(schema, list):
        branches = [one for one in schema if one != "null"]
        if len(branches) > 1:
            raise _SeveralTypes
        return _avro_kind(branches[0] if branches else "null", named)
    named |= {schema["name"]: schema} if "name" in schema else {}
    kind = schema["type"]
    logical = f"{kind}-{schema.get('logicalType')}"
    if logical in ("bytes-decimal", "fixed-decimal"):
        return f"decimal({schema['precision']},{schema.get('scale', 0)})"
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if kind == "record":
        return _struct({one["name"]: _avro_kind(one["type"], named) for one in schema["fields"]})
    if kind == "map":
        return _map("string", _avro_kind(schema["values"], named))
    if kind == "array":
        return _array(_avro_kind(schema["items"], named))
    return _avro_kind(kind, named)


def _array(item: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": item}


def _map(key: Any, value: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": value}


def _struct(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": [{"name": k, "type": v} for k, v in fields.items()]}


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
    if kind.startswith("decimal("):
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
