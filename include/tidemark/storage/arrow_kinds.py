"""Types of Arrow as those of Spark that a translation to DuckDB knows."""

from __future__ import annotations

import pyarrow as pa

from tidemark.pipeline.expressions.kinds import (
    BINARY,
    BOOLEAN,
    DATE,
    NESTED,
    TEXT,
    TIMESTAMP,
    UNKNOWN,
    Kind,
)

_OF_ARROW = (
    (pa.types.is_int8, Kind("tinyint")),
    (pa.types.is_int16, Kind("smallint")),
    (pa.types.is_int32, Kind("int")),
    (pa.types.is_int64, Kind("bigint")),
    (pa.types.is_float32, Kind("float")),
    (pa.types.is_float64, Kind("double")),
    (pa.types.is_boolean, BOOLEAN),
    (pa.types.is_string, TEXT),
    (pa.types.is_large_string, TEXT),
    (pa.types.is_string_view, TEXT),
    (pa.types.is_binary, BINARY),
    (pa.types.is_large_binary, BINARY),
    (pa.types.is_binary_view, BINARY),
    (pa.types.is_date32, DATE),
    (pa.types.is_timestamp, TIMESTAMP),
    (pa.types.is_nested, NESTED),
)


def kinds_of(schema: pa.Schema) -> dict[str, Kind]:
    """The types in Spark of columns that Arrow has, by their names."""
    return {field.name: _kind(field.type) for field in schema}


def _kind(of: pa.DataType) -> Kind:
    if pa.types.is_decimal(of):
        return Kind("decimal", of.precision, of.scale)
    return next((kind for is_kind, kind in _OF_ARROW if is_kind(of)), UNKNOWN)
