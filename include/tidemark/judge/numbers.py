"""Exact numbers from their text: whole ones, decimals, doubles, floats. None where it is no such.

Nothing is computed before its size is known: a number such as `1e99999999` is refused by its
exponent, without being written out.
"""

from __future__ import annotations

import re
from decimal import ROUND_FLOOR, Context, Decimal, Inexact, InvalidOperation
from functools import cache
from math import isfinite

import pyarrow as pa

_WHOLE = re.compile(r"-?[0-9]+")
# What careful senders put in quotes, and Java's BigDecimal reads.
_QUOTED = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
# More digits than any whole number of 64 bits has.
_LONGEST_WHOLE = 20
_EXACT = Context(prec=100, traps=[Inexact, InvalidOperation])


def whole_number(text: str, bits: int) -> int | None:
    """A whole number that a signed integer of so many bits holds; `1.0` and `1e3` are none."""
    if len(text) > _LONGEST_WHOLE or not _WHOLE.fullmatch(text):
        return None
    number, limit = int(text), 1 << (bits - 1)
    return number if -limit <= number < limit else None


def double(text: str) -> float | None:
    """The nearest double; None beyond the largest."""
    number = float(text)
    return number if isfinite(number) else None


def single(text: str) -> float | None:
    """The nearest float, rounded once: by way of a double it could be another."""
    number: float = pa.scalar(text).cast(pa.float32()).as_py()
    return number if isfinite(number) else None


def decimal(text: str, precision: int, scale: int) -> Decimal | None:
    """The number with `scale` digits after the point; None where it does not fit, unrounded."""
    number = _decimal(text)
    if number is None:
        return None
    if not number:
        return Decimal(0)
    if number.adjusted() >= precision - scale:
        return None
    try:
        return number.quantize(_last_place(scale), context=_EXACT)
    except Inexact:
        return None


def floor_scaled(text: str, power: int, most: int) -> int | None:
    """The number times ten to a power, rounded down; None where its size is above `most`."""
    number = _decimal(text)
    if number is None:
        return None
    if not number:
        return 0
    if number.adjusted() + power > len(str(most)):
        return None
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    if number.adjusted() + power < 0:
        return -1 if sign else 0
    scaled = Decimal((sign, digits, exponent + power))
    whole = int(scaled.to_integral_value(rounding=ROUND_FLOOR))
    return whole if abs(whole) <= most else None


def is_quoted_number(text: str) -> bool:
    """May a text in quotes stand for a decimal or an epoch? No blanks, no commas, no words."""
    return _QUOTED.fullmatch(text) is not None


def _decimal(text: str) -> Decimal | None:
    """Exact; None for an exponent beyond what a computer can count."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


@cache
def _last_place(scale: int) -> Decimal:
    return Decimal(1).scaleb(-scale)
