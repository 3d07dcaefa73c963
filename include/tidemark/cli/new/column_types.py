"""Which type of a pipeline's columns takes the values of a JSON field.

By the ingest's own strict rules, which no general reader of JSON has: a quoted number is text, a
number is no text, and a whole number that is written with a point is a double.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from tidemark.pipeline.names import folded

# Of a column's values so many are of one type that the others are taken for mistakes.
MOST = 0.9
_NUMBERS = ("long", "decimal(38,0)", "double")
_LONG = 2**63
_DECIMAL = 10**38
_FIELD = re.compile(r"[A-Za-z]\w*", re.ASCII)
_FAMILIES = {bool: "boolean", int: "number", float: "number", str: "text", list: "array"}


class Untyped(ValueError):
    """No type takes the values; the message says why."""


@dataclass(frozen=True)
class Array:
    """An array whose items are of one type; None where no item is known."""

    item: Kind | None


@dataclass(frozen=True)
class Struct:
    """An object whose fields have types, in the order in which they came; None as above."""

    fields: tuple[tuple[str, Kind | None], ...]


Kind = str | Array | Struct


def type_of(values: Sequence[Any]) -> tuple[str, int]:
    """The DDL type of values that are not null, and how many of them it does not take.

    It takes at least MOST of them. Raises Untyped where there is no such type.
    """
    families = Counter(family(value) for value in values)
    if not families:
        raise Untyped("null in each row")
    name, count = families.most_common(1)[0]
    if count < MOST * len(values):
        summary = ", ".join(f"{name} in {n:,}" for name, n in families.most_common())
        raise Untyped(f"of several types ({summary})")
    fitting = [_kind(value) for value in values if family(value) == name]
    return _ddl(reduce(_merged, fitting)), len(values) - count


def family(value: Any) -> str:
    """What JSON calls the value."""
    return _FAMILIES.get(type(value), "object")


def _kind(value: Any) -> Kind | None:
    match value:
        case None:
            return None
        case bool():
            return "boolean"
        case int():
            return "long" if -_LONG <= value < _LONG else _wide(value)
        case float():
            if not math.isfinite(value):
                raise Untyped("a number beyond the range of doubles")
            return "double"
        case str():
            return "string"
        case list():
            return Array(reduce(_merged, map(_kind, value), None))
        case _:
            return Struct(tuple((name, _kind(inner)) for name, inner in value.items()))


def _wide(value: int) -> str:
    # A double would make one value of many: account numbers, say.
    if abs(value) >= _DECIMAL:
        raise Untyped("a whole number of more than 38 digits, which no type holds")
    return "decimal(38,0)"


def _merged(one: Kind | None, other: Kind | None) -> Kind | None:
    """The type that takes what both take."""
    if one is None or other is None or one == other:
        return other if one is None else one
    match one, other:
        case str(), str() if one in _NUMBERS and other in _NUMBERS:
            return max(one, other, key=_NUMBERS.index)
        case Array(), Array():
            return Array(_merged(one.item, other.item))
        case Struct(), Struct():
            fields = dict(one.fields)
            for name, kind in other.fields:
                fields[name] = _merged(fields.get(name), kind)
            return Struct(tuple(fields.items()))
    raise Untyped("parts of several types")


def _ddl(kind: Kind | None) -> str:
    match kind:
        case None:
            raise Untyped("parts that are null or empty in each row")
        case str():
            return kind
        case Array():
            return f"array<{_ddl(kind.item)}>"
    names = [name for name, _ in kind.fields]
    if not names:
        raise Untyped("an object without fields")
    if len(set(map(folded, names))) < len(names) or not all(map(_FIELD.fullmatch, names)):
        raise Untyped("fields inside whose names cannot be columns'")
    return f"struct<{', '.join(f'{name}: {_ddl(inner)}' for name, inner in kind.fields)}>"
