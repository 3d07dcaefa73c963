"""Kinds of values: a column's declared type, taken apart, and the Arrow type of its values."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

_TOKEN = re.compile(r"\s*(`[^`]+`|[\w']+|[<>(),:])")
# Spark's several words for one type (class DataTypeAstBuilder), and the Arrow type of each.
_SIMPLE: Mapping[str, tuple[str, pa.DataType]] = {
    **dict.fromkeys(("string",), ("string", pa.string())),
    **dict.fromkeys(("boolean",), ("boolean", pa.bool_())),
    **dict.fromkeys(("tinyint", "byte"), ("byte", pa.int8())),
    **dict.fromkeys(("smallint", "short"), ("short", pa.int16())),
    **dict.fromkeys(("int", "integer"), ("int", pa.int32())),
    **dict.fromkeys(("bigint", "long"), ("long", pa.int64())),
    **dict.fromkeys(("float", "real"), ("float", pa.float32())),
    **dict.fromkeys(("double",), ("double", pa.float64())),
    **dict.fromkeys(("date",), ("date", pa.date32())),
    **dict.fromkeys(("timestamp",), ("timestamp", pa.timestamp("us", "UTC"))),
    **dict.fromkeys(("binary",), ("binary", pa.binary())),
}
_DECIMALS = ("decimal", "dec", "numeric")
INTEGER_BITS = {"byte": 8, "short": 16, "int": 32, "long": 64}


@dataclass(frozen=True)
class SimpleKind:
    """A type without parts; `name` is one of `string`, `long`, `date` …, one word for each."""

    name: str


@dataclass(frozen=True)
class DecimalKind:
    """At most `precision` digits, `scale` of them after the point; `in_text`: also of a text."""

    precision: int
    scale: int
    in_text: bool = True


@dataclass(frozen=True)
class ArrayKind:
    """A list of values of one kind, any of which may be null."""

    item: Kind


@dataclass(frozen=True)
class MapKind:
    """Values of one kind by texts."""

    value: Kind


@dataclass(frozen=True)
class StructKind:
    """Fields by name; each may be missing or null."""

    fields: tuple[tuple[str, Kind], ...]


Kind = SimpleKind | DecimalKind | ArrayKind | MapKind | StructKind


def kind_of(type_text: str) -> Kind:
    """The kind that a type's text says, which `pipeline.column_types` has checked."""
    return _take_kind(deque(_TOKEN.findall(type_text)))


def arrow_type(kind: Kind) -> pa.DataType:
    """The type of a column of such values, as the tables have it."""
    match kind:
        case SimpleKind():
            return _ARROW[kind.name]
        case DecimalKind():
            return pa.decimal128(kind.precision, kind.scale)
        case ArrayKind():
            return pa.list_(arrow_type(kind.item))
        case MapKind():
            return pa.map_(pa.string(), arrow_type(kind.value))
        case StructKind():
            return pa.struct([(name, arrow_type(part)) for name, part in kind.fields])


_ARROW = dict(_SIMPLE.values())


def _take_kind(tokens: deque[str]) -> Kind:
    word = tokens.popleft().lower()
    if word in _SIMPLE:
        return SimpleKind(_SIMPLE[word][0])
    if word in _DECIMALS:
        return _take_decimal(tokens)
    tokens.popleft()
    kind = _take_nested(word, tokens)
    tokens.popleft()
    return kind


def _take_nested(word: str, tokens: deque[str]) -> Kind:
    if word == "array":
        return ArrayKind(_take_kind(tokens))
    if word == "map":
        tokens.popleft(), tokens.popleft()
        return MapKind(_take_kind(tokens))
    fields = [_take_field(tokens)]
    while tokens[0] == ",":
        tokens.popleft()
        fields.append(_take_field(tokens))
    return StructKind(tuple(fields))


def _take_field(tokens: deque[str]) -> tuple[str, Kind]:
    name = tokens.popleft().strip("`")
    if tokens[0] == ":":
        tokens.popleft()
    return name, _take_kind(tokens)


def _take_decimal(tokens: deque[str]) -> DecimalKind:
    """`decimal` alone is Spark's decimal(10,0)."""
    numbers: list[int] = []
    if tokens and tokens[0] == "(":
        while (token := tokens.popleft()) != ")":
            numbers += [int(token)] if token.isdecimal() else []
    precision, scale = [*numbers, 0][:2] if numbers else (10, 0)
    return DecimalKind(precision, scale)
