"""Rows of a Parquet file as the JSON lines that they would be.

Text, numbers (decimals with all their digits), true and false, null, lists, structs and maps are
what JSON has. An instant is ISO 8601 in UTC; a timestamp without a zone is ISO 8601 without one,
and a date or time too, to the microsecond; binary is base64. NaN and the infinities have no JSON,
nor have times beyond the years 1 to 9999 and text that is not UTF-8: their row is malformed.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time
from decimal import Decimal
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidemark.judge.arrow import Array
from tidemark.judge.arrow import kernels as pc
from tidemark.judge.limits import outside_calendar
from tidemark.pipeline.instants import epoch_ms
from tidemark.pipeline.settings.storage_options import is_local, local_path
from tidemark.sources.files.slices import GONE, changed_while_read, of_file
from tidemark.sources.formats.json_values import NULL, lines_of_columns, quoted
from tidemark.sources.formats.whole_files import WholeFile, all_lines, row_name
from tidemark.sources.large_lines import bounded
from tidemark.sources.source import PartUnreadable, TypedRows, check_is_of_the_part
from tidemark.storage.files import FileFacts, FileMissing, Options, read_bytes, stat_files

# That Python cannot hold: a time beyond its years, text that is not UTF-8.
_BEYOND = (OverflowError, ValueError)
_BINARY = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)
_AS_THEY_ARE = (
    *(pa.types.is_null, pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating),
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
)
Encoder = Callable[[Any], str]
# Rows that are turned into lines at a time; fewer where so many have more bytes than that.
_AT_ONCE = 20_000
_BYTES_AT_ONCE = 64 * 1024 * 1024
# Bytes of a column that are read at a time.
_AT_A_TIME = 1024 * 1024
# A row as JSON is about so much larger than in its file.
UNPACKED = 8
# What a byte of text takes at most in JSON, and a number, a time or a decimal.
_LARGEST_CHARACTER, _LARGEST_VALUE = 6, 400


def encoder_of(kind: pa.DataType) -> Encoder:
    """What makes JSON of values of a type, as Arrow gives them to Python; null is null."""
    inner = _encoder(kind)
    return lambda value: "null" if value is None else inner(value)


def _encoder(kind: pa.DataType) -> Encoder:
    if pa.types.is_timestamp(kind):
        return _time if kind.tz is None else _instant
    if pa.types.is_decimal(kind):
        return _decimal
    if pa.types.is_dictionary(kind):
        return _encoder(kind.value_type)
    if pa.types.is_time(kind):
        return _time
    if pa.types.is_date(kind):
        return lambda value: f'"{value.isoformat()}"'
    if isinstance(kind, pa.UuidType):
        return lambda value: f'"{value}"'
    if any(is_one(kind) for is_one in _BINARY):
        return lambda value: f'"{base64.b64encode(value).decode()}"'
    if pa.types.is_struct(kind):
        fields = [(json.dumps(one.name), one.name, encoder_of(one.type)) for one in kind]
        return lambda value: _object((name, encode(value[key])) for name, key, encode in fields)
    if pa.types.is_map(kind):
        of_key, of_item = encoder_of(kind.key_type), encoder_of(kind.item_type)
        return lambda value: _object((_key(of_key(key)), of_item(item)) for key, item in value)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        of_one = encoder_of(kind.value_type)
        return lambda value: f"[{', '.join(of_one(one) for one in value)}]"
    if any(is_one(kind) for is_one in _AS_THEY_ARE):
        return lambda value: json.dumps(value, ensure_ascii=False)
    raise pa.ArrowNotImplementedError(f"a column of type {kind} has no JSON")


def lines_of(rows: pa.Table, partition: Mapping[str, str] = MappingProxyType({})) -> Array:
    """A line (binary) of each row. `partition`: further fields of all, by name, as JSON."""
    columns = [_json(column.combine_chunks()) for column in rows.columns]
    shared = [pa.repeat(pa.scalar(value), len(rows)) for value in partition.values()]
    return lines_of_columns([*rows.column_names, *partition], [*columns, *shared])


def typed_rows(
    given: pa.Table,
    origin: pa.Table,
    most_bytes: int,
    name: Callable[[int], str],
    partition: Mapping[str, str] = MappingProxyType({}),
) -> TypedRows:
    """Rows with their types, and the lines that they would be; `name` is what a row is called by
    its place. Spark writes the columns of a partition to the file too, and what the log says of
    them counts."""
    rows = given.drop_columns([one for one in partition if one in given.column_names])
    arrays = [_plain(column.combine_chunks()) for column in rows.columns]
    plain = pa.table(arrays, rows.column_names)

    def lines(places: Array | None) -> pa.Table:
        if places is None:
            found, whence = lines_of(plain, partition), origin
            columns = bounded(found, most_bytes, name)
        else:
            try:
                found = lines_of(plain.take(places), partition)
            except pa.ArrowNotImplementedError:
                # Of nested columns in some of Arrow's forms, which it makes lines of.
                found = lines_of(plain, partition).take(places)
            columns = bounded(found, most_bytes, lambda place: name(places[place].as_py()))
            whence = origin.take(places)
        for column in columns:
            whence = whence.append_column(column, columns[column])
        return whence

    small = surely_small(plain, most_bytes) if not partition else np.zeros(len(rows), np.bool_)
    structs = pa.StructArray.from_arrays(arrays, rows.column_names)
    return TypedRows(structs, origin, small, lines)


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


def _time(value: datetime | time) -> str:
    return f'"{value.isoformat()}"'


def _decimal(value: Decimal) -> str:
    return format(value, "f")


@dataclass(frozen=True)
class ParquetSlice(WholeFile):
    """A whole file. Of a local one only what is read at a time is in memory; of another one all of
    it."""

    @property
    def estimated_bytes(self) -> int:
        return self.size * UNPACKED

    def lines(self, most_bytes: int) -> Iterator[pa.Table]:
        return all_lines(self.typed(most_bytes))

    def typed(self, most_bytes: int) -> Iterator[TypedRows]:
        number = 0
        self._check()
        try:
            for rows in parquet_rows(self.part, self.part, self.options, GONE):
                places = np.arange(number, number + len(rows))
                origin = pa.table(of_file(self.part, places))
                yield typed_rows(rows, origin, most_bytes, partial(row_name, number))
                number += len(rows)
        except PartUnreadable:
            # What is half written cannot be read either, and may be whole at the next try.
            self._check()
            raise
        self._check()

    def _check(self) -> None:
        """Before it is read and after: its footer is read first, its pages later."""
        facts = stat_files([self.part], self.options)[self.part]
        if facts is None:
            raise PartUnreadable(self.part, GONE)
        if (facts.size, epoch_ms(facts.modified)) != (self.size, self.modified_ms):
            raise changed_while_read([self.part])


def _json(column: Array) -> Array:
    """A column as JSON: by Arrow where it writes what `encoder_of` does, else value by value."""
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return pc.coalesce(column.cast(pa.string()), NULL)
    if pa.types.is_float64(kind) and pc.all(pc.is_finite(column)).as_py() is not False:
        texts = column.cast(pa.string())
        # 5.0 is no whole number.
        whole = pc.binary_join_element_wise(texts, pa.scalar(".0"), "")
        found = pc.if_else(pc.match_substring_regex(texts, "[.e]"), texts, whole)
        return pc.coalesce(found, NULL)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        texts = column.cast(pa.string())
        if not pc.any(pc.match_substring_regex(texts, r"[\x00-\x1f]")).as_py():
            return pc.coalesce(quoted(texts), NULL)
    if pa.types.is_date32(kind) and not _beyond_years(column):
        return pc.coalesce(quoted(column.cast(pa.string())), NULL)
    if kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")) and not _beyond_years(column):
        # Arrow writes `2026-07-01 10:00:00.123456Z`, and digits that are all 0.
        texts = pc.replace_substring(column.cast(pa.string()), " ", "T")
        texts = pc.replace_substring(texts, ".000000", "")
        return pc.coalesce(quoted(texts), NULL)
    return pa.array(_texts(pa.chunked_array([column]), encoder_of(kind)), pa.string())


def _beyond_years(column: Array) -> bool:
    """Is a time outside of the years 1 to 9999, or before 1970, where Arrow rounds otherwise?"""
    early = pc.less(pc.year(column), 1970)
    return bool(pc.any(pc.or_(early, outside_calendar(column))).as_py())


def _plain(column: Array) -> Array:
    """Text and bytes of Arrow's other forms, as which some writers' files are read, in the usual
    one."""
    if pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
        return column.cast(pa.string())
    if pa.types.is_large_binary(column.type) or pa.types.is_binary_view(column.type):
        return column.cast(pa.binary())
    return column


def surely_small(rows: pa.Table, most_bytes: int) -> Any:
    """Which rows' lines have at most so many bytes, as NumPy's booleans, by what a character and a
    value of another type take at most; none where a type has no such bound."""
    sizes = np.full(len(rows), sum(len(json.dumps(name)) + 4 for name in rows.column_names))
    for column in rows.columns:
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            lengths = pc.fill_null(pc.binary_length(column), 0).to_numpy()
            sizes = sizes + _LARGEST_CHARACTER * lengths + _LARGEST_VALUE
        elif pa.types.is_primitive(column.type) or pa.types.is_decimal(column.type):
            sizes = sizes + _LARGEST_VALUE
        else:
            return np.zeros(len(rows), np.bool_)
    return sizes <= most_bytes


def parquet_slice(uri: str, facts: FileFacts, options: Options) -> ParquetSlice:
    """A file as it is now."""
    return ParquetSlice(uri, facts.size, epoch_ms(facts.modified), dict(options))


def parquet_rows(
    part: str, uri: str, options: Options, gone: str, names: list[str] | None = None
) -> Iterator[pa.Table]:
    """The rows of a file, some at a time; of a local one only these are in memory, of another one
    all of the file. `names`: only these of its columns. PartUnreadable where it cannot be read,
    with `gone` where it is not there."""
    try:
        file = _opened(uri, options)
        schema = typed_schema(file)
        if not len(schema):
            raise pa.ArrowInvalid("it has no columns")
        for column in schema:
            # A type that has no JSON is told before a row is read.
            encoder_of(column.type)
        if names is not None:
            # In the order of the names, as the batches have them.
            chosen = [one for one in schema if one.name in names]
            schema = pa.schema(sorted(chosen, key=lambda one: names.index(one.name)))
        for batch in file.iter_batches(_rows_at_once(file), columns=names):
            columns = zip(batch.columns, schema.types, strict=True)
            yield pa.table([_cast(*column) for column in columns], schema=schema)
    except (FileMissing, FileNotFoundError) as error:
        raise PartUnreadable(part, gone) from error
    # pyarrow's two errors: of a file that is no Parquet, and of Parquet that it cannot read, such
    # as another compression, or a type that has no JSON. Names of columns may be no UTF-8.
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError, OSError) as error:
        check_is_of_the_part(part, error)
        raise PartUnreadable(part, f"It cannot be read as Parquet ({error})") from error


def parquet_schema(uri: str, options: Options) -> pa.Schema:
    """The columns of a file that can be read, with the types of its rows."""
    return typed_schema(_opened(uri, options))


def typed_schema(file: pq.ParquetFile) -> pa.Schema:
    """A file's columns, with a zone for INT96, which is an instant; Arrow gives it none."""
    columns = file.schema
    stored = iter([columns.column(place).physical_type for place in range(len(columns))])
    typed = [one.with_type(_with_instants(one.type, stored)) for one in file.schema_arrow]
    if next(stored, None) is not None:
        raise pa.ArrowNotImplementedError("a column is of a nested type that is not known")
    return pa.schema(typed)


