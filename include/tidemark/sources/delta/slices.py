"""The rows of one file of a table, read by one process as the JSON lines that they would be.

Text, numbers (decimals with all their digits), true and false, null, lists, structs and maps are
what JSON has. An instant is ISO 8601 in UTC; a timestamp without a zone is ISO 8601 without one,
and a date too; binary is base64. NaN and the infinities have no JSON, nor have times beyond the
years 1 to 9999 and text that is not UTF-8: their row is malformed.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidemark.pipeline.settings.storage_options import is_local, local_path
from tidemark.sources.large_lines import bounded
from tidemark.sources.source import NOT_THE_PART, PartUnreadable, Slice
from tidemark.storage.files import FileMissing, Options, read_bytes

# That Python cannot hold: a time beyond its years, text that is not UTF-8.
_BEYOND = (OverflowError, ValueError)
_BINARY = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)
Encoder = Callable[[Any], str]
# Rows that are turned into lines at a time; fewer where so many have more bytes than that.
_AT_ONCE = 20_000
_BYTES_AT_ONCE = 64 * 1024 * 1024
# Bytes of a column that are read at a time.
_AT_A_TIME = 1024 * 1024
# A row as JSON is about so much larger than in its file.
_UNPACKED = 8


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


@dataclass(frozen=True)
class DeltaSlice(Slice):
    """`part` names the version and the file (`Part`), `uri` is where it lies; `partition` has the
    values of partition columns as JSON. `most`: only so many rows are read, the first ones. Of a
    local file only what is read at a time is in memory; of another one the whole file."""

    part: str
    version: int
    path: str
    uri: str
    bytes: int
    partition: Mapping[str, str]
    options: Options
    most: int | None = None

    @property
    def label(self) -> str:
        return self.uri

    @property
    def estimated_bytes(self) -> int:
        return self.bytes * _UNPACKED

    def lines(self, most_bytes: int) -> Iterator[pa.Table]:
        row = 0
        try:
            file = self._opened()
            schema = _typed(file)
            for batch in file.iter_batches(_rows_at_once(file)):
                rows = pa.Table.from_batches([batch]).cast(schema)
                rows = rows if self.most is None else rows.slice(0, self.most - row)
                lines = pa.array(lines_of(rows, dict(self.partition)), pa.binary())
                number = len(lines)
                yield pa.table(
                    {
                        **bounded(lines, most_bytes, lambda _: "The row as JSON"),
                        "_version": pa.repeat(pa.scalar(self.version, pa.int64()), number),
                        "_file": pa.repeat(pa.scalar(self.path, pa.string()), number),
                        "_row": pa.array(range(row, row + number), pa.int64()),
                    }
                )
                row += number
                if row == self.most:
                    return
        except (FileMissing, FileNotFoundError) as error:
            raise PartUnreadable(self.part, "The file is gone") from error
        # pyarrow's two errors: of a file that is no Parquet, and of Parquet that it cannot read,
        # such as another compression.
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            if isinstance(error, OSError) and error.errno in NOT_THE_PART:
                raise
            raise PartUnreadable(self.part, f"It cannot be read as Parquet ({error})") from error

    def _opened(self) -> pq.ParquetFile:
        if is_local(self.uri):
            return _parquet(local_path(self.uri))
        return _parquet(pa.BufferReader(read_bytes(self.uri, self.options)))


def _parquet(file: Any) -> pq.ParquetFile:
    """The file to read, page by page, as a row group may have gigabytes. Spark's INT96 may be of
    any year, which nanoseconds do not reach."""
    return pq.ParquetFile(
        file, coerce_int96_timestamp_unit="us", pre_buffer=False, buffer_size=_AT_A_TIME
    )


def _rows_at_once(file: pq.ParquetFile) -> int:
    """By what the file says of its row groups."""
    groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    largest = max((one.total_byte_size // max(1, one.num_rows) for one in groups), default=0)
    return max(1, min(_AT_ONCE, _BYTES_AT_ONCE // max(1, largest)))


def _typed(file: pq.ParquetFile) -> pa.Schema:
    """The file's columns with a zone for INT96, which is an instant; Arrow gives it none."""
    columns = file.schema
    stored = iter([columns.column(place).physical_type for place in range(len(columns))])
    return pa.schema([one.with_type(_with_instants(one.type, stored)) for one in file.schema_arrow])


def _with_instants(kind: pa.DataType, stored: Iterator[str]) -> pa.DataType:
    """`stored`: how the leaves of the type, and of those after it, lie in the file."""
    if pa.types.is_struct(kind):
        return pa.struct([one.with_type(_with_instants(one.type, stored)) for one in kind])
    if pa.types.is_map(kind):
        key = _with_instants(kind.key_type, stored)
        return pa.map_(key, _with_instants(kind.item_type, stored))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_with_instants(kind.value_type, stored)))
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_with_instants(kind.value_type, stored)))
    return pa.timestamp("us", "UTC") if next(stored) == "INT96" else kind
