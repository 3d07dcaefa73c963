"""A column's values from what LineReader made of many lines, where each value has its fast form.

What is told of one value by its form's expression, and read by Arrow, is told and read here of all
at once. Nested values are laid out as Arrow has them: all items of all lists behind each other.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from types import NoneType
from typing import Any

import pyarrow as pa

from tidemark.judge.arrow import Array
from tidemark.judge.arrow import kernels as pc
from tidemark.judge.fast_forms import Refused, SimpleForm, simple_form
from tidemark.judge.kinds import ArrayKind, Kind, MapKind, StructKind

ReadParts = Callable[[list[Any]], Array]


def parts_reader(kind: Kind) -> ReadParts:
    """A function from parts, null among them, to their values.

    It raises Refused or ArrowInvalid where a part is not of the kind, or not in its fast form.
    """
    match kind:
        case ArrayKind():
            return _lists(parts_reader(kind.item))
        case MapKind():
            return _maps(parts_reader(kind.value))
        case StructKind():
            return _structs({name: parts_reader(part) for name, part in kind.fields})
    return simple_parts_reader(simple_form(kind))


def simple_parts_reader(form: SimpleForm) -> ReadParts:
    """A function from values without parts, null among them, to those of the column."""
    held = pa.bool_() if form.read_as == pa.bool_() else pa.string()

    def read(parts: list[Any]) -> Array:
        _check_types(parts, form.types)
        array: Array = pa.array(parts, held)
        if form.text is not None:
            fits = pc.match_substring_regex(array, f"^(?:{form.text})$")
            if not pc.all(fits, min_count=0).as_py():
                raise Refused
        return form.whole(array.cast(form.read_as))

    return read


def _check_types(parts: list[Any], types: frozenset[type]) -> None:
    if not set(map(type, parts)) <= types | {NoneType}:
        raise Refused


def _lists(read_items: ReadParts) -> ReadParts:
    def read(parts: list[Any]) -> Array:
        _check_types(parts, frozenset({list}))
        items = read_items([item for part in parts if part for item in part])
        return pa.ListArray.from_arrays(_offsets(parts), items)

    return read


def _maps(read_values: ReadParts) -> ReadParts:
    def read(parts: list[Any]) -> Array:
        _check_types(parts, frozenset({dict}))
        keys = pa.array([key for part in parts if part for key in part], pa.string())
        values = read_values([value for part in parts if part for value in part.values()])
        return pa.MapArray.from_arrays(_offsets(parts), keys, values)

    return read


def _offsets(parts: list[Any]) -> Array:
    """Where each list or map begins, null where it is none, and where the last one ends."""
    ends = accumulate((len(part) if part else 0 for part in parts), initial=0)
    nulls = [part is None for part in parts]
    return pa.array(
        [None if null else end for end, null in zip(ends, [*nulls, False], strict=True)], pa.int32()
    )


def _structs(fields: dict[str, ReadParts]) -> ReadParts:
    def read(parts: list[Any]) -> Array:
        _check_types(parts, frozenset({dict}))
        columns = [
            read_field([None if part is None else part.get(name) for part in parts])
            for name, read_field in fields.items()
        ]
        nulls = pa.array([part is None for part in parts], pa.bool_())
        return pa.StructArray.from_arrays(columns, list(fields), mask=nulls)

    return read
