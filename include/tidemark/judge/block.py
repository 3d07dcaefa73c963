"""The block tier: many lines in one call of Arrow's JSON reader, strictly, or not at all.

Two grammars must agree on each line. An RE2 expression, made of the columns' forms, matches the
line from its beginning to its end: one object, known fields, values in their forms. Then the
reader reads all of these with the declared types, where a field that stands twice or does not fit
is an error. Without the expression's word nothing reaches the reader: a line `null` makes
pyarrow 26 crash.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from tidemark.judge.arrow import Array
from tidemark.judge.arrow import kernels as pc
from tidemark.judge.fast_forms import (
    BLANKS,
    LONGEST,
    FastForm,
    Refused,
    fast_form,
    object_expression,
)
from tidemark.judge.fields import put_within
from tidemark.judge.limits import TimeLimits
from tidemark.judge.rules import Rules
from tidemark.judge.usual_fields import extra_of_line

# RE2 gives a program 8 MB; beyond so many columns it may refuse, or forget what it has learned.
_MOST_COLUMNS = 150
# So many characters stand around a value in its object, with its name.
_AROUND = 100
_TWICE = re.compile(r"Column\((.+)\) was specified twice")


@dataclass(frozen=True)
class BlockRows:
    """What a block came to: a row for each line, in their order, in the declared columns and
    `_extra`, and which of them the exact tier has to judge, as NumPy's booleans."""

    rows: pa.Table
    doubtful: Any


@dataclass(frozen=True)
class Refusal:
    """A block that is not taken; `twice`: the path of a field, where it stands twice."""

    twice: str | None = None


class BlockReader:
    """Reads blocks of lines; without columns that have no fast form. `cut`: names of fields that
    hold null and nothing else, where they are; `usual`: unknown fields."""

    def __init__(
        self,
        rules: Rules,
        forms: Mapping[tuple[str, ...], FastForm],
        limits: TimeLimits,
        cut: Collection[str],
        usual: Mapping[str, FastForm],
    ) -> None:
        self._columns = [column for column in rules.columns if column.path in forms]
        self._event_time = rules.event_time.column
        self._forms = forms
        self._limits = limits
        required = {column.path for column in self._columns if column.required}
        expressions: dict[str, Any] = dict.fromkeys(cut, "null")
        schema: dict[str, Any] = dict.fromkeys(cut, pa.null())
        self._extra = extra_of_line(usual) if usual and rules.unknown_fields == "keep" else None
        self._twice = {f"/{name}": name for name in cut}
        read: dict[tuple[str, ...], FastForm] = {(name,): form for name, form in usual.items()}
        for path, form in {**forms, **read}.items():
            self._twice["".join(f"/{name}" for name in path)] = path[-1]
            nullable = form.expression if path in required else f"(?:{form.expression}|null)"
            put_within(expressions, path, nullable)
            put_within(schema, path, form.read_as)
        self._expression = f"^{BLANKS}{_expression(expressions)}{BLANKS}$"
        self._parse = pj.ParseOptions(
            explicit_schema=pa.schema(_read_as(schema)), unexpected_field_behavior="error"
        )

    def promising(self, lines: Array) -> Any:
        """Which lines the reader may be given: as NumPy's booleans."""
        return _mask(pc.match_substring_regex(lines, self._expression))

    def takes(self, lines: Array) -> Any:
        """Which of a few lines this reader takes, as NumPy's booleans; where it takes no block of
        them, those that are promising."""
        promising = self.promising(lines)
        read = self.read(lines.filter(pa.array(promising)))
        if isinstance(read, BlockRows):
            promising[promising] = ~read.doubtful
        return promising

    def suspicious(self, lines: Array, refusal: Refusal) -> Any:
        """Promising lines for which a block was so refused, and a few others: those in which the
        field's name stands twice in quotes, and those that are not UTF-8."""
        odd = np.array([not _is_utf8(line) for line in lines.to_pylist()], np.bool_)
        name = self._twice.get(refusal.twice or "")
        if name is None:
            return odd
        quoted = json.dumps(name, ensure_ascii=False)
        return odd | _mask(pc.greater(pc.count_substring(lines, quoted), 1))

    def read(self, lines: Array) -> BlockRows | Refusal:
        """Lines that are promising, all together."""
        try:
            lines.cast(pa.string())
            whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
            data = pc.binary_join(whole, b"\n")[0].as_buffer()
            options = pj.ReadOptions(use_threads=False, block_size=len(data) + 1)
            buffer: Any = pa.BufferReader(data)
            table = pj.read_json(buffer, options, self._parse)
            return self._rows(table, lines) if table.num_rows == len(lines) else Refusal()
        except pa.ArrowInvalid as error:
            found = _TWICE.search(str(error))
            return Refusal(found and found[1])
        except Refused:
            return Refusal()

    def _rows(self, table: pa.Table, lines: Array) -> BlockRows:
        columns = []
        doubtful: Any = np.zeros(table.num_rows, np.bool_)
        for column in self._columns:
            first, *within = column.path
            read = table.column(first).combine_chunks()
            read = pc.struct_field(read, within) if within else read
            array, mask = self._forms[column.path].convert(read)
            columns.append(array)
            masks = [] if mask is None else [mask]
            if column.required:
                masks.append(array.is_null())
            if column.name == self._event_time:
                masks.append(self._limits.outside(array))
            for mask in masks:
                doubtful |= _mask(pc.fill_null(mask, False))
        if self._extra is None:
            columns.append(pa.nulls(len(lines), pa.string()))
        else:
            columns.append(pa.array(map(self._extra, lines.to_pylist()), pa.string()))
        names = [*(column.name for column in self._columns), "_extra"]
        return BlockRows(pa.table(columns, names=names), doubtful)


def _expression(within: Mapping[str, Any]) -> str:
    """One object; an object within it may be null, as each of its fields may be missing."""
    return object_expression(
        {
            name: f"(?:{_expression(inner)}|null)" if isinstance(inner, dict) else inner
            for name, inner in within.items()
        }
    )


def _read_as(within: Mapping[str, Any]) -> list[pa.Field[Any]]:
    return [
        pa.field(name, pa.struct(_read_as(inner)) if isinstance(inner, dict) else inner)
        for name, inner in within.items()
    ]


def _mask(flags: Array) -> Any:
    return flags.to_numpy(zero_copy_only=False)


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def block_reader(
    rules: Rules,
    limits: TimeLimits,
    cut: Collection[str] = (),
    usual: Mapping[str, FastForm] = MappingProxyType({}),
) -> BlockReader | None:
    """For lines of which these fields are cut out. None where a column has no fast form, or
    where there are too many of them, or within too many objects."""
    forms: dict[tuple[str, ...], FastForm] = {}
    for column in rules.columns:
        if column.path[0] in cut:
            continue
        form = fast_form(column, rules.event_time)
        if form is None or len(forms) == _MOST_COLUMNS:
            return None
        forms[column.path] = form
    sizes = ((len(form.expression) + _AROUND) << len(path) for path, form in forms.items())
    if sum(sizes) > 2 * LONGEST:
        return None
    return BlockReader(rules, forms, limits, cut, usual)
