"""Typed rows of a Parquet file as the JSON lines that they would be, for the one judge.

Text, numbers (decimals with all their digits), true and false, null, lists, structs and maps are
what JSON has. An instant is ISO 8601 in UTC; a timestamp without a zone is ISO 8601 without one,
and a date too; binary is base64. NaN and the infinities have no JSON: their row is malformed. Of a
time or date beyond the years 1 to 9999 only that is said, as text.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

Encoder = Callable[[Any], str]
_BEYOND = '"beyond the years 1 to 9999"'


def encoder_of(kind: pa.DataType) -> Encoder:
    """What makes JSON of values of a type, as Arrow gives them to Python; null is null."""
    inner = _encoder(kind)

    def encode(value: Any) -> str:
        if value is None:
            return "null"
        return _BEYOND if isinstance(value, _Beyond) else inner(value)

    return encode


def _encoder(kind: pa.DataType) -> Encoder:
    if pa.types.is_timestamp(kind):
        # Spark's INT96 is an instant, and the only one in nanoseconds; Arrow gives it no zone.
        is_instant = kind.tz is not None or kind.unit == "ns"
        return _instant if is_instant else _time
    if pa.types.is_decimal(kind):
        return _decimal
    if pa.types.is_date(kind):
        return lambda value: f'"{value.isoformat()}"'
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return lambda value: f'"{base64.b64encode(value).decode()}"'
    if pa.types.is_struct(kind):
        fields = [(json.dumps(one.name), one.name, encoder_of(one.type)) for one in kind]
        return lambda value: _object((name, encode(value[key])) for name, key, encode in fields)
    if pa.types.is_map(kind):
        of_key, of_item = _key, encoder_of(kind.item_type)
        return lambda value: _object((of_key(key), of_item(item)) for key, item in value)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        of_one = encoder_of(kind.value_type)
        return lambda value: f"[{', '.join(of_one(one) for one in value)}]"
    return lambda value: json.dumps(value, ensure_ascii=False)


def lines_of(
    given: pa.Table, partition: dict[str, str], kinds: pa.Schema | None = None
) -> list[bytes]:
    """A line for each row. `partition`: further fields of all of them, by name, as JSON; Spark
    writes these to the file too, and what the log says of them counts. `kinds`: the columns' types
    where they say more than those of the rows."""
    rows = given.drop_columns([name for name in partition if name in given.column_names])
    columns = [
        [f"{json.dumps(name, ensure_ascii=False)}: " for name in rows.column_names],
        [encoder_of((kinds or rows.schema).field(name).type) for name in rows.column_names],
        [_values(column) for column in rows.columns],
    ]
    shared = [f"{json.dumps(name, ensure_ascii=False)}: {one}" for name, one in partition.items()]
    texts = [
        [name + encode(value) for value in values]
        for name, encode, values in zip(*columns, strict=True)
    ]
    if not texts:
        return [f"{{{', '.join(shared)}}}".encode()] * len(rows)
    return [f"{{{', '.join([*fields, *shared])}}}".encode() for fields in zip(*texts, strict=True)]


class _Beyond:
    """Stands for a value with a time that Python does not have."""


def _values(column: pa.ChunkedArray[Any]) -> list[Any]:
    try:
        return column.to_pylist()
    except OverflowError:
        return [_value(one) for one in column]


def _value(given: pa.Scalar[Any]) -> Any:
    try:
        return given.as_py()
    except OverflowError:
        return _Beyond()


def _object(fields: Any) -> str:
    return f"{{{', '.join(f'{name}: {value}' for name, value in fields)}}}"


def _key(key: Any) -> str:
    return json.dumps(key if isinstance(key, str) else str(key), ensure_ascii=False)


def _instant(value: datetime) -> str:
    aware = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return f'"{aware.replace(tzinfo=None).isoformat()}Z"'


def _time(value: datetime) -> str:
    return f'"{value.isoformat()}"'


def _decimal(value: Decimal) -> str:
    return format(value, "f")
