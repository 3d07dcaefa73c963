"""The block tier: many lines in one call of Arrow's JSON reader, strictly, or not at all.

Two grammars must agree on each line. An RE2 expression, made of the columns' forms, matches the
line from its beginning to its end: one object, known fields, values in their forms. Then the
reader reads all of these with the declared types, where a field that stands twice or does not fit
is an error. Without the expression's word nothing reaches the reader: a line `null` makes
pyarrow 26 crash.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.json as pj

from tidemark.judge.arrow import Array
from tidemark.judge.arrow import kernels as pc
from tidemark.judge.fast_forms import (
    BLANKS,
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


@dataclass(frozen=True)
class BlockRows:
    """What a block came to: a row for each line, in their order, in the declared columns and
    `_extra`, and which of them the exact tier has to judge, as NumPy's booleans."""

    rows: pa.Table
    doubtful: Any


class BlockReader:
    """Reads blocks of lines; without columns that have no fast form. `usual` are unknown fields."""

    def __init__(
        self,
        rules: Rules,
        forms: Mapping[tuple[str, ...], FastForm],
        limits: TimeLimits,
        usual: Mapping[str, FastForm],
    ) -> None:
        self._rules = rules
        self._forms: dict[tuple[str, ...], FastForm] = {
            **forms,
            **{(name,): form for name, form in usual.items()},
        }
        self._limits = limits
        self._extra = extra_of_line(usual) if usual and rules.unknown_fields == "keep" else None
        required = {column.path for column in rules.columns if column.required}
        expressions: dict[str, Any] = {}
        schema: dict[str, Any] = {}
        for path, form in self._forms.items():
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

    def suspicious(self, lines: Array) -> Any:
        """Promising lines for which a block is refused, and a few others: those in which a field's
        name stands twice in quotes, and those that are not UTF-8."""
        names = {json.dumps(name, ensure_ascii=False) for path in self._forms for name in path}
        twice = [pc.greater(pc.count_substring(lines, name), 1) for name in names]
        odd = pa.array([not _is_utf8(line) for line in lines.to_pylist()], pa.bool_())
        return _mask(reduce(pc.or_, [*twice, odd]))

    def read(self, lines: Array) -> BlockRows | None:
        """Lines that are promising; None where the block is refused as a whole."""
        texts = lines.to_pylist()
        data = b"\n".join(texts)
        options = pj.ReadOptions(use_threads=False, block_size=len(data) + 1)
        try:
            data.decode()
            buffer: Any = pa.BufferReader(data)
            table = pj.read_json(buffer, options, self._parse)
            return self._rows(table, texts)
        except (pa.ArrowInvalid, UnicodeDecodeError, Refused):
            return None

    def _rows(self, table: pa.Table, lines: Sequence[bytes]) -> BlockRows | None:
        if table.num_rows != len(lines):
            return None
        columns, masks = [], []
        for column in self._rules.columns:
            first, *within = column.path
            read = table.column(first).combine_chunks()
            read = pc.struct_field(read, within) if within else read
            array, mask = self._forms[column.path].convert(read)
            columns.append(array)
            masks += [] if mask is None else [mask]
            if column.required:
                masks.append(array.is_null())
            if column.name == self._rules.event_time.column:
                masks.append(self._limits.outside(array))
        doubtful = reduce(pc.or_, [pc.fill_null(mask, False) for mask in masks])
        extras = None if self._extra is None else pa.array(map(self._extra, lines), pa.string())
        columns.append(pa.nulls(len(lines), pa.string()) if extras is None else extras)
        names = [*(column.name for column in self._rules.columns), "_extra"]
        return BlockRows(pa.table(columns, names=names), _mask(doubtful))


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
    rules: Rules, limits: TimeLimits, usual: Mapping[str, FastForm] = MappingProxyType({})
) -> BlockReader | None:
    """None where a column has no fast form, or the expression would be too large for RE2."""
    forms: dict[tuple[str, ...], FastForm] = {}
    for column in rules.columns:
        form = fast_form(column, rules.event_time)
        if form is None or len(rules.columns) > _MOST_COLUMNS:
            return None
        forms[column.path] = form
    reader = BlockReader(rules, forms, limits, usual)
    try:
        reader.promising(pa.array([b"{}"], pa.binary()))
    except pa.ArrowInvalid:
        return None
    return reader
