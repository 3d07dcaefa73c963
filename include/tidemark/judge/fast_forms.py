r"""What a column's value looks like where it can be nothing else, and how Arrow reads that.

A form is narrower than what the exact tier accepts: numbers without surprises (no whole number of
more than 18 digits, no decimal beyond its digits, none with an exponent), no half of a surrogate
pair, times with seconds and an offset or a stated zone. What a form leaves out goes to the exact
tier, which decides; so a form may be too narrow, never too wide. Regular expressions are RE2's and
match bytes.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from json.encoder import encode_basestring
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from tidemark.judge.arrow import Array
from tidemark.judge.arrow import kernels as pc
from tidemark.judge.event_time import EPOCH_POWERS, ISO, stated_zone, text_reader
from tidemark.judge.instants import in_zone
from tidemark.judge.json_text import JSON_NUMBER, Number
from tidemark.judge.kinds import (
    ArrayKind,
    DecimalKind,
    Kind,
    MapKind,
    SimpleKind,
    StructKind,
    arrow_type,
)
from tidemark.judge.rules import BLANKS_AROUND, TIMESTAMP, ColumnRule
from tidemark.pipeline.model import EventTime

BLANKS = r"[ \t\r]*"
_HEX = "[0-9a-fA-F]"
_CHARACTER = f"[0-9abcefABCEF]{_HEX}{{3}}|[dD][0-7]{_HEX}{{2}}"
_SURROGATES = rf"[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}}"
_ESCAPE = rf'\\(?:["\\/bfnrt]|u(?:{_CHARACTER}|{_SURROGATES}))'
_TEXT = rf'"(?:[^"\\\x00-\x1f]|{_ESCAPE})*"'
_PLAIN_TEXT = r'"[^"\\\x00-\x1f]*"'
# Text without escapes, a number or a boolean.
ONE_WORD = f"(?:{_PLAIN_TEXT}|{JSON_NUMBER}|true|false)"
_ONE_VALUE = f"(?:{_TEXT}|{JSON_NUMBER}|true|false|null)"
_WHOLE = "-?(?:0|[1-9][0-9]{0,17})"
# Days that the calendar has, so that Arrow's reader of times finds nothing to refuse.
_DAY = (
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    "|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)"
)
_CLOCK = r"[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_OFFSET = "(?:Z|[+-](?:0[0-9]|1[0-7]):[0-5][0-9])"
_FIRST_DAY = date(1, 1, 1)
# A day inside of the calendar's ends, where an offset cannot lead out of it.
_INSIDE = (-62_135_510_400_000_000, 253_402_214_400_000_000)
# Before this some zones' clocks were set at odd seconds.
_WHOLE_MINUTES_FROM = 94_694_400_000_000
_MINUTE = 60_000_000
# Of a value: a line's expression holds it twice, as each array and object does what is in it. RE2
# has no room for that of a longer one, and takes minutes and gigabytes to find it out.
LONGEST = 700_000

# A converted array, and which of its values the exact tier has to read; None: not one of them.
Converted = tuple[Array, Array | None]
Convert = Callable[[Array], Converted]


class Refused(Exception):
    """The block holds a value within a nested one that only the exact tier can judge."""


@dataclass(frozen=True)
class FastForm:
    """`expression`: a value that is not null, as bytes of JSON. `read_as`: the type that Arrow's
    reader is given. `convert`: from that to the column's type."""

    expression: str
    read_as: pa.DataType
    convert: Convert

    def whole(self, array: Array) -> Array:
        """All values converted; Refused where the exact tier has to read one of them."""
        converted, doubtful = self.convert(array)
        if doubtful is not None and pc.any(doubtful).as_py():
            raise Refused
        return converted


@dataclass(frozen=True)
class SimpleForm(FastForm):
    """One of a value without parts. `types`: what LineReader makes of the value; `text`: what that
    looks like, from its beginning to its end; None: as it may."""

    types: frozenset[type]
    text: str | None


