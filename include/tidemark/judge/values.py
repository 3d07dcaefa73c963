"""The value of a column from what a line holds for it, exactly or not at all."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Final

from tidemark.judge.instants import iso_date, iso_micros
from tidemark.judge.json_text import Number
from tidemark.judge.kinds import (
    INTEGER_BITS,
    ArrayKind,
    DecimalKind,
    Kind,
    MapKind,
    SimpleKind,
    StructKind,
)
from tidemark.judge.numbers import decimal, double, is_quoted_number, single, whole_number


class Wrong:
    """What stands for a value that is not of its kind; see WRONG."""


WRONG: Final = Wrong()
ReadValue = Callable[[Any], Any]
FindUnknown = Callable[[Any], Any]


def value_reader(kind: Kind) -> ReadValue:
    """A function from a part of a line, which is not null, to the value, or WRONG.

    Values are as pyarrow takes them for `kinds.arrow_type`: a timestamp in microseconds since
    1970, a map as a list of pairs. Parts of nested values may be null; fields that a struct does
    not have are passed over here, and found by `unknown_finder`.
    """
    match kind:
        case SimpleKind():
            if bits := INTEGER_BITS.get(kind.name):
                return _of_number(lambda text: whole_number(text, bits))
            return _SIMPLE[kind.name]
        case DecimalKind():
            return _decimal(kind)
        case ArrayKind():
            return _list(value_reader(kind.item))
        case MapKind():
            return _map(value_reader(kind.value))
        case StructKind():
            return _struct({name: value_reader(part) for name, part in kind.fields})


def unknown_finder(kind: Kind) -> FindUnknown | None:
    """A function from a value, which is of its kind and not null, to what no field of a struct in
    it takes, or None where all is taken. No function for a kind without structs.

    It has the value's own form: of a struct and of a map the fields that hold something unknown, of
    an array each item's, null where there is none.
    """
    match kind:
        case ArrayKind():
            item = unknown_finder(kind.item)
            return None if item is None else _unknown_of_items(item)
        case MapKind():
            part = unknown_finder(kind.value)
            return None if part is None else _unknown_of_map(part)
        case StructKind():
            return _unknown_of_struct({name: unknown_finder(part) for name, part in kind.fields})
    return None


def unknown_paths(kind: Kind, value: Any, path: str) -> Iterator[str]:
    """The paths of fields that no struct takes, for people: `price.tax`, of an array's items
    like of one."""
    match kind, value:
        case ArrayKind(item), list():
            for one in value:
                yield from unknown_paths(item, one, path)
        case MapKind(part), dict():
            for name, one in value.items():
                yield from unknown_paths(part, one, f"{path}.{name}")
        case StructKind(fields), dict():
            known = dict(fields)
            for name, one in value.items():
                if name in known:
                    yield from unknown_paths(known[name], one, f"{path}.{name}")
                else:
                    yield f"{path}.{name}"


def _unknown_of_items(find: FindUnknown) -> FindUnknown:
    def unknown(value: Any) -> list[Any] | None:
        items = [None if item is None else find(item) for item in value]
        return items if any(item is not None for item in items) else None

    return unknown


def _unknown_of_map(find: FindUnknown) -> FindUnknown:
    def unknown(value: Any) -> dict[str, Any] | None:
        parts = {name: find(part) for name, part in value.items() if part is not None}
        return {name: part for name, part in parts.items() if part is not None} or None

    return unknown


def _unknown_of_struct(fields: dict[str, FindUnknown | None]) -> FindUnknown:
    names = fields.keys()
    deeper = any(find is not None for find in fields.values())

    def unknown(value: Any) -> dict[str, Any] | None:
        if not deeper and value.keys() <= names:
            return None
        found: dict[str, Any] = {}
        for name, part in value.items():
            if name not in names:
                found[name] = part
            elif part is not None and (find := fields[name]) and (rest := find(part)) is not None:
                found[name] = rest
        return found or None

    return unknown


def _text(part: Any) -> str | Wrong:
    return part if type(part) is str else WRONG


def _boolean(part: Any) -> bool | Wrong:
    return part if type(part) is bool else WRONG


def _binary(part: Any) -> bytes | Wrong:
    """Base64 with its padding, without blanks (RFC 4648)."""
    try:
        return binascii.a2b_base64(part, strict_mode=True) if type(part) is str else WRONG
    except ValueError:
        return WRONG


def _of_number(read: Callable[[str], Any]) -> ReadValue:
    """By the text of a number, of which None says that it is no such value."""
    return _of(Number, lambda number: read(number.decode()))


def _of_text(read: Callable[[str], Any]) -> ReadValue:
    return _of(str, read)


def _of(kind: type, read: Callable[[Any], Any]) -> ReadValue:
    def read_part(part: Any) -> Any:
        value = read(part) if type(part) is kind else None
        return WRONG if value is None else value

    return read_part


_SIMPLE: dict[str, ReadValue] = {
    "string": _text,
    "boolean": _boolean,
    "double": _of_number(double),
    "float": _of_number(single),
    "date": _of_text(iso_date),
    "timestamp": _of_text(iso_micros),
    "binary": _binary,
}


def _decimal(kind: DecimalKind) -> ReadValue:
    """Of a number, or of one in quotes, as careful senders write money, where that is taken."""

    def read(part: Any) -> Decimal | Wrong:
        if type(part) is Number:
            part = part.decode()
        elif not kind.in_text or type(part) is not str or not is_quoted_number(part):
            return WRONG
        value = decimal(part, kind.precision, kind.scale)
        return WRONG if value is None else value

    return read


def _list(read_item: ReadValue) -> ReadValue:
    def read(part: Any) -> list[Any] | Wrong:
        if type(part) is not list:
            return WRONG
        items = [None if item is None else read_item(item) for item in part]
        return WRONG if any(item is WRONG for item in items) else items

    return read


def _map(read_part: ReadValue) -> ReadValue:
    def read(part: Any) -> list[tuple[str, Any]] | Wrong:
        if type(part) is not dict:
            return WRONG
        pairs = [(name, None if one is None else read_part(one)) for name, one in part.items()]
        return WRONG if any(value is WRONG for _, value in pairs) else pairs

    return read


def _struct(readers: dict[str, ReadValue]) -> ReadValue:
    def read(part: Any) -> dict[str, Any] | Wrong:
        if type(part) is not dict:
            return WRONG
        fields: dict[str, Any] = {}
        for name, read_field in readers.items():
            one = part.get(name)
            fields[name] = None if one is None else read_field(one)
        return WRONG if any(value is WRONG for value in fields.values()) else fields

    return read
