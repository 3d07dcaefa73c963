"""Typed rows of a Parquet file as the JSON lines that they would be, for the one judge.

Text, numbers (decimals with all their digits), true and false, null, lists, structs and maps are
what JSON has. An instant is ISO 8601 in UTC; a timestamp without a zone is ISO 8601 without one,
and a date too; binary is base64. NaN and the infinities have no JSON, nor have times beyond the
years 1 to 9999 and text that is not UTF-8: their row is malformed.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

# That Python cannot hold: a time beyond its years, text that is not UTF-8.
_BEYOND = (OverflowError, ValueError)
_BINARY = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)

Encoder = Callable[[Any], str]


def encoder_of(kind: pa.DataType) -> Encoder:
    """What makes JSON of values of a type, as Arrow gives them to Python; null is null."""
    inner = _encoder(kind)
    return lambda value: "null" if value is None else inner(value)


def _encoder(kind: pa.DataType) -> Encoder:
    if pa.types.is_timestamp(kind):
        return _time if kind.tz is None else _instant
    if pa.types.is_decimal(kind):
        return _decimal
    if pa.types.is_date(kind):
        return lambda value: f'"{value.isoformat()}"'
    if any(is_one(kind) for is_one in _BINARY):
        return lambda value: f'"{base64.b64encode(value).decode()}"'
    if pa.types.is_struct(kind):
        fields = [(json.dumps(one.name), one.name, encoder_of(one.type)) for one in kind]
        return lambda value: _object((name, encode(value[key])) for name, key, encode in fields)
    if pa.types.is_map(kind):
        of_key, of_item = encoder_of(kind.key_type), encoder_of(kind.item_type)
        return lambda value: _object((_key(of_key(key)), of_item(item)) for key, item in value)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        of_one = encoder_of(kind.value_type)
        return lambda value: f"[{', '.join(of_one(one) for one in value)}]"
    return lambda value: json.dumps(value, ensure_ascii=False)


def lines_of(given: pa.Table, partition: dict[str, str]) -> list[bytes]:
    """A line for each row. `partition`: further fields of all of them, by name, as JSON; Spark
    writes these to the file too, and what the log says of them counts."""
    rows = given.drop_columns([name for name in partition if name in given.column_names])
    columns = [
        [f"{json.dumps(name, ensure_ascii=False)}: " for name in rows.column_names],
        [_texts(column, encoder_of(column.type)) for column in rows.columns],
    ]
    shared = [f"{json.dumps(name, ensure_ascii=False)}: {one}" for name, one in partition.items()]
    texts = [[name + value for value in values] for name, values in zip(*columns, strict=True)]
    if not texts:
        return [f"{{{', '.join(shared)}}}".encode()] * len(rows)
    return [f"{{{', '.join([*fields, *shared])}}}".encode() for fields in zip(*texts, strict=True)]


def _object(fields: Any) -> str:
    return f"{{{', '.join(f'{name}: {value}' for name, value in fields)}}}"


def _texts(column: pa.ChunkedArray[Any], encode: Encoder) -> list[str]:
    try:
        return [encode(value) for value in column.to_pylist()]
    except _BEYOND:
        return [_text(value, encode) for value in column]


def _text(value: pa.Scalar[Any], encode: Encoder) -> str:
    """One value by itself; what it lacks, which is no JSON, where it has none."""
    try:
        return encode(value.as_py())
    except _BEYOND as error:
        return f"({error})"


def _key(key: str) -> str:
    """JSON as the name of a field."""
    return key if key.startswith('"') else f'"{key}"'


def _instant(value: datetime) -> str:
    aware = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return f'"{aware.replace(tzinfo=None).isoformat()}Z"'


def _time(value: datetime) -> str:
    return f'"{value.isoformat()}"'


def _decimal(value: Decimal) -> str:
    return format(value, "f")