def fast_form(column: ColumnRule, event_time: EventTime) -> FastForm | None:
    """None for a kind that has no such form: a map, a value with one in it, or one for whose
    expression there is no room."""
    is_time = column.name == event_time.column
    form = event_time_form(event_time) if is_time else _form(column.kind)
    return _of_texts(column, form) if form is not None and column.has_texts else form


def simple_form(kind: SimpleKind | DecimalKind) -> SimpleForm:
    return _decimal(kind) if isinstance(kind, DecimalKind) else _SIMPLE[kind.name]


def _form(kind: Kind) -> FastForm | None:
    match kind:
        case ArrayKind():
            form = _array(kind)
        case StructKind():
            form = _struct(kind)
        case MapKind():
            return None
        case _:
            return simple_form(kind)
    return form if form is not None and len(form.expression) <= LONGEST else None


def _of_texts(column: ColumnRule, form: FastForm) -> FastForm:
    """For a column to which some texts are more than they are in JSON: a number is what it is, and
    text stands for what the exact tier says."""
    if isinstance(column.kind, DecimalKind) and isinstance(form, SimpleForm):
        assert form.text is not None
        return replace(form, expression=form.text)
    if form.read_as != pa.string():
        return form

    def convert(array: Array) -> Converted:
        texts = pc.utf8_trim(array, BLANKS_AROUND) if column.trim else array
        nulls = pc.is_in(texts, value_set=pa.array(sorted(column.nulls), pa.string()))
        return form.convert(pc.if_else(nulls, pa.scalar(None, pa.string()), texts))

    return replace(form, convert=convert)


def _number(text: str, read_as: pa.DataType, convert: Convert) -> SimpleForm:
    return SimpleForm(text, read_as, convert, frozenset({Number}), text)


def _quoted(text: str, convert: Convert) -> SimpleForm:
    return SimpleForm(f'"{text}"', pa.string(), convert, frozenset({str}), text)


def _any_text(convert: Convert) -> SimpleForm:
    return SimpleForm(_TEXT, pa.string(), convert, frozenset({str}), None)


def _as_read(array: Array) -> Converted:
    return array, None


def _finite(array: Array) -> Converted:
    return array, pc.invert(pc.is_finite(array))


def _narrow(bits: int) -> SimpleForm:
    limit, target = 1 << (bits - 1), {8: pa.int8(), 16: pa.int16(), 32: pa.int32()}[bits]

    def convert(array: Array) -> Converted:
        fits = pc.and_(pc.greater_equal(array, -limit), pc.less(array, limit))
        within = pc.if_else(fits, array, pa.scalar(None, array.type))
        return within.cast(target), pc.invert(fits)

    return _number(_WHOLE, pa.int64(), convert)


def _date(array: Array) -> Converted:
    days = array.cast(pa.date32())
    return days, pc.less(days, pa.scalar(_FIRST_DAY))


def _timestamp(array: Array) -> Converted:
    micros = array.cast(TIMESTAMP)
    return micros, _outside_calendar(micros.cast(pa.int64()))


def _outside_calendar(micros: Array) -> Array:
    first, last = _INSIDE
    return pc.or_(pc.less(micros, first), pc.greater_equal(micros, last))


def _binary(array: Array) -> Converted:
    """Padding that the form cannot see to be right leaves a null."""
    values = [None if text is None else _decoded(text) for text in array.to_pylist()]
    decoded = pa.array(values, pa.binary())
    return decoded, pc.and_(decoded.is_null(), array.is_valid())


def _decoded(text: str) -> bytes | None:
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error:
        return None


