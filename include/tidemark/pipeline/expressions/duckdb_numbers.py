"""Numbers in DuckDB as Spark counts: literals, comparisons and arithmetic."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

from tidemark.pipeline.expressions.duckdb_values import (
    BIGINT,
    DIGITS,
    DOUBLE,
    INT,
    NULL,
    NUMBER,
    UNKNOWN,
    Kind,
    Untranslated,
    Value,
    call,
    cast,
)

_MOST_DIGITS = 38
_WIDER = list(DIGITS)
_NO_NUMBER = "needs numbers, and has {}; cast it"


def literal(text: str) -> Value:
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


def alike(values: list[Value]) -> tuple[list[exp.Expr], Kind]:
    """Numbers that are compared, or of which one is chosen."""
    kinds = [value.kind for value in values if value.kind.name not in (NULL.name, UNKNOWN.name)]
    if NUMBER in kinds or any(value.kind == UNKNOWN for value in values):
        return [value.sql for value in values], NUMBER
    if any(kind.is_floating for kind in kinds):
        return [_in_doubles(value) for value in values], DOUBLE
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
    return to_double(value) if value.kind.is_decimal else value.sql


def to_double(value: Value) -> exp.Expr:
    """Of a decimal by way of its text: DuckDB rounds one of many digits twice."""
    return (
        cast(cast(value.sql, "varchar"), "double")
        if value.kind.is_decimal
        else as_double(value.sql)
    )


def as_double(value: exp.Expr) -> exp.Expr:
    return cast(value, "double")


def arithmetic(node: exp.Expr, left: Value, right: Value) -> Value:
    """A sum, product, quotient or remainder; a division by zero gives null."""
    kinds = (left.kind, right.kind)
    for kind in kinds:
        if not kind.is_number and kind not in (NULL, UNKNOWN):
            raise Untranslated(_NO_NUMBER.format(kind))
    if not all(kind.is_whole or kind.is_decimal or kind.is_floating for kind in kinds):
        return Value(type(node)(this=left.sql, expression=right.sql), NUMBER)
    if all(kind.name == "float" for kind in kinds):
        raise Untranslated("floats are added in single precision; cast them to double")
    divides = isinstance(node, exp.Div | exp.IntDiv | exp.Mod)
    if any(kind.is_floating for kind in kinds) and not isinstance(node, exp.IntDiv):
        one, other = _in_doubles(left), _in_doubles(right)
        return Value(_both(node, one, other, divides), DOUBLE)
    kind = _of_exact(node, *kinds)
    one = left.sql
    if kind.is_decimal:
        # DuckDB's own result would have 18 digits where neither side has more.
        one = cast(one, f"decimal({kind.precision},{left.kind.digits[1]})")
    return Value(_both(node, one, right.sql, divides), kind)


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
        raise Untranslated("decimals are divided to another number of digits; cast them to double")
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
