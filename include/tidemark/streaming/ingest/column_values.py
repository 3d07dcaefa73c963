"""Values of columns: the type that the line is parsed with, and the exact value from that.

Spark's JSON parser reads 128 into a byte as -128, rounds decimals, takes 5 for the string
"5", and `12:01` for today. So columns of such types are parsed as something wider and read
here, at any depth.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.streaming.ingest.event_time import iso_timestamp

_DATE = r"^(?!0000)\d{4}-\d{2}-\d{2}\z"


def parsed_as(kind: T.DataType) -> str:
    """The DDL type that JSON of this type is parsed with."""
    match kind:
        case T.StringType():
            return "variant"
        case T.ByteType():
            return "smallint"
        case T.TimestampType() | T.DateType():
            return "string"
        case T.DecimalType():
            # As many digits after the point as fit: what does not fit the column is then seen.
            return f"decimal(38,{38 - (kind.precision - kind.scale)})"
        case T.ArrayType():
            return f"array<{parsed_as(kind.elementType)}>"
        case T.MapType():
            return f"map<string,{parsed_as(kind.valueType)}>"
        case T.StructType():
            return f"struct<{','.join(f'`{f.name}`:{parsed_as(f.dataType)}' for f in kind)}>"
    return kind.simpleString()


def read_value(parsed: Column, kind: T.DataType) -> Column:
    """The value, of type `kind`; null where it is another's. Parts of nested values likewise."""
    match kind:
        case T.StringType():
            is_text = F.schema_of_variant(parsed) == "STRING"
            return F.when(is_text, F.try_variant_get(parsed, "$", "string"))
        case T.ByteType():
            return parsed.try_cast("tinyint")
        case T.TimestampType():
            return iso_timestamp(parsed, None)
        case T.DateType():
            return F.when(parsed.rlike(_DATE), parsed.try_cast("date"))
        case T.DecimalType():
            exact = parsed.try_cast(kind)
            return F.when(exact == parsed, exact)
        case T.DoubleType() | T.FloatType():
            return F.when(F.abs(parsed) < float("inf"), parsed)
        case T.ArrayType() | T.MapType() | T.StructType():
            return _read_nested(parsed, kind)
    return parsed


def _read_nested(parsed: Column, kind: T.ArrayType | T.MapType | T.StructType) -> Column:
    match kind:
        case T.ArrayType():
            return F.transform(parsed, lambda item: read_value(item, kind.elementType))
        case T.MapType():
            return F.transform_values(parsed, lambda _, item: read_value(item, kind.valueType))
    fields = [
        read_value(part, field.dataType).alias(field.name) for part, field in _parts(parsed, kind)
    ]
    return F.when(parsed.isNotNull(), F.struct(*fields))


def is_misread(parsed: Column, kind: T.DataType) -> Column:
    """True when a value stands there, or in a part of it, that is not of its type."""
    match kind:
        case T.ArrayType():
            wrong = F.exists(parsed, lambda item: is_misread(item, kind.elementType))
        case T.MapType():
            values = F.map_values(parsed)
            wrong = F.exists(values, lambda item: is_misread(item, kind.valueType))
        case T.StructType():
            parts = [is_misread(part, field.dataType) for part, field in _parts(parsed, kind)]
            wrong = reduce(lambda left, right: left | right, parts)
        case T.StringType():
            wrong = ~F.schema_of_variant(parsed).isin("STRING", "VOID")
        case _:
            wrong = parsed.isNotNull() & read_value(parsed, kind).isNull()
    return F.coalesce(wrong, F.lit(False))


def _parts(parsed: Column, kind: T.StructType) -> Iterator[tuple[Column, T.StructField]]:
    return ((parsed.getField(field.name), field) for field in kind)
