"""Sum, mean, median and standard deviation of a column without rounding on the way.

Of whole numbers and decimals they are exact; of floating numbers they are the double next to the
exact value, whatever the order of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import duckdb

_BLOCK = 100_000
# The smallest double, as a power of two: each is a whole number of these.
_FINEST = 1 << 1074
# Of a square root: no number that a file can write lies closer to one.
_DIGITS = 120


def sum_of(rows: duckdb.DuckDBPyConnection, of: str, column: str) -> Fraction | None:
    """None where there is no value. ArithmeticError where one is no finite number.

    `of` is the rest of the query behind its columns, `FROM` and on; so for the others."""
    number, total, _, unit = _moments(rows, of, column)
    return Fraction(total, unit) if number else None


def mean_of(rows: duckdb.DuckDBPyConnection, of: str, column: str) -> Fraction | None:
    number, total, _, unit = _moments(rows, of, column)
    return Fraction(total, unit * number) if number else None


def deviation_of(rows: duckdb.DuckDBPyConnection, of: str, column: str) -> Fraction | None:
    """Of a sample: None also of a single value."""
    number, total, squares, unit = _moments(rows, of, column)
    if number < 2:
        return None
    with localcontext(prec=_DIGITS):
        above = Decimal(number * squares - total * total)
        return Fraction((above / (number * (number - 1))).sqrt() / unit)


def median_of(rows: duckdb.DuckDBPyConnection, of: str, column: str) -> Fraction | None:
    found = rows.execute(f"SELECT count({column}) {of}").fetchone()
    number = found[0] if found else 0
    middle = (
        f"SELECT {column} {of} AND {column} IS NOT NULL ORDER BY {column} "
        f"LIMIT {2 - number % 2} OFFSET {max(number - 1, 0) // 2}"
    )
    values = [_exact(value) for (value,) in rows.execute(middle).fetchall()]
    return sum(values, Fraction()) / len(values) if values else None


def _moments(rows: duckdb.DuckDBPyConnection, of: str, column: str) -> tuple[int, int, int, int]:
    """How many values there are, their sum and that of their squares, as numbers of a unit and of
    its square; and how many of that unit are 1."""
    number = total = squares = 0
    unit = 1
    for value, times in _values(rows, of, column):
        whole, unit = _in_units(value)
        number += times
        total += times * whole
        squares += times * whole * whole
    return number, total, squares, unit


def _values(rows: duckdb.DuckDBPyConnection, of: str, column: str) -> Iterator[tuple[Any, int]]:
    query = f"SELECT {column}, count(*) {of} AND {column} IS NOT NULL GROUP BY ALL"
    for block in rows.sql(query).to_arrow_reader(_BLOCK):
        values, times = (block.column(place).to_pylist() for place in (0, 1))
        yield from zip(values, times, strict=True)


def _in_units(value: Any) -> tuple[int, int]:
    """A number as so many of the smallest that its type has, and how many of these are 1."""
    if isinstance(value, Decimal):
        text = f"{value:f}"
        return int(text.replace(".", "")), int(10 ** len(text.partition(".")[2]))
    if isinstance(value, float):
        above, below = _exact(value).as_integer_ratio()
        return above * (_FINEST // below), _FINEST
    return value, 1


def _exact(value: Any) -> Fraction:
    try:
        return Fraction(value)
    except (ValueError, OverflowError):
        raise ArithmeticError(f"{value} is among its values") from None
