"""Days and times of a year before 1 or behind 9999: Spark computes them, and what reads a table by
Python cannot take them."""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

BEYOND = "its day or time lies outside the years 1 to 9999"

# As SQL: of a date of Python's year 1 pyspark makes the text `1-01-01`, which is none.
_BOUNDS = {
    "date": ("DATE '0001-01-01'", "DATE '9999-12-31'"),
    "timestamp": (
        "TIMESTAMP '0001-01-01 00:00:00Z'",
        "TIMESTAMP '9999-12-31 23:59:59.999999Z'",
    ),
}


def beyond_calendar(value: Column, kind: T.DataType) -> Column:
    """Is a value of this type such a day or time, or does it hold one? Never null."""
    return F.coalesce(_beyond(value, kind), F.lit(False))


def _beyond(value: Column, kind: T.DataType) -> Column:
    parts = [F.lit(False)]
    if bounds := _BOUNDS.get(kind.typeName()):
        parts.append(~value.between(*map(F.expr, bounds)))
    elif isinstance(kind, T.ArrayType):
        parts.append(_any_beyond(value, kind.elementType))
    elif isinstance(kind, T.MapType):
        parts.append(_any_beyond(F.map_keys(value), kind.keyType))
        parts.append(_any_beyond(F.map_values(value), kind.valueType))
    elif isinstance(kind, T.StructType):
        parts += [_beyond(value[field.name], field.dataType) for field in kind]
    return reduce(or_, parts)


def _any_beyond(values: Column, kind: T.DataType) -> Column:
    return F.exists(values, lambda one: _beyond(one, kind))
