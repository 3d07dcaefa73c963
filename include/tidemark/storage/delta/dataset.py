"""A table's rows as a dataset of Arrow, which are read as far as somebody asks.

delta-rs gives Arrow a file system in Python. A thread of Arrow that closes a file of it while the
interpreter ends has to wait for the interpreter, and aborts the process instead: 6 of 110 scripts
that read a table and ended, and none of 100 by Arrow's own file system. So local tables are read by
that. On object storage the one of delta-rs stays, which alone knows the table's options.

A filter passes files over by their statistics, DuckDB's too, and delta-rs (1.6.6) tells Arrow some
that are not so. A bound that the log does not have it tells as `column >= null`, which no value
fulfils: of a column that the file does not have, of text in files that a job wrote
(`written_files.py`). Bounds of floating numbers leave NaN out, which Arrow then finds within them;
those of decimals of more than 15 digits, and of times that nanoseconds do not reach, are rounded.
So Arrow is told no more of such a file than its partition, whole numbers and times. Days it is told
of no file, but of its partition: delta-rs has Python read each bound, which ends with ValueError at
one outside of the years 1 to 9999. Files of former versions have such bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from operator import and_, or_
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from pyarrow.fs import FileSystem, LocalFileSystem, SubTreeFileSystem

from tidemark.pipeline.settings.storage_options import is_local, local_path
from tidemark.storage.delta.history import schema_of
from tidemark.storage.file_place import FilePlace

# The log tells times in milliseconds.
_TOLD_TIME = timedelta(milliseconds=1)
_IN_NANOSECONDS = (datetime(1678, 1, 1, tzinfo=UTC), datetime(2262, 1, 1, tzinfo=UTC))


def dataset_of(table: DeltaTable, file_pruning_predicate: Any = None) -> ds.Dataset:
    """The rows of the table at its version; files are left out by the predicate, as delta-rs
    reads it."""
    schema, columns = schema_of(table), table.metadata().partition_columns
    told = [one for one in schema if one.name in columns or not pa.types.is_date(one.type)]
    read: Callable[..., Any] = table.to_pyarrow_dataset
    known = read(
        file_pruning_predicate=file_pruning_predicate,
        filesystem=_own_files(table.table_uri),
        schema=pa.schema(told),
        # Times of others, as Spark writes them, may be of any year, which nanoseconds do not reach.
        parquet_read_options=ds.ParquetReadOptions(None, coerce_int96_timestamp_unit="us"),
    )
    # Without it, a page that is damaged may be read as other values. All its fragments share it.
    known.format.default_fragment_scan_options = ds.ParquetFragmentScanOptions(
        pre_buffer=True, page_checksum_verification=True
    )
    known = ds.FileSystemDataset([*known.get_fragments()], schema, known.format, known.filesystem)
    files = pa.table(table.get_add_actions(flatten=True))
    # Of thousands of files the predicate may leave a few, and what is told of one costs.
    left: Any = pa.array(known.files, pa.string())
    found = files.filter(pc.is_in(files["path"], left))
    files = found if found.num_rows == len(left) else files
    wrong = _told_wrongly(files, known.schema)
    if not pc.any(wrong).as_py():
        return known
    good = {*files.filter(pc.invert(wrong)).column("path").to_pylist()}
    bounds = {file["path"]: file for file in _of_numbers_and_times(files.filter(wrong), known)}
    fragments = [
        one
        if one.path in good
        else _told_less(one, columns, bounds.get(one.path, {}), known.schema)
        for one in known.get_fragments()
    ]
    return ds.FileSystemDataset(fragments, known.schema, known.format, known.filesystem)


def data_files(place: FilePlace, table: DeltaTable) -> list[str]:
    """Where a table's files lie at its version. delta-rs tells them with a local path that is
    encoded, where nothing lies if it has a blank, say."""
    paths: list[Any] = pa.table(table.get_add_actions()).column("path").to_pylist()
    return [place.below(unquote(path)) for path in paths]


def event_dates(bronze: DeltaTable) -> list[date]:
    """The dates that a bronze has files of, oldest first."""
    return sorted({date.fromisoformat(part["_event_date"]) for part in bronze.partitions()})


def rows_on(bronze: DeltaTable, days: Iterable[date]) -> ds.Dataset:
    """A bronze's rows of these dates, which may be none: files of others are not opened."""
    listed = ", ".join(f"DATE '{day}'" for day in sorted(days))
    return dataset_of(bronze, f"_event_date IN ({listed})" if listed else "false")


