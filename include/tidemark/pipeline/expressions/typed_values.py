"""Values that a pipeline file writes out, in DuckDB's words as a column of one type has them.

A number is the decimal that is written: it is compared with whole numbers and decimals without
rounding, however many digits either has.
"""

from __future__ import annotations

import math
import struct
from datetime import date
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any, Literal

from tidemark.pipeline.expressions.arithmetic import text_as
from tidemark.pipeline.expressions.kinds import (
    BOOLEAN,
    DATE,
    TEXT,
    TIMES,
    UNKNOWN,
    Kind,
    Untranslated,
)

Sign = Literal[">=", ">", "<=", "<"]
_MOST_DIGITS = 38
# Of the largest number that a file can write, and of the finest scale.
_EXACT = Context(prec=400)
_LARGEST_FLOAT = 3.4028234663852886e38


def is_number(value: object) -> bool:
    """A finite number; a boolean is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value)


def check_value(kind: Kind, value: Any) -> None:
    """Raise Untranslated where a column of this kind has no such values. Of an unknown kind nobody
    can tell yet."""
    if kind == UNKNOWN:
        return
    if kind.is_number and not is_number(value):
        raise Untranslated(f"needs a number for {kind}, and has {value!r}")
    if kind in (TEXT, BOOLEAN) and not isinstance(value, str if kind == TEXT else bool):
        raise Untranslated(f"needs a value of the column's type, {kind}, and has {value!r}")
    if kind.name in TIMES:
        if isinstance(value, date) or not isinstance(value, str):
            raise Untranslated(f"needs a {kind} in quotes, and has {value}")
        text_as(kind, value)
    elif not kind.is_number and kind not in (TEXT, BOOLEAN):
        raise Untranslated(f"cannot be written out for {kind}")


def compared(column: str, kind: Kind, sign: Sign, value: Any) -> str:
    """The condition that a column, or what is written like one, is so to a value of its kind."""
    if not (kind.is_whole or kind.is_decimal):
        return f"{column} {sign} {_written(kind, value)}"
    # The value is no number of the column's digits then: its neighbour is.
    rounding = ROUND_FLOOR if sign in (">", "<=") else ROUND_CEILING
    edge = _number(value).quantize(Decimal(1).scaleb(-kind.scale), rounding, _EXACT)
    if not _fits(edge):
        return "true" if (edge > 0) == (sign in ("<", "<=")) else "false"
    return f"{column} {sign} {_decimal(edge, kind.scale)}"


def equal_to(kind: Kind, value: Any) -> str | None:
    """The value in DuckDB's words; None where no value of the kind is equal to it."""
    if not (kind.is_whole or kind.is_decimal):
        return _written(kind, value)
    step = Decimal(1).scaleb(-kind.scale)
    rounded = _number(value).quantize(step, ROUND_FLOOR, _EXACT)
    return _decimal(rounded, kind.scale) if rounded == _number(value) and _fits(rounded) else None


def of_column(column: str, kind: Kind) -> str:
    """A quoted column as it is compared here: whole numbers and decimals with all digits that
    there are, so that no comparison needs more."""
    if kind.is_whole or kind.is_decimal:
        return f"CAST({column} AS DECIMAL({_MOST_DIGITS},{kind.scale}))"
    return column


def text_literal(text: str) -> str:
    """Text in DuckDB's words."""
    quoted = text.replace("'", "''")
    return f"'{quoted}'"


def _number(value: Any) -> Decimal:
    return Decimal(repr(value))


def _fits(number: Decimal) -> bool:
    return len(number.as_tuple().digits) <= _MOST_DIGITS


def _decimal(number: Decimal, scale: int) -> str:
    return f"CAST('{number:f}' AS DECIMAL({_MOST_DIGITS},{scale}))"


def _written(kind: Kind, value: Any) -> str:
    if kind == BOOLEAN:
        return str(value).lower()
    if kind.is_floating:
        return f"CAST('{_in_floats(kind, float(value))!r}' AS DOUBLE)"
    if kind.name in TIMES:
        return f"CAST({text_literal(value)} AS {'DATE' if kind == DATE else 'TIMESTAMPTZ'})"
    return text_literal(value)


def _in_floats(kind: Kind, value: float) -> float:
    """In single precision for a column of that: 0.1 is the value that the column has for it."""
    if kind.name == "float" and abs(value) <= _LARGEST_FLOAT:
        (value,) = struct.unpack("f", struct.pack("f", value))
    return float(value)
