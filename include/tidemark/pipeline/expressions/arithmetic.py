"""Numbers and times in DuckDB as Spark counts: literals, comparisons and arithmetic."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal

from sqlglot import exp

from tidemark.pipeline.expressions.kinds import (
    BIGINT,
    DATE,
    DIGITS,
    DOUBLE,
    INT,
    INTERVAL,
    MONTHS,
    NULL,
    NUMBER,
    TIMES,
    TIMESTAMP,
    UNKNOWN,
    Kind,
    Untranslated,
    Value,
    call,
    cast,
)

_MOST_DIGITS = 38
_WIDER = list(DIGITS)
_NO_NUMBER = "needs numbers, and has {}"
OF_ONE_TYPE = "have a measure or a derived column of one type"
_DAY = r"\d{4}-\d{2}-\d{2}"
_DATE_TEXT = re.compile(_DAY)
_TIME_TEXT = re.compile(
    rf"{_DAY}([T ]\d{{2}}:\d{{2}}:\d{{2}}(\.\d{{1,6}})?(Z|[+-]\d{{2}}:\d{{2}})?)?"
)
_UNITS = {"SECOND": INTERVAL, "MINUTE": INTERVAL, "HOUR": INTERVAL, "DAY": INTERVAL}
_UNITS |= {"WEEK": INTERVAL, "MONTH": MONTHS, "YEAR": MONTHS}
_WHOLE = re.compile(r"[+-]?\d{1,9}")
_OF_TIME = (*TIMES, INTERVAL.name, MONTHS.name)


def arithmetic(node: exp.Expr, left: Value, right: Value) -> Value:
    """A sum, difference, product, quotient or remainder of numbers, or of times."""
    if left.kind.name in _OF_TIME or right.kind.name in _OF_TIME:
        return _of_times(node, left, right)
    return _of_numbers(node, left, right)


def number_of(text: str) -> Value:
    """A number as it is written, of the type that Spark gives it: DuckDB's whole numbers take the
    type of what they meet, and overflow with it."""
    if "e" in text.lower():
        return Value(cast(exp.Literal.number(text), "double"), DOUBLE)
    number = Decimal(text)
    if "." not in text and abs(number) < 2**63:
        kind = INT if abs(number) < 2**31 else BIGINT
        return Value(cast(exp.Literal.number(text), kind.name), kind)
    if "." not in text:
        raise Untranslated("it is larger than any bigint; write it with a point or an exponent")
    scale = len(text.partition(".")[2])
    precision = max(len(str(abs(int(number))).lstrip("0")) + scale, scale, 1)
    if precision > _MOST_DIGITS:
        raise Untranslated(f"it has more than {_MOST_DIGITS} digits")
    kind = Kind("decimal", precision, scale)
    return Value(cast(exp.Literal.number(text), f"decimal({precision},{scale})"), kind)


def numbers_alike(values: list[Value]) -> tuple[list[exp.Expr], Kind]:
    """Numbers that are compared, or of which one is chosen."""
    kinds = [value.kind for value in values if value.kind.name not in (NULL.name, UNKNOWN.name)]
    if NUMBER in kinds or any(value.kind == UNKNOWN for value in values):
        return [value.sql for value in values], NUMBER
    if any(kind.is_floating for kind in kinds):
        # Held as doubles; one that is chosen of floats is none for Spark, which adds it as a float.
        common = Kind("float") if all(kind.name == "float" for kind in kinds) else DOUBLE
        return [_in_doubles(value) for value in values], common
    if any(kind.is_decimal for kind in kinds):
        digits = [kind.digits for kind in kinds]
        scale = max(scale for _, scale in digits)
        precision = scale + max(precision - scale for precision, scale in digits)
        _check_digits(precision)
        return [value.sql for value in values], Kind("decimal", precision, scale)
    return [value.sql for value in values], max(kinds, key=lambda kind: _WIDER.index(kind.name))


def _check_digits(precision: int) -> None:
    if precision > _MOST_DIGITS:
        raise Untranslated(
            f"its decimals have {precision} digits together, and Spark rounds above "
            f"{_MOST_DIGITS}; cast one of them to double"
        )


def _in_doubles(value: Value) -> exp.Expr:
    """A decimal by way of its text: DuckDB rounds one of many digits twice."""
    return as_double(cast(value.sql, "varchar")) if value.kind.is_decimal else value.sql


def as_double(value: exp.Expr) -> exp.Expr:
    return cast(value, "double")


def _of_numbers(node: exp.Expr, left: Value, right: Value) -> Value:
    """A sum, product, quotient or remainder; a division by zero gives null."""
    kinds = (left.kind, right.kind)
    for kind in kinds:
        if not kind.is_number and kind not in (NULL, UNKNOWN):
            raise Untranslated(_NO_NUMBER.format(kind))
    if not all(kind.is_whole or kind.is_decimal or kind.is_floating for kind in kinds):
        return Value(type(node)(this=left.sql, expression=right.sql), NUMBER)
    if all(kind.name == "float" for kind in kinds):
        raise Untranslated("floats are added in single precision; have a measure of doubles")
    divides = isinstance(node, exp.Div | exp.IntDiv | exp.Mod)
    if any(kind.is_floating for kind in kinds) and not isinstance(node, exp.IntDiv):
        one, other = _in_doubles(left), _in_doubles(right)
        return Value(_both(node, one, other, divides), DOUBLE)
    kind = _of_exact(node, *kinds)
    if not kind.is_decimal:
        return Value(_both(node, left.sql, right.sql, divides), kind)
    # DuckDB's own result would have 18 digits where neither side has more, and be a double where
    # both have more than 38 together; and what it is compared with next is rounded by its digits.
    scale = left.kind.digits[1] if isinstance(node, exp.Mul) else kind.scale
    one = cast(left.sql, f"decimal({kind.precision},{scale})")
    exact = cast(_both(node, one, right.sql, divides), f"decimal({kind.precision},{kind.scale})")
    return Value(exact, kind)


def _both(node: exp.Expr, one: exp.Expr, other: exp.Expr, divides: bool) -> exp.Expr:
    one, other = exp.Paren(this=one), exp.Paren(this=other)
    if divides:
        other = exp.Nullif(this=other, expression=exp.Literal.number(0))
    if isinstance(node, exp.IntDiv):
        # Truncated, in both; sqlglot would write DuckDB's with a cast.
        return exp.Paren(this=exp.IntDiv(this=cast(one, "bigint"), expression=other))
    if isinstance(node, exp.Div):
        return exp.Paren(this=exp.Div(this=as_double(one), expression=as_double(other)))
    return exp.Paren(this=type(node)(this=one, expression=other))


def _of_exact(node: exp.Expr, left: Kind, right: Kind) -> Kind:
    """The type that Spark gives to whole numbers and decimals."""
    if left.is_whole and right.is_whole:
        if isinstance(node, exp.Div):
            return DOUBLE
        if isinstance(node, exp.IntDiv):
            return BIGINT
        return max(left, right, key=lambda kind: _WIDER.index(kind.name))
    if isinstance(node, exp.Div | exp.IntDiv):
        raise Untranslated("decimals are divided to another number of digits; a measure can")
    (one, of_one), (other, of_other) = left.digits, right.digits
    if isinstance(node, exp.Mul):
        precision, scale = one + other + 1, of_one + of_other
    else:
        scale = max(of_one, of_other)
        precision = scale + max(one - of_one, other - of_other) + 1
    _check_digits(precision)
    return Kind("decimal", precision, scale)


def of_one(node: exp.Expr, value: Value) -> Value:
    """The negative or the absolute value."""
    if not value.kind.is_number and value.kind not in (NULL, UNKNOWN):
        raise Untranslated(_NO_NUMBER.format(value.kind))
    if isinstance(node, exp.Neg):
        return Value(exp.Paren(this=exp.Neg(this=exp.Paren(this=value.sql))), value.kind)
    return Value(call("abs", value.sql), value.kind)


def times_alike(values: list[Value]) -> tuple[list[exp.Expr], Kind]:
    """Times that are compared, or of which one is chosen; text where it is written out."""
    stamped = any(value.kind == TIMESTAMP for value in values)
    kind = TIMESTAMP if stamped else DATE
    return [_as(kind, value) for value in values], kind


def _as(kind: Kind, value: Value) -> exp.Expr:
    if value.literal is not None:
        return text_as(kind, value.literal).sql
    if value.kind.name not in (*TIMES, NULL.name, UNKNOWN.name):
        raise Untranslated(f"{kind} and {value.kind} are compared in another way; {OF_ONE_TYPE}")
    return cast(value.sql, "timestamptz") if kind == TIMESTAMP and value.kind == DATE else value.sql


def text_as(kind: Kind, text: str) -> Value:
    """A date or a timestamp as it is written; the engines read other spellings differently, and
    fail on a day or a time of day that there is not."""
    pattern = _DATE_TEXT if kind == DATE else _TIME_TEXT
    if not pattern.fullmatch(text):
        form = "2026-01-31" if kind == DATE else "2026-01-31 10:00:00Z"
        raise Untranslated(f"write the {kind} '{text}' as in '{form}'")
    try:
        datetime.fromisoformat(text)
    except ValueError as error:
        raise Untranslated(f"'{text}' is a {kind} that there is not: {error}") from None
    to = "date" if kind == DATE else "timestamptz"
    return Value(cast(exp.Literal.string(text), to), kind)


def interval(node: exp.Expr) -> Value:
    """So many of one unit."""
    unit = str(node.args.get("unit")).upper().removesuffix("S")
    number = node.this.name if isinstance(node.this, exp.Literal) else ""
    if unit not in _UNITS or not _WHOLE.fullmatch(number):
        raise Untranslated("write an interval as in `interval 10 minutes`")
    name = "to_" + unit.lower() + "s"
    whole = cast(exp.Literal.string(number), "int")
    return Value(call(name, whole), _UNITS[unit])


def _of_times(node: exp.Expr, left: Value, right: Value) -> Value:
    """A time and an interval or days, two times, two intervals."""
    adds, subtracts = isinstance(node, exp.Add), isinstance(node, exp.Sub)
    kinds = (left.kind, right.kind)
    if UNKNOWN in kinds or NULL in kinds:
        return Value(type(node)(this=left.sql, expression=right.sql), UNKNOWN)
    if adds and right.kind.name in TIMES:
        left, right = right, left
    pair = type(node)(this=exp.Paren(this=left.sql), expression=exp.Paren(this=right.sql))
    if subtracts and left.kind == right.kind == DATE:
        return Value(call("to_days", cast(pair, "int")), INTERVAL)
    if subtracts and {left.kind, right.kind} <= {DATE, TIMESTAMP}:
        sides = [cast(exp.Paren(this=side.sql), "timestamptz") for side in (left, right)]
        return Value(exp.Paren(this=exp.Sub(this=sides[0], expression=sides[1])), INTERVAL)
    if (adds or subtracts) and left.kind == DATE and right.kind in (INT, MONTHS):
        return Value(cast(pair, "date"), DATE)
    if (adds or subtracts) and left.kind == DATE and right.kind == INTERVAL:
        if _is_of_days(right):
            return Value(cast(pair, "date"), DATE)
        raise Untranslated("a date and a part of a day; have a measure that is a timestamp")
    if (adds or subtracts) and left.kind == TIMESTAMP and right.kind in (INTERVAL, MONTHS):
        return Value(exp.Paren(this=pair), TIMESTAMP)
    if (adds or subtracts) and left.kind == right.kind == INTERVAL:
        return Value(exp.Paren(this=pair), INTERVAL)
    raise Untranslated(f"{left.kind} and {right.kind} go together in another way")


def _is_of_days(value: Value) -> bool:
    found = value.sql.this if isinstance(value.sql, exp.Paren) else value.sql
    return isinstance(found, exp.Anonymous) and str(found.this) in ("to_days", "to_weeks")