_SIMPLE: dict[str, SimpleForm] = {
    "string": _any_text(_as_read),
    "boolean": SimpleForm("(?:true|false)", pa.bool_(), _as_read, frozenset({bool}), None),
    "long": _number(_WHOLE, pa.int64(), _as_read),
    "int": _narrow(32),
    "short": _narrow(16),
    "byte": _narrow(8),
    "double": _number(JSON_NUMBER, pa.float64(), _finite),
    "float": _number(JSON_NUMBER, pa.float32(), _finite),
    "date": _quoted(_DAY, _date),
    "timestamp": _quoted(f"{_DAY}{_CLOCK}{_OFFSET}", _timestamp),
    "binary": _quoted("[A-Za-z0-9+/=]*", _binary),
}


def _decimal(kind: DecimalKind) -> SimpleForm:
    """No more digits than fit, on either side of the point."""
    before = kind.precision - kind.scale
    whole = f"(?:0|[1-9][0-9]{{0,{before - 1}}})" if before else "0"
    number = f"-?{whole}" + (rf"(?:\.[0-9]{{1,{kind.scale}}})?" if kind.scale else "")
    expression = f'(?:{number}|"{number}")' if kind.in_text else number
    types = frozenset({Number, str} if kind.in_text else {Number})
    return SimpleForm(expression, arrow_type(kind), _as_read, types, number)


def _array(kind: ArrayKind) -> FastForm | None:
    item = _form(kind.item)
    if item is None:
        return None
    one = f"(?:{item.expression}|null)"
    items = f"{one}(?:{BLANKS},{BLANKS}{one})*"

    def convert(array: Array) -> Converted:
        values = item.whole(array.values)
        return pa.ListArray.from_arrays(array.offsets, values, mask=array.is_null()), None

    expression = rf"\[{BLANKS}(?:{items})?{BLANKS}\]"
    return FastForm(expression, pa.list_(item.read_as), convert)


def _struct(kind: StructKind) -> FastForm | None:
    forms = {name: _form(part) for name, part in kind.fields}
    known = {name: form for name, form in forms.items() if form is not None}
    if len(known) < len(forms):
        return None

    def convert(array: Array) -> Converted:
        parts = [form.whole(array.field(name)) for name, form in known.items()]
        names = list(known)
        return pa.StructArray.from_arrays(parts, names, mask=array.is_null()), None

    read_as = pa.struct([pa.field(name, form.read_as) for name, form in known.items()])
    nullable = {name: f"(?:{form.expression}|null)" for name, form in known.items()}
    return FastForm(object_expression(nullable), read_as, convert)


def object_expression(values: dict[str, str]) -> str:
    """One object with these fields, each at any place, or missing; that none stands twice, only
    the reader sees."""
    fields = "|".join(
        f"{_name_expression(name)}{BLANKS}:{BLANKS}{value}" for name, value in values.items()
    )
    one = f"(?:{fields})"
    return rf"\{{{BLANKS}(?:{one}(?:{BLANKS},{BLANKS}{one})*)?{BLANKS}\}}"


def object_with(name: str, value: str) -> str:
    """One object with this field, and any others whose names have no escapes in them; that the
    field stands there once has to be counted."""
    own = "".join(rf"\x{byte:02x}" for byte in encode_basestring(name).encode())
    other = f"{_PLAIN_TEXT}{BLANKS}:{BLANKS}{_within(_within(_ONE_VALUE))}"
    return (
        rf"\{{{BLANKS}(?:{other}{BLANKS},{BLANKS})*{own}{BLANKS}:{BLANKS}{value}"
        rf"(?:{BLANKS},{BLANKS}{other})*{BLANKS}\}}"
    )


def _within(value: str) -> str:
    """Such a value, an array of these, or an object of them."""
    found = []
    for opening, one, closing in (
        (r"\[", value, r"\]"),
        (r"\{", f"{_TEXT}{BLANKS}:{BLANKS}{value}", r"\}"),
    ):
        found.append(f"{opening}{BLANKS}(?:{one}(?:{BLANKS},{BLANKS}{one})*)?{BLANKS}{closing}")
    return f"(?:{value}|{'|'.join(found)})"


