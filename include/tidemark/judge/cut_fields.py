"""Fields that blocks cannot read, cut out of their lines: the rest is a block's, they are judged by
columns.

Which these are, a sample of the lines says that no block took: unknown fields, columns with a map,
with values in another form, or missing where they are required. In the place of such a value is
`null` then. The value's end is found by the reader of the exact tier; that it stood where a field
of the line's own object has its value, the block's expression proves, which matches what is left.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tidemark.judge.block import block_reader
from tidemark.judge.fast_forms import BLANKS
from tidemark.judge.json_text import JSON_NUMBER, LineReader, NotAnObject, json_text
from tidemark.judge.limits import TimeLimits
from tidemark.judge.rules import Rules
from tidemark.judge.usual_fields import inner_names

# Between two texts of a line stands one of these, or a comma or a colon is left over.
_NO_NAME = re.compile(r'[",:\\\x00-\x1f]')
_MOST = 20
# A value without parts and escapes, and what may be written otherwise again.
_PLAIN = rf'"[^"\\\x00-\x1f]*"|{JSON_NUMBER}|true|false|null'
_REWRITTEN = re.compile(r"[\\ \t\r\n]")


def read_lines(lines: Iterable[bytes]) -> list[dict[str, Any]]:
    """The fields of those lines that are not malformed."""
    reader, read = LineReader(), []
    for line in lines:
        try:
            read.append(reader.read(line))
        except NotAnObject:
            continue
    return read


class FieldCutter:
    """Cuts fields out of lines by their names. Not to be shared by threads.

    Where a name in quotes stands before a colon, in a line whose rest a block's expression matches,
    it is a field's name and nothing else: the quotes of a text would be escaped within it, and
    between two texts a comma or a colon stands, which none of these names has (`cuttable`). Nor is
    it a name within a value or object that the block reads.
    """

    def __init__(self, rules: Rules, names: Collection[str]) -> None:
        assert len(cuttable(rules, names)) == len(names)
        alternatives = "|".join(map(re.escape, names))
        self._field = re.compile(f'"({alternatives})"{BLANKS}:{BLANKS}(?:({_PLAIN})(?=[,}}]))?')
        self._columns = {column.path[0] for column in rules.columns}
        self._lines = LineReader()

    def cut(self, line: bytes) -> tuple[bytes, dict[str, Any]] | None:
        """What is left of a line, and the fields in their order, unknown ones as their text; None
        where the exact tier has to read all of it."""
        fields: dict[str, Any] = {}
        pieces: list[str] = []
        place = 0
        search, read = self._field.search, self._lines.part
        try:
            text = line.decode()
            while found := search(text, place):
                name, word = found.groups()
                start, end = found.span(2) if word else (found.end(), 0)
                if name in fields:
                    # A block with it would be refused as a whole.
                    return None
                if word and name not in self._columns:
                    fields[name] = word.encode()
                else:
                    value, end = read(text, start)
                    if name not in self._columns:
                        written = text[start:end]
                        value = value if _REWRITTEN.search(written) else written.encode()
                    fields[name] = value
                pieces.append(text[place:start])
                place = end
        except (UnicodeDecodeError, NotAnObject):
            return None
        return "null".join([*pieces, text[place:]]).encode(), fields


def cuttable(rules: Rules, names: Iterable[str]) -> list[str]:
    """Those of these names, each once, that stand for a field of the line's own object wherever
    they are found in a line that a block takes the rest of."""
    inner = inner_names(rules)
    fit = (name for name in names if name not in inner and not _NO_NAME.search(name))
    return list(dict.fromkeys(fit))


def fields_to_cut(
    rules: Rules, limits: TimeLimits, before: Collection[str], read: Sequence[Mapping[str, Any]]
) -> list[str]:
    """The names of those from before, and of those for which blocks would not take these lines,
    given by their fields."""

    def refused(names: list[str]) -> list[str]:
        """The names of columns' fields with a value, or none, that blocks do not take."""
        columns = tuple(one for one in rules.columns if one.path[0] in names)
        block = block_reader(replace(rules, columns=columns), limits)
        if block is not None:
            rest = [{name: one[name] for name in names if name in one} for one in read]
            texts = [json_text(one).encode() for one in rest]
            if block.takes(pa.array(texts, pa.binary())).all():
                return []
        half = len(names) // 2
        return refused(names[:half]) + refused(names[half:]) if half else names

    known = list(dict.fromkeys(column.path[0] for column in rules.columns))
    unknown = Counter(name for one in read for name in one if name not in known)
    found = refused(known) + [name for name, _ in unknown.most_common()] if read else []
    return cuttable(rules, [*before, *found])[:_MOST]
