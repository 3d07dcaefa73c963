"""Values as a fold sees them and puts them out: the same, whoever brings a row.

The engine, and who reads bronze, have a row's values from Arrow, a map as a list of pairs, which
only its column's type tells from an array: so both read by the type. In tests users give them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation, localcontext
from math import copysign
from typing import Any

import pyarrow as pa

from tidemark.pipeline.fold_types import element_of

_WHOLE = {
    **dict.fromkeys(("byte", "tinyint"), 8),
    **dict.fromkeys(("short", "smallint"), 16),
    **dict.fromkeys(("int", "integer"), 32),
    **dict.fromkeys(("long", "bigint"), 64),
}


_AS_THEY_ARE = frozenset({str, int, float, bool, type(None), Decimal, bytes, date})


class Unfit(Exception):
    """A value that is none of its column's type; the message says what it is."""


def plain(value: Any) -> Any:
    """A column's value as a fold sees it: instants in UTC, structs and maps as dicts."""
    if type(value) in _AS_THEY_ARE:
        return value
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    if isinstance(value, dict):
        return {plain(name): plain(one) for name, one in value.items()}
    if isinstance(value, tuple) and hasattr(value, "__fields__"):
        return {name: plain(one) for name, one in zip(value.__fields__, value, strict=True)}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return bytes(value) if isinstance(value, bytearray) else value


def reader(kind: pa.DataType) -> Callable[[Any], Any]:
    """What makes a value as a fold sees it out of one that Arrow gives of this type (`as_py`).

    A map's entries are in the order of their keys; where these cannot be a dict's, it stays a list
    of pairs.
    """
    if isinstance(kind, pa.MapType):
        return _unless_null(_map_reader(kind))
    if isinstance(kind, pa.StructType):
        parts = {field.name: reader(field.type) for field in kind}
        return _unless_null(lambda value: {name: read(value[name]) for name, read in parts.items()})
    if isinstance(kind, pa.ListType | pa.LargeListType):
        element = reader(kind.value_type)
        return _unless_null(lambda value: [element(one) for one in value])
    return plain


def _map_reader(kind: pa.MapType[Any, Any, Any]) -> Callable[[Any], Any]:
    key, item = reader(kind.key_type), reader(kind.item_type)
    made: Callable[[Any], Any] = list if pa.types.is_nested(kind.key_type) else dict

    def read(value: Any) -> Any:
        pairs = [(key(name), item(one)) for name, one in value]
        # Else rows with the same entries would come in the order in which they arrived.
        return made(sorted(pairs, key=lambda pair: ordered(pair[0])))

    return read


def read_rows(columns: Sequence[pa.ChunkedArray[Any]]) -> list[tuple[Any, ...]]:
    """The rows of Arrow's columns, as a fold sees them."""
    read = [map(reader(column.type), column.to_pylist()) for column in columns]
    return list(zip(*read, strict=True))


def copied(value: Any) -> Any:
    """A value that nobody else has: lists, dicts and a map's pairs are new, all else cannot be
    changed."""
    if isinstance(value, list):
        return [copied(one) for one in value]
    if isinstance(value, tuple):
        return tuple(copied(one) for one in value)
    if isinstance(value, dict):
        return {name: copied(one) for name, one in value.items()}
    return value


def ordered(value: Any) -> Any:
    """What any two values of a column are compared by, null first and NaN last. Values that are
    the same in this are the same to see, else the order of rows would be that of their arrival."""
    if value is None:
        return (0,)
    if isinstance(value, dict):
        return (1, *sorted((str(name), ordered(one)) for name, one in value.items()))
    # Tuples: the pairs of a map whose keys cannot be a dict's.
    if isinstance(value, list | tuple):
        return (1, *map(ordered, value))
    if isinstance(value, float):
        return (2,) if value != value else (1, value, copysign(1, value))
    return (1, value)


def converter(kind: str) -> Callable[[Any], Any]:
    """What makes a value of an emitted column out of what a class gives; it raises Unfit.

    It is of the column's plain type: another process may lack a class of its own (`seeds.py`).
    """
    return _unless_null(_converter(kind))


def _converter(kind: str) -> Callable[[Any], Any]:
    """Of values that are not null."""
    if (element := element_of(kind)) is not None:
        return _array(kind, converter(element))
    if kind in _WHOLE:
        return _whole(kind, _WHOLE[kind])
    if kind.startswith(("decimal", "dec", "numeric")):
        return _decimal(kind)
    return _SIMPLE[kind]


def _unless_null(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _array(kind: str, element: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise _unfit(value, kind)
        return [element(one) for one in value]

    return convert


def _whole(kind: str, bits: int) -> Callable[[Any], Any]:
    largest = 1 << (bits - 1)

    def convert(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int):
            raise _unfit(value, kind)
        if not -largest <= value < largest:
            raise Unfit(f"a number is too large for a column of type {kind}")
        return int(value)

    return convert


def _decimal(kind: str) -> Callable[[Any], Any]:
    _, _, inside = kind.partition("(")
    given = [int(part) for part in inside.rstrip(")").split(",") if part]
    precision, scale = (given[0] if given else 10), (given[1] if len(given) > 1 else 0)

    def convert(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise _unfit(value, kind)
        number = Decimal(value)
        with localcontext(prec=80):
            try:
                found = number.quantize(Decimal(1).scaleb(-scale))
            except InvalidOperation:
                raise Unfit(f"{number!s:.40} is no value of a column of type {kind}") from None
        if found != number or len(found.as_tuple().digits) > precision:
            raise Unfit(f"{number!s:.40} does not fit into a column of type {kind}")
        return found

    return convert


def _simple(kind: str, allowed: type[Any] | tuple[type[Any], ...]) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if not isinstance(value, allowed):
            raise _unfit(value, kind)
        return value

    return convert


def _number(kind: str) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _unfit(value, kind)
        try:
            return float(value)
        except OverflowError:
            raise Unfit(f"a number is too large for a column of type {kind}") from None

    return convert


def _float(value: Any) -> Any:
    wide = _number("float")(value)
    try:
        return struct.unpack("<f", struct.pack("<f", wide))[0]
    except OverflowError:
        raise Unfit(f"{wide} is too large for a column of type float") from None


def _date(value: Any) -> Any:
    if isinstance(value, datetime) or not isinstance(value, date):
        raise _unfit(value, "date")
    return date(value.year, value.month, value.day)


def _timestamp(value: Any) -> Any:
    if not isinstance(value, datetime):
        raise _unfit(value, "timestamp")
    if value.tzinfo is None:
        raise Unfit(f"{value.isoformat()} has no zone, and the column is of type timestamp")
    try:
        found = value.astimezone(UTC)
        return datetime.combine(found.date(), found.time(), UTC)
    except (OverflowError, ValueError):
        raise Unfit(f"{value.isoformat()} is no time of the years 1 to 9999 in UTC") from None


def _string(value: Any) -> Any:
    text = str.__str__(_simple("string", str)(value))
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Unfit(f"{text!r} is no text that UTF-8 can hold") from None
    return text


def _unfit(value: Any, kind: str) -> Unfit:
    return Unfit(f"{type(value).__name__} is no value of a column of type {kind}")


_SIMPLE: Mapping[str, Callable[[Any], Any]] = {
    "string": _string,
    "boolean": _simple("boolean", bool),
    "binary": lambda value: bytes(_simple("binary", bytes)(value)),
    "double": _number("double"),
    "float": _float,
    "real": _float,
    "date": _date,
    "timestamp": _timestamp,
}
