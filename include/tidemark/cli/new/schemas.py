"""What sources say themselves of their columns: the schemas of tables, Parquet and Avro files."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from tidemark.pipeline.column_types import is_wider, parse_type
from tidemark.sources.formats.formats import AVRO, PARQUET, format_of
from tidemark.storage.files import Options

# In place of types that no column here has; the first is Delta's name.
_WITHOUT_ZONE, _SEVERAL = "timestamp_ntz", "several types"
# By Arrow's names of types; whole numbers without a sign have the next larger type; UUIDs extend.
_ARROW = {"bool": "boolean", "int8": "byte", "int16": "short", "int32": "int", "int64": "long"}
_ARROW |= {"uint8": "short", "uint16": "int", "uint32": "long", "uint64": "decimal(20,0)"}
_ARROW |= {"halffloat": "float", "date32": "date", "date64": "date"}
_ARROW |= dict.fromkeys(("large_string", "string_view", "time32", "time64", "extension"), "string")
_ARROW |= dict.fromkeys(("large_binary", "binary_view", "fixed_size_binary"), "binary")
# By Avro's, and by those of its logical types that a line has otherwise than the type below.
_AVRO = {"bytes": "binary", "fixed": "binary", "enum": "string", "int-date": "date"}
_AVRO |= dict.fromkeys(("int-time-millis", "long-time-micros", "fixed-uuid"), "string")
for _in in ("millis", "micros", "nanos"):
    _AVRO |= {f"long-timestamp-{_in}": "timestamp", f"long-local-timestamp-{_in}": _WITHOUT_ZONE}
_NOT_HERE = {
    _WITHOUT_ZONE: "has timestamps without a zone inside, for which there is no type here",
    "?:": "has a field inside that cannot be named here",
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


def known_type(text: str, nullable: bool) -> KnownType | None:
    """What a type, in DDL, is to a pipeline; None for several types."""
    if _SEVERAL in text:
        return None
    if text == _WITHOUT_ZONE:
        return KnownType("string", nullable, "timestamps without a zone, as text")
    if text == "null":
        return _EMPTY
    try:
        parse_type(text)
    except ValueError as why:
        said = (what for mark, what in _NOT_HERE.items() if mark in text)
        return KnownType("", unusable=next(said, str(why)))
    return KnownType(text, nullable)


def struct_of(fields: Mapping[str, str]) -> str:
    """The DDL of a struct, `?` for a field that cannot be named there."""
    named = (f"{name if _FIELD.fullmatch(name) else '?'}: {kind}" for name, kind in fields.items())
    return f"struct<{', '.join(named)}>"


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
        columns = _parquet(file, options) if kind == PARQUET else _avro(file, options)
        for name, text, nullable in columns:
            found.setdefault(name, []).append(known_type(text, nullable))
    return {
        name: reduce(_wider, known, known[0] if len(known) == len(files) else _EMPTY)
        for name, known in found.items()
    }


def _wider(one: KnownType | None, other: KnownType | None) -> KnownType | None:
    """The type that takes both; a date is no timestamp in a line."""
    if one is None or other is None:
        return None
    if _EMPTY in (one, other):
        return replace(other if one == _EMPTY else one, nullable=True)
    one, other = (replace(known, nullable=one.nullable or other.nullable) for known in (one, other))
    for wide, narrow in ((one, other), (other, one)):
        is_wide = narrow.type not in ("", "date") and is_wider(wide.type, narrow.type)
        if is_wide or one == other:
            return wide
    return None


def _parquet(file: str, options: Options) -> Iterator[tuple[str, str, bool]]:
    from tidemark.sources.formats.parquet import parquet_schema

    for field in parquet_schema(file, options):
        yield field.name, _arrow_ddl(field.type), field.nullable


def _arrow_ddl(kind: Any) -> str:
    (name,) = re.findall(r"^[a-z_]+\d*", str(kind))
    match name:
        case "timestamp":
            return name if kind.tz else _WITHOUT_ZONE
        case "dictionary":
            return _arrow_ddl(kind.value_type)
        case "list" | "large_list" | "fixed_size_list":
            return f"array<{_arrow_ddl(kind.value_type)}>"
        case "map":
            return f"map<{_arrow_ddl(kind.key_type)},{_arrow_ddl(kind.item_type)}>"
        case "struct":
            return struct_of({one.name: _arrow_ddl(one.type) for one in kind})
    is_decimal = name.startswith("decimal")
    return f"decimal({kind.precision},{kind.scale})" if is_decimal else _ARROW.get(name, name)


def _avro(file: str, options: Options) -> Iterator[tuple[str, str, bool]]:
    from tidemark.sources.formats.avro import avro_schema

    named: dict[str, Any] = {}
    for field in avro_schema(file, options)["fields"]:
        kind = field["type"]
        yield field["name"], _avro_ddl(kind, named), isinstance(kind, list) and "null" in kind


def _avro_ddl(schema: Any, named: dict[str, Any]) -> str:
    """`named`: the types that have a name, by it, as far as they have come."""
    if isinstance(schema, str):
        return _avro_ddl(named[schema], named) if schema in named else _AVRO.get(schema, schema)
    if isinstance(schema, list):
        kinds = [_avro_ddl(one, named) for one in schema if one != "null"] or ["null"]
        return kinds[0] if len(kinds) == 1 else _SEVERAL
    named |= {schema["name"]: schema} if "name" in schema else {}
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        return f"decimal({schema['precision']},{schema.get('scale', 0)})"
    match kind:
        case "record":
            return struct_of(
                {one["name"]: _avro_ddl(one["type"], named) for one in schema["fields"]}
            )
        case "array":
            return f"array<{_avro_ddl(schema['items'], named)}>"
        case "map":
            return f"map<string,{_avro_ddl(schema['values'], named)}>"
    return _AVRO.get(f"{kind}-{logical}") or _avro_ddl(kind, named)