def _name_expression(name: str) -> str:
    """A field's name in quotes, as bytes; with an escape in it, it is left to the exact tier."""
    escaped = "".join(
        chr(byte) if chr(byte).isalnum() and byte < 128 else rf"\x{byte:02x}"
        for byte in name.encode()
    )
    return f'"{escaped}"'


def event_time_form(event_time: EventTime) -> SimpleForm:
    if event_time.format in EPOCH_POWERS:
        return _epoch(EPOCH_POWERS[event_time.format])
    if event_time.format != ISO:
        return _by_each_text(event_time)
    zone = stated_zone(event_time)
    if zone is None:
        return _SIMPLE["timestamp"]
    return _quoted(f"{_DAY}{_CLOCK}{_OFFSET}?", lambda array: _local(array, zone))


def _epoch(power: int) -> SimpleForm:
    """Of a count with so many digits after its point, a decimal's lowest 64 bits are the
    microseconds."""
    number = f"(?:0|[1-9][0-9]{{0,{17 - power}}})"
    fraction = rf"(?:\.[0-9]{{1,{power}}})?" if power else ""

    def convert(array: Array) -> Converted:
        words = np.frombuffer(array.buffers()[1], np.int64)[::2]
        words = words[array.offset : array.offset + len(array)]
        micros = pa.array(words, pa.int64())
        doubtful = _outside_calendar(micros)
        kept = pc.if_else(pc.or_(doubtful, array.is_null()), pa.scalar(None, pa.int64()), micros)
        return kept.cast(TIMESTAMP), doubtful

    return _number(f"{number}{fraction}", pa.decimal128(38, power), convert)


def _by_each_text(event_time: EventTime) -> SimpleForm:
    """A Spark pattern: each text that differs is read once, as the exact tier reads it."""
    read = text_reader(event_time)

    def convert(array: Array) -> Converted:
        texts = array.dictionary_encode()
        instants = [read(text) for text in texts.dictionary.to_pylist()]
        micros = pa.array(instants, pa.int64()).take(texts.indices).cast(TIMESTAMP)
        return micros, pc.and_(micros.is_null(), array.is_valid())

    return _any_text(convert)


def _local(array: Array, zone: ZoneInfo) -> Converted:
    """Text with an offset by Arrow, text without one by the zone's offset in its minute."""
    zoned = pc.match_substring_regex(array, "(?:Z|[+-][0-9:]{5})$")
    by_offset = (
        pc.if_else(zoned, array, pa.scalar(None, pa.string())).cast(TIMESTAMP).cast(pa.int64())
    )
    texts = pc.if_else(zoned, pa.scalar(None, pa.string()), array)
    local = texts.cast(pa.timestamp("us")).cast(pa.int64())
    minutes = pc.subtract(local, _remainder(local)).dictionary_encode()
    doubtful = pc.or_kleene(_outside_calendar(by_offset), _not_by_minutes(local))
    offsets = [_offset(minute, zone) for minute in minutes.dictionary.to_pylist()]
    distance = pa.array(offsets, pa.int64()).take(minutes.indices)
    micros = pc.coalesce(by_offset, pc.subtract(local, distance))
    return micros.cast(TIMESTAMP), pc.and_(pc.fill_null(doubtful, False), array.is_valid())


def _remainder(micros: Array) -> Array:
    values: Any = micros.fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(values % _MINUTE, pa.int64())


def _not_by_minutes(local: Array) -> Array:
    outside = pc.less(local, _WHOLE_MINUTES_FROM)
    return pc.or_(outside, pc.greater_equal(local, _INSIDE[1]))


def _offset(minute: int | None, zone: ZoneInfo) -> int | None:
    if minute is None or not _WHOLE_MINUTES_FROM <= minute < _INSIDE[1]:
        return 0
    return minute - in_zone(minute, zone)
