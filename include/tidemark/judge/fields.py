"""A line's fields as the columns take them: out of objects, and text for what it stands for."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidemark.judge.json_text import JSON_NUMBER, Number
from tidemark.judge.kinds import SimpleKind
from tidemark.judge.rules import BLANKS_AROUND, ColumnRule, Key

# By the name of a field the column's key, or of an object what is taken from it.
Within = dict[str, "Key | Within"]
_NUMBER = re.compile(JSON_NUMBER, re.ASCII)
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True)
class NoObject:
    """What a line has in the place of an object that columns are taken from. It is of no kind."""

    part: Any


def within_objects(columns: Iterable[ColumnRule]) -> Within:
    """What is taken from a line's objects, by the columns whose fields lie within others."""
    found: Within = {}
    for column in columns:
        if len(column.path) > 1:
            inner = found
            for name in column.path[:-1]:
                deeper = inner.setdefault(name, {})
                assert isinstance(deeper, dict), "checked with the pipeline's file"
                inner = deeper
            inner[column.path[-1]] = column.key
    return found


def take_out(fields: dict[Any, Any], within: Within, found: dict[Any, Any]) -> None:
    """Take the columns' parts out of the objects among these fields, and put them into `found` by
    the columns' keys. What is left of an object stays in its place, where something is."""
    for name, inner in within.items():
        if name not in fields:
            continue
        part = fields[name]
        if isinstance(inner, dict) and type(part) is dict:
            take_out(part, inner, found)
            if part:
                continue
        elif not isinstance(inner, dict):
            found[inner] = part
        elif part is not None:
            found.update((key, NoObject(part)) for key in _keys(inner))
        del fields[name]


def _keys(within: Within) -> Iterator[Key]:
    for inner in within.values():
        if isinstance(inner, dict):
            yield from _keys(inner)
        else:
            yield inner


def names_left(fields: Mapping[Any, Any], keys: Collection[Key], within: Within) -> Iterator[str]:
    """The names of the fields that no column takes, of those within objects with their paths."""
    for name, part in fields.items():
        inner = within.get(name)
        if isinstance(inner, dict) and type(part) is dict:
            yield from (f"{name}.{path}" for path in names_left(part, (), inner))
        elif name not in keys:
            yield name


def put_within(fields: dict[str, Any], path: Iterable[str], part: Any) -> None:
    """Put a part into these fields, within copies of the objects that are there, or new ones."""
    *outer, last = path
    for name in outer:
        fields[name] = fields = dict(fields.get(name, {}))
    fields[last] = part


def text_reader(column: ColumnRule) -> Callable[[str], Any]:
    """A function from a field that is text to what it stands for: a part of a line, or null."""
    is_boolean = column.kind == SimpleKind("boolean")

    def read(text: str) -> Any:
        text = text.strip(BLANKS_AROUND) if column.trim else text
        if text in column.nulls:
            return None
        if not column.from_text:
            return text
        if is_boolean:
            return _BOOLEANS.get(text, text)
        return Number(text.encode()) if _NUMBER.fullmatch(text) else text

    return read