def rows_from(bronze: DeltaTable, first: date, last: date) -> ds.Dataset:
    """A bronze's rows of a range of dates, which may be all that there are."""
    return dataset_of(bronze, f"_event_date BETWEEN DATE '{first}' AND DATE '{last}'")


def _told_wrongly(files: pa.Table, schema: pa.Schema) -> Any:
    """Of which files delta-rs tells Arrow what is not so, as an array."""
    found: list[Any] = [pa.array([False] * files.num_rows, pa.bool_())]
    for name in (name for name in files.column_names if name.startswith("null_count.")):
        column = name.removeprefix("null_count.")
        # Within a struct there may be any.
        kind = schema.field(column).type if column in schema.names else pa.float64()
        if pa.types.is_date(kind):
            continue
        ends: list[Any] = [
            files[end] for end in (f"min.{column}", f"max.{column}") if end in files.column_names
        ]
        wrong: Any = pc.less(files[name], files["num_records"])
        if len(ends) == 2:
            wrong = pc.and_(wrong, pc.or_(*map(pc.is_null, ends)))
        # Null where the file does not have the column.
        found.append(pc.fill_null(wrong, True))
        if ends and (pa.types.is_decimal(kind) or pa.types.is_floating(kind)):
            found.append(pc.is_valid(ends[0]))
        elif pa.types.is_timestamp(kind):
            found += [pc.fill_null(_is_far(end), False) for end in ends]
    return reduce(pc.or_, found)


def _is_far(times: Any) -> Any:
    """Cannot a time be told in nanoseconds of 64 bits?"""
    first, last = (pa.scalar(one, times.type) for one in _IN_NANOSECONDS)
    return pc.or_(pc.less(times, first), pc.greater_equal(times, last))


def _of_numbers_and_times(files: pa.Table, known: ds.Dataset) -> Iterator[dict[str, Any]]:
    """The bounds of files, as the log has them, and their paths."""
    kinds = (pa.types.is_integer, pa.types.is_timestamp)
    named = [one.name for one in known.schema if any(is_a(one.type) for is_a in kinds)]
    asked = ["path", *(f"{end}.{name}" for name in named for end in ("min", "max"))]
    told = files.select([one for one in asked if one in files.column_names])
    for place, name in enumerate(told.column_names):
        values: Any = told.column(name)
        if pa.types.is_timestamp(values.type):
            # No further time can be told at the ends of the calendar, where 9999-12-31 stands for
            # ever; one outside of it is none in Python.
            values = pc.if_else(_is_far(values), None, values)
        told = told.set_column(place, name, values)
    return iter(told.to_pylist())


def _told_less(
    fragment: Any, columns: Sequence[str], bounds: Mapping[str, Any], schema: pa.Schema
) -> Any:
    known = ds.get_partition_keys(fragment.partition_expression)
    parts = [
        ds.field(name).is_null() if known[name] is None else ds.field(name) == known[name]
        for name in columns
        if name in known
    ]
    for told, value in bounds.items():
        end, _, name = told.partition(".")
        if value is None or end not in ("min", "max"):
            continue
        kind, column = schema.field(name).type, ds.field(name)
        of_time = pa.types.is_timestamp(kind)
        if end == "min":
            within = column >= pa.scalar(value - _TOLD_TIME if of_time else value, kind)
        else:
            within = column <= pa.scalar(value + _TOLD_TIME if of_time else value, kind)
        parts.append(or_(within, column.is_null()))
    return fragment.format.make_fragment(
        fragment.path,
        filesystem=fragment.filesystem,
        partition_expression=reduce(and_, parts, ds.scalar(True)),
    )


def _own_files(uri: str) -> FileSystem | None:
    if not is_local(uri):
        return None
    return SubTreeFileSystem(local_path(uri), LocalFileSystem())
