"""The typed tier: rows whose source gives them with types, which need not be read as text again.

It takes what can be nothing else: a value of its column's own type, text in a form that blocks
take, a whole number or decimal whose text has that form, a float for a double. For a row with
anything else, a null where none may be, a time outside of the limits, its line is judged; so is
each row where the source has fields that would be unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import reduce

import pyarrow as pa

from tidemark.judge.arrow import Array
from tidemark.judge.arrow import kernels as pc
from tidemark.judge.block import BlockRows
from tidemark.judge.event_time import ISO
from tidemark.judge.fast_forms import SimpleForm, event_time_form, simple_form
from tidemark.judge.json_text import Number
from tidemark.judge.kinds import DecimalKind, SimpleKind, arrow_type
from tidemark.judge.limits import TimeLimits
from tidemark.judge.rules import TIMESTAMP, ColumnRule, Rules

_DAYS = date(1, 1, 1), date(9999, 12, 31)


@dataclass(frozen=True)
class TypedReader:
    """Reads rows of one schema, whose fields are columns; `forms`: how a column's text is read."""

    rules: Rules
    limits: TimeLimits
    forms: dict[str, SimpleForm]

    def read(self, rows: Array) -> BlockRows | None:
        """Rows (a struct each) in the declared columns and `_extra`; None where not all of their
        texts are UTF-8."""
        given = dict(zip(rows.type.names, rows.flatten(), strict=True))
        columns: list[Array] = []
        doubts: list[Array] = []
        for column in self.rules.columns:
            array = given.get(column.path[0])
            if array is None:
                array = pa.array([None] * len(rows), arrow_type(column.kind))
            try:
                array, in_doubt = self._read(column, array)
            except pa.ArrowInvalid:
                return None
            columns.append(array)
            doubts += in_doubt
            if column.required:
                doubts.append(array.is_null())
            if column.name == self.rules.event_time.column:
                doubts.append(self.limits.outside(array))
        columns.append(pa.nulls(len(rows), pa.string()))
        names = [*(column.name for column in self.rules.columns), "_extra"]
        doubtful: Array = reduce(pc.or_, [pc.fill_null(one, False) for one in doubts])
        return BlockRows(pa.table(columns, names=names), doubtful.to_numpy(zero_copy_only=False))

    def _read(self, column: ColumnRule, array: Array) -> tuple[Array, list[Array]]:
        """The column's values, and which of them are in doubt. ArrowInvalid where text is none."""
        if array.type != (own := arrow_type(column.kind)) and not pa.types.is_string(array.type):
            array = array.cast(own if pa.types.is_floating(array.type) else pa.string())
        if pa.types.is_string(array.type):
            array.validate(full=True)
            form, doubts = self.forms[column.name], []
            text = _BOOLEANS if form.read_as == pa.bool_() else form.text
            if text is not None:
                fits = pc.match_substring_regex(array, f"^(?:{text})$")
                doubts.append(pc.invert(fits))
                array = pc.if_else(fits, array, pa.scalar(None, pa.string()))
            converted, more = form.convert(array.cast(form.read_as))
            return converted, doubts if more is None else [*doubts, more]
        if pa.types.is_timestamp(array.type) or pa.types.is_floating(array.type):
            converted, more = self.forms[column.name].convert(array)
            return converted, [] if more is None else [more]
        if pa.types.is_date(array.type):
            first, last = (pa.scalar(day) for day in _DAYS)
            return array, [pc.or_(pc.less(array, first), pc.greater(array, last))]
        return array, []


def typed_reader(
    rules: Rules, limits: TimeLimits, schema: pa.StructType, are_texts: bool = False
) -> TypedReader | None:
    """For rows of a struct type; `are_texts`: a text may stand for a number or boolean.

    None where lines tell more than it: a field that is no column and is kept or rejected, one that
    stands twice, or a type that is not its column's.
    """
    kinds: dict[str, pa.DataType] = {field.name: field.type for field in schema}
    named = {column.path[0] for column in rules.columns}
    if len(kinds) < schema.num_fields or any(len(one.path) > 1 for one in rules.columns):
        return None
    if rules.unknown_fields != "ignore" and not kinds.keys() <= named:
        return None
    forms: dict[str, SimpleForm] = {}
    for column in rules.columns:
        if not isinstance(column.kind, SimpleKind | DecimalKind):
            return None
        is_time = column.name == rules.event_time.column
        kind = kinds.get(column.path[0], arrow_type(column.kind))
        form = event_time_form(rules.event_time) if is_time else simple_form(column.kind)
        if pa.types.is_string(kind):
            if form.read_as != pa.string() and not are_texts:
                return None
            if form.read_as == pa.string() and (column.has_texts or column.kind == _BINARY):
                return None
        elif kind != arrow_type(column.kind):
            is_number = pa.types.is_integer(kind) or pa.types.is_decimal128(kind)
            is_float = kind == pa.float32() and column.kind == _DOUBLE
            if not is_float and not (is_number and Number in form.types):
                return None
        elif is_time and rules.event_time.format != ISO:
            return None
        elif kind == TIMESTAMP:
            form = simple_form(SimpleKind("timestamp"))
        forms[column.name] = form
    return TypedReader(rules, limits, forms)


_BINARY, _DOUBLE = SimpleKind("binary"), SimpleKind("double")
_BOOLEANS = "true|false"
