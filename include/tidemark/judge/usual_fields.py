"""Unknown fields that lines usually have: blocks read them as if they were columns.

So the block tier sees where one stands twice, and takes lines that have no other unknown fields.
What it reads of them is thrown away: for `_extra` they are cut out of the line as they stand there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import NoneType
from typing import Any

from tidemark.judge.fast_forms import SimpleForm, simple_form
from tidemark.judge.json_text import LineReader, Number, json_text
from tidemark.judge.kinds import ArrayKind, Kind, MapKind, SimpleKind, StructKind
from tidemark.judge.rules import Rules

# See `extra_of_line`.
_WORD = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_MOST = 20
_FORMS: dict[type, SimpleForm] = {
    Number: simple_form(SimpleKind("double")),
    bool: simple_form(SimpleKind("boolean")),
    **dict.fromkeys((str, NoneType), simple_form(SimpleKind("string"))),
}


def usual_fields(
    rules: Rules, before: Mapping[str, SimpleForm], lines: Iterable[Mapping[str, Any]]
) -> dict[str, SimpleForm]:
    """Those from before, and of some lines' fields those that are unknown and have a simple value,
    with its form."""
    known = {column.path[0] for column in rules.columns} | inner_names(rules)
    usual = dict(before)
    # A null has the form of any value.
    items = (item for fields in lines for item in fields.items())
    for name, part in sorted(items, key=lambda item: item[1] is None):
        if name not in known and type(part) in _FORMS and _WORD.fullmatch(name):
            usual.setdefault(name, _FORMS[type(part)])
    return dict(list(usual.items())[:_MOST])


def extra_of_line(names: Iterable[str]) -> Callable[[bytes], str | None]:
    """A function from a line that a block's expression matches to the JSON of these fields of it,
    or None where it has none.

    In such a line a word in quotes before a colon is a field's name and nothing else: within a text
    its quotes would be escaped, and behind the quote that ends a text stands no word. No field
    within a column's value has one of these names.
    """
    alternatives = "|".join(names).encode()
    value = rb'"[^"\\]*(?:\\.[^"\\]*)*"|[^ \t\r,}]+'
    field = re.compile(rb'("(?:%s)")[ \t\r]*:[ \t\r]*(%s)' % (alternatives, value))
    lines = LineReader()

    def extra(line: bytes) -> str | None:
        fields = b",".join([b":".join(found) for found in field.findall(line)])
        if not fields:
            return None
        one = b"{" + fields + b"}"
        # Without escapes a text is written again as it stands.
        return json_text(lines.read(one)) if b"\\" in one else one.decode()

    return extra


def inner_names(rules: Rules) -> set[str]:
    """The names of the fields within values and within objects that columns are taken from."""
    return {name for one in rules.columns for name in (*one.path[1:], *_names(one.kind))}


def _names(kind: Kind) -> Iterable[str]:
    match kind:
        case ArrayKind():
            yield from _names(kind.item)
        case MapKind():
            yield from _names(kind.value)
        case StructKind():
            for name, part in kind.fields:
                yield name
                yield from _names(part)