def _opened(uri: str, options: Options) -> pq.ParquetFile:
    """Page by page, as a row group may have gigabytes. Spark's INT96 may be of any year, which
    nanoseconds do not reach. Where a page has a checksum it is held against it: else one that is
    damaged may be read as other values."""
    return pq.ParquetFile(
        local_path(uri) if is_local(uri) else pa.BufferReader(read_bytes(uri, options)),
        coerce_int96_timestamp_unit="us",
        pre_buffer=False,
        buffer_size=_AT_A_TIME,
        page_checksum_verification=True,
    )


def _cast(array: Array, kind: Any) -> Array:
    """Digits of a time beyond microseconds are cut off, as the judge cuts them off. Arrow's cast
    rounds instants before 1970 up, so those in nanoseconds, at whatever depth, are cut here."""
    if "timestamp[ns" not in str(array.type):
        return array.cast(kind, safe=False)
    if pa.types.is_timestamp(kind):
        micros = array.cast(pa.int64()).fill_null(0).to_numpy() // 1_000
        nulls = array.is_null().to_numpy(zero_copy_only=False)
        return pa.array(micros, mask=nulls).cast(kind)
    # Arrow makes no nested array out of parts of one that is a slice.
    array = pa.concat_arrays([array, array[:0]])
    made: Any = type(array)
    nulls = array.is_null()
    if pa.types.is_struct(kind):
        parts = [_cast(array.field(place), one.type) for place, one in enumerate(kind)]
        return made.from_arrays(parts, fields=list(kind), mask=nulls)
    if pa.types.is_map(kind):
        keys, items = _cast(array.keys, kind.key_type), _cast(array.items, kind.item_type)
        return made.from_arrays(array.offsets, keys, items, kind, mask=nulls)
    values = _cast(array.values, kind.value_type)
    if pa.types.is_fixed_size_list(kind):
        return made.from_arrays(values, type=kind, mask=nulls)
    return made.from_arrays(array.offsets, values, kind, mask=nulls)


def _rows_at_once(file: pq.ParquetFile) -> int:
    """By what the file says of its row groups."""
    groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    largest = max((one.total_byte_size // max(1, one.num_rows) for one in groups), default=0)
    return max(1, min(_AT_ONCE, _BYTES_AT_ONCE // max(1, largest)))


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
    if pa.types.is_fixed_size_list(kind):
        one = kind.value_field.with_type(_with_instants(kind.value_type, stored))
        return pa.list_(one, int(kind.list_size))
    if next(stored) == "INT96":
        return pa.timestamp("us", "UTC")
    return _usual(kind)


def _usual(kind: pa.DataType) -> pa.DataType:
    """JSON is text. Python's times have no more digits than microseconds; the judge cuts off what a
    line has beyond them too. A zone says that it is an instant, and Python need not know it."""
    if isinstance(kind, pa.JsonType):
        return kind.storage_type
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us" if kind.unit == "ns" else kind.unit, kind.tz and "UTC")
    return pa.time64("us") if pa.types.is_time64(kind) else kind
