"""Judge lines: accepted rows and rejected ones, as Arrow tables.

Tiers with one verdict: the typed tier takes rows that have types already, where it can prove what
they come to; of lines the block tier takes what it can prove, a block that it refuses is
tried again in portions, what is left is read line by line and judged by columns; a line that may
be rejected so, and a few lines alone, go through the exact tier. Behind all of them it is asked
which rows an erasure rejects. The verdict on a line depends on nothing but the line, the rules, the
erasures before and the batch's own time, so a batch that runs again judges the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from tidemark.judge.arrow import Array
from tidemark.judge.arrow import kernels as pc
from tidemark.judge.block import BlockReader, BlockRows, block_reader
from tidemark.judge.by_columns import ColumnJudge, JudgedPortion
from tidemark.judge.cut_fields import FieldCutter, cuttable, fields_to_cut, read_lines
from tidemark.judge.erased import KeyedDigests, values_table
from tidemark.judge.event_time import ISO
from tidemark.judge.exact import AcceptedLine, ExactJudge, RejectedLine
from tidemark.judge.fast_forms import SimpleForm, event_time_form, fast_form, simple_form
from tidemark.judge.json_text import Number
from tidemark.judge.kinds import DecimalKind, SimpleKind, arrow_type
from tidemark.judge.limits import TimeLimits, outside_calendar, time_limits
from tidemark.judge.rules import REJECTED_SCHEMA, TIMESTAMP, ColumnRule, Rules
from tidemark.judge.usual_fields import usual_fields
from tidemark.judge.values import WRONG
from tidemark.pipeline.reasons import ERASED, MALFORMED

# Fewer lines than this are not worth what a call of Arrow costs for each column.
_FEW_LINES = 128
# So many lines say which fields have to be cut out.
_SAMPLE_LINES = 100
# So many times as many lines are worth to find that out.
_WORTH_LEARNING = 8
# So many lines are held as Python's objects at a time, and read again where a block is refused.
_PORTION_LINES = 4_096
# Of so many at a time what was cut out of them.
_CUT_LINES = 16_384
# So many lines are read by one call; their texts stay far below Arrow's 2 GiB.
_BLOCK_LINES = 65_536
_BLOCK_BYTES = 16 * 1024 * 1024
# No value in it, nor the event time.
_OF_AN_ERASURE = RejectedLine(ERASED, "an erasure rejects it; what it holds is not kept")


@dataclass(frozen=True)
class JudgedRows:
    """Rows of lines: `accepted` in `Rules.accepted_schema`, `rejected` in REJECTED_SCHEMA.

    `accepted_at` and `rejected_at` (int64, ascending) say which lines these are, from 0; each
    line is in one of the two.
    """

    accepted: pa.Table
    accepted_at: Array
    rejected: pa.Table
    rejected_at: Array


class Judge:
    """Judges the lines of one batch. Not to be shared by threads.

    `by_line`: by the exact tier alone, where a faster one made an earlier try crash. Rows that
    `erased` hits are rejected, whatever else is wrong with them, where their line can be read.
    """

    def __init__(
        self,
        rules: Rules,
        batch_time_ms: int,
        by_line: bool = False,
        erased: KeyedDigests | None = None,
    ) -> None:
        limits = time_limits(rules, batch_time_ms)
        self._rules = rules
        self._erased = erased
        self._limits = limits
        self._exact = ExactJudge(rules, limits)
        self._by_columns = None if by_line else ColumnJudge(rules, limits)
        time = rules.event_time
        formless = {one.path[0] for one in rules.columns if fast_form(one, time) is None}
        cut = cuttable(rules, sorted(formless))
        by_blocks = not by_line and len(cut) == len(formless)
        self._blocks = _blocks(rules, limits, cut) if by_blocks else None
        self._usual: dict[str, SimpleForm] = {}
        self._further: _Blocks | None = None
        self._typed: dict[pa.DataType, TypedReader | None] = {}

    def judge(self, lines: Array) -> JudgedRows:
        """Judge lines (binary, without their ends, none null)."""
        rows = _Rows(self._rules)
        start = 0
        while start < len(lines):
            places = np.arange(start, start + _block_size(lines, start))
            left = places if self._blocks is None else self._in_blocks(lines, places, rows)
            self._line_by_line(lines, left, rows)
            start += len(places)
        judged = rows.judged()
        return judged if self._erased is None else self._without(self._erased, lines, judged)

    def typed(self, rows: Array, are_texts: bool = False) -> BlockRows | None:
        """What rows (structs of the source's own types) come to without their lines: accepted ones
        in `Rules.accepted_schema`, and which of them have to be judged as lines. None: all of
        them. `are_texts`: a text may stand for a number or boolean."""
        if rows.type not in self._typed:
            found = typed_reader(self._rules, self._limits, rows.type, are_texts)
            self._typed[rows.type] = found
        reader = self._typed[rows.type]
        read = None if reader is None else reader.read(rows)
        if read is None:
            return None
        doubtful = read.doubtful
        if self._erased is not None:
            doubtful = doubtful | self._erased.hits(read.rows)
        return BlockRows(_with_date(self._rules, read.rows), doubtful)

    def _without(self, erased: KeyedDigests, lines: Array, judged: JudgedRows) -> JudgedRows:
        """With the rows rejected that an erasure rejects."""
        hit, own = erased.hits(judged.accepted), judged.accepted_at.to_numpy()
        own_left = judged.rejected_at.to_numpy()
        hit_left = pc.not_equal(judged.rejected["reason"], MALFORMED).to_numpy()
        left = lines.take(pa.array(own_left[hit_left])).to_pylist()
        hit_left[hit_left] = self._readable_hits(erased, left)
        if not (hit.any() or hit_left.any()):
            return judged
        places = np.concatenate([own[hit], own_left[hit_left]])
        others = (judged.rejected.filter(pa.array(~hit_left)), own_left[~hit_left])
        found = (rejected_rows([_OF_AN_ERASURE] * len(places)), places)
        rejected, rejected_at = _in_order([others, found], REJECTED_SCHEMA)
        accepted = judged.accepted.filter(pa.array(~hit))
        return JudgedRows(accepted, pa.array(own[~hit]), rejected, rejected_at)

    def _readable_hits(self, erased: KeyedDigests, lines: Sequence[bytes]) -> Any:
        """Which of rejected lines, none malformed, are hit as far as their columns can be read."""
        columns = [one for one in self._rules.columns if one.name in erased.columns]
        rows = []
        for line in lines:
            fields = self._exact.read(line)
            assert not isinstance(fields, RejectedLine)
            values = [self._exact.value(one, fields) for one in columns]
            rows.append([None if value is WRONG else value for value in values])
        return erased.hits(values_table({one.name: one.type for one in columns}, rows))

    def _in_blocks(self, lines: Array, places: Any, rows: _Rows) -> Any:
        """Returns the places of the lines that no block takes. First come the blocks that took
        most of the lines before."""
        if self._blocks is None or len(places) < _FEW_LINES:
            return places
        left = self._blocks.judge(lines, places, rows)
        if not self._blocks.cut and len(left) >= _FEW_LINES:
            usual = usual_fields(self._rules, self._usual, _read_sample(lines, left))
            if self._rules.unknown_fields != "reject" and len(usual) > len(self._usual):
                self._usual = usual
                self._blocks = _blocks(self._rules, self._limits, (), usual) or self._blocks
                left = self._blocks.judge(lines, left, rows)
        if len(left) < _FEW_LINES * _WORTH_LEARNING:
            return left
        if (blocks := self._learned(self._blocks, _read_sample(lines, left))) is None:
            return left
        if 2 * len(left) > len(places):
            self._blocks = blocks
        return blocks.judge(lines, left, rows)

    def _learned(self, blocks: _Blocks, sample: Sequence[Mapping[str, Any]]) -> _Blocks | None:
        """Blocks that take of lines that these did not, with more fields cut out; None where such
        are not known."""
        known = (self._further or blocks).cut
        cut = fields_to_cut(self._rules, self._limits, known, sample)
        if cut == list(blocks.cut):
            return None
        if self._further is None or cut != self._further.cut:
            self._further = _blocks(self._rules, self._limits, cut)
        return self._further

    def _line_by_line(self, lines: Array, places: Any, rows: _Rows) -> None:
        """Lines that no block takes."""
        for portion in _portions(places, _PORTION_LINES):
            texts = lines.take(pa.array(portion)).to_pylist()
            if self._by_columns is None or len(texts) < _FEW_LINES:
                judged = self._one_by_one(texts)
            else:
                judged = self._by_columns.judge(texts)
            rows.add(judged, portion)

    def _one_by_one(self, lines: Sequence[bytes]) -> JudgedPortion:
        verdicts = list(enumerate(map(self._exact.judge, lines)))
        accepted = {n: one for n, one in verdicts if isinstance(one, AcceptedLine)}
        rejected = {n: one for n, one in verdicts if isinstance(one, RejectedLine)}
        values = [(*one.values, one.extra) for one in accepted.values()]
        schema = self._rules.accepted_schema.remove(len(self._rules.columns) + 1)
        return JudgedPortion(_table(schema, values), np.array(list(accepted), np.int64), rejected)


def _read_sample(lines: Array, places: Any) -> list[dict[str, Any]]:
    """The fields of some of the lines at these places."""
    sample = places[:: 1 + len(places) // _SAMPLE_LINES]
    return read_lines(lines.take(pa.array(sample)).to_pylist())


def _block_size(lines: Array, start: int) -> int:
    """How many of the lines from `start` make one block; at least one."""
    number = min(_BLOCK_LINES, len(lines) - start)
    while number > 1 and lines.slice(start, number).nbytes > _BLOCK_BYTES:
        number = (number + 1) // 2
    return number


def _portions(places: Any, number: int) -> list[Any]:
    return [places[start : start + number] for start in range(0, len(places), number)]


class _Rows:
    """Collects verdicts, in whatever order they come."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._accepted: list[tuple[pa.Table, Any]] = []
        self._rejected: list[tuple[pa.Table, Any]] = []

    def add(self, judged: JudgedPortion, places: Any) -> None:
        """Lines at these places."""
        self.add_accepted(judged.rows, places[judged.places])
        at = places[np.array(list(judged.rejected), np.int64)]
        self._rejected.append((rejected_rows(judged.rejected.values()), at))

    def add_accepted(self, rows: pa.Table, places: Any) -> None:
        """Rows in the declared columns and `_extra`."""
        self._accepted.append((_with_date(self._rules, rows), places))

    def judged(self) -> JudgedRows:
        accepted = _in_order(self._accepted, self._rules.accepted_schema)
        return JudgedRows(*accepted, *_in_order(self._rejected, REJECTED_SCHEMA))


class _Blocks:
    """Judges lines in blocks, and the fields `cut` out of them by columns."""

    def __init__(
        self, rules: Rules, limits: TimeLimits, reader: BlockReader, cut: Sequence[str]
    ) -> None:
        self.cut = cut
        self._reader = reader
        self._cutter = FieldCutter(rules, cut) if cut else None
        proven = {column.key for column in rules.columns if column.path[0] not in cut}
        self._rest = ColumnJudge(rules, limits, proven)

    def judge(self, lines: Array, places: Any, rows: _Rows) -> Any:
        """Lines at these places as one block or, where fields are cut out, in portions. Returns
        the places of lines that are not taken."""
        portions = [places] if self._cutter is None else _portions(places, _CUT_LINES)
        return np.concatenate([self._block(lines, portion, rows) for portion in portions])

    def _cut(self, lines: Array) -> tuple[Array, list[dict[str, Any]]]:
        """The lines' rest, nothing of one that cannot be cut, and the fields that were cut out."""
        if self._cutter is None:
            return lines, []
        cut = [self._cutter.cut(line) or (b"", {}) for line in lines.to_pylist()]
        return pa.array([rest for rest, _ in cut], pa.binary()), [fields for _, fields in cut]

    def _block(self, lines: Array, places: Any, rows: _Rows) -> Any:
        given, fields = self._cut(_chosen(lines, places))
        promising = self._reader.promising(given)
        left = self._read(given, np.flatnonzero(promising), fields, places, rows)
        return places[np.sort(np.concatenate([np.flatnonzero(~promising), left]))]

    def _read(
        self, given: Array, own: Any, fields: list[dict[str, Any]], places: Any, rows: _Rows
    ) -> Any:
        """Some of the given lines together; where that is refused, without suspicious ones, then
        in portions. Returns those that are not taken."""
        if len(own) < _FEW_LINES:
            return own
        chosen = _chosen(given, own)
        read = self._reader.read(chosen)
        if isinstance(read, BlockRows):
            taken = own[~read.doubtful]
            proven = read.rows.filter(pa.array(~read.doubtful))
            if self._cutter is None:
                rows.add_accepted(proven, places[taken])
            else:
                judged = self._rest.judge_rest([fields[n] for n in taken.tolist()], proven)
                rows.add(judged, places[taken])
            return own[read.doubtful]
        suspicious = self._reader.suspicious(chosen, read)
        if suspicious.any():
            rest = self._read(given, own[~suspicious], fields, places, rows)
            return np.concatenate([own[suspicious], rest])
        if len(own) <= _PORTION_LINES:
            return own
        left = [
            self._read(given, some, fields, places, rows) for some in _portions(own, _PORTION_LINES)
        ]
        return np.concatenate(left)


def _chosen(lines: Array, places: Any) -> Array:
    """Lines at places, which are ascending."""
    return lines if len(places) == len(lines) else lines.take(pa.array(places))


def _blocks(
    rules: Rules,
    limits: TimeLimits,
    cut: Sequence[str],
    usual: Mapping[str, SimpleForm] = MappingProxyType({}),
) -> _Blocks | None:
    """None where there can be no block of what is left of lines."""
    if (reader := block_reader(rules, limits, cut, usual)) is None:
        return None
    try:
        reader.promising(pa.array([b"{}"], pa.binary()))
    except pa.ArrowInvalid:
        # The expression is too large for RE2.
        return None
    return _Blocks(rules, limits, reader, cut)


def _with_date(rules: Rules, rows: pa.Table) -> pa.Table:
    times = rows.column(rules.event_time.column)
    return rows.append_column("_event_date", times.cast(pa.date32())).cast(rules.accepted_schema)


def rejected_rows(lines: Collection[RejectedLine]) -> pa.Table:
    """Verdicts in REJECTED_SCHEMA."""
    return _table(REJECTED_SCHEMA, lines)


def _table(schema: pa.Schema, rows: Collection[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def _in_order(found: list[tuple[pa.Table, Any]], schema: pa.Schema) -> tuple[pa.Table, Array]:
    """Rows in the order of their lines."""
    rows = pa.concat_tables([schema.empty_table(), *(rows for rows, _ in found)])
    places = np.concatenate([np.array([], np.int64), *(places for _, places in found)])
    if (places[1:] < places[:-1]).any():
        order: Any = np.argsort(places)
        rows, places = rows.take(order), places[order]
    return rows, pa.array(places, pa.int64())


@dataclass(frozen=True)
class TypedReader:
    """The typed tier: reads rows of one schema, whose fields are columns or ignored, and which need
    not be read as text again; `forms`: how a column's text is read.

    It takes what can be nothing else: a value of its column's own type, text in a form that blocks
    take, a whole number or decimal whose text has that form, a float for a double. For a row with
    anything else, a null where none may be, a time outside of the limits, or a value without JSON
    in whatever field, its line is judged; so is each row where the source has fields that would be
    kept or rejected.
    """

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
            array = given.pop(column.path[0], None)
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
        for ignored in given.values():
            # A line that holds it would be malformed.
            try:
                doubts += _without_json(ignored)
            except pa.ArrowInvalid:
                return None
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
        return array, _without_json(array)


def _without_json(array: Array) -> list[Array]:
    """Which values of a plain type no line can hold. ArrowInvalid where text is no UTF-8."""
    kind = array.type
    if pa.types.is_string(kind):
        array.validate(full=True)
    if pa.types.is_floating(kind):
        return [pc.invert(pc.is_finite(array))]
    if pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
        return [outside_calendar(array)]
    return []


def _is_plain(kind: pa.DataType) -> bool:
    """Is it a type that `_without_json` knows, or has each of its values JSON?"""
    if pa.types.is_timestamp(kind):
        return str(kind.unit) != "ns"
    return kind in _PLAIN or any(is_one(kind) for is_one in _NUMBERS)


_PLAIN = (pa.null(), pa.bool_(), pa.string(), pa.binary(), pa.date32())
_NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)


def typed_reader(
    rules: Rules, limits: TimeLimits, schema: pa.StructType, are_texts: bool = False
) -> TypedReader | None:
    """For rows of a struct type; `are_texts`: a text may stand for a number or boolean.

    None where lines tell more than it: a field that is no column and is kept or rejected, or of
    which its type does not say what has JSON, one that stands twice, or a type that is not its
    column's.
    """
    kinds: dict[str, pa.DataType] = {field.name: field.type for field in schema}
    named = {column.path[0] for column in rules.columns}
    if len(kinds) < schema.num_fields or any(len(one.path) > 1 for one in rules.columns):
        return None
    unknown = [kind for name, kind in kinds.items() if name not in named]
    if unknown and (rules.unknown_fields != "ignore" or not all(map(_is_plain, unknown))):
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
