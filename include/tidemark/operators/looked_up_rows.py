"""Of the copy of a large lookup the rows that rows at hand can find, by their keys.

A run's rows have few of millions of keys. So the copy is read once for them, where else each count
and Spark's join would read all of it. What is had may be more than is asked for: the join that
follows tells which row finds which, and of the copy no row is left out whose keys all stand among
those of the rows. The keys' types are the same on both sides, or all of the copy is read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable

from tidemark.operators.lookups import LookedUp, Lookups, columns_by_name
from tidemark.operators.operator import Operator
from tidemark.pipeline.names import same_column
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.history import schema_of
from tidemark.storage.duckdb_in_utc import duckdb_in_utc

# By the names of lookups; one that is not among them is to be read as a whole.
Found = Mapping[str, pa.Table]
NOTHING: Found = {}

# A copy of fewer rows costs little as it is.
FEW_ROWS = 200_000
# Of more keys or rows than this, Spark had better read the copy itself.
_MOST = 500_000
# A list of 30,000 dates ends the process in delta-rs, which reads it by recursion.
_MOST_LISTED = 1_000
# Of so many lookups a process remembers what it read last.
_REMEMBERED = 4


@dataclass
class _Read:
    """All rows of a copy whose every key is among these, one array for each of its keys; None where
    these are too many."""

    keys: Sequence[pa.Array[Any]]
    rows: pa.Table | None


def rows_found(
    connection: duckdb.DuckDBPyConnection,
    rows: str,
    lookups: Lookups,
    columns: Mapping[str, str],
) -> Found:
    """What the rows of a relation of bronze find in large lookups; `columns` are its columns by the
    names of the pipeline's file."""
    found = {}
    for name, one in lookups.items():
        keys = _keys_of(connection, rows, one, columns) if _is_large(one.copied.table) else None
        read = None if keys is None else _rows_with(one, keys)
        if read is not None:
            found[name] = read
    return found


def found_within(
    operator: Operator, bronze: DeltaTable, starts: Sequence[datetime], ends: Sequence[datetime]
) -> Found:
    """What the rows of bronze find in large lookups whose event time is in one of these stretches,
    which have one length each or do not overlap."""
    if not has_large(operator):
        return NOTHING
    days = {day for start, end in zip(starts, ends, strict=True) for day in _days(start, end)}
    days &= {date.fromisoformat(part["_event_date"]) for part in bronze.partitions()}
    if not days:
        return NOTHING
    on = f"_event_date BETWEEN DATE '{min(days)}' AND DATE '{max(days)}'"
    if len(days) <= _MOST_LISTED:
        listed = ", ".join(f"DATE '{day}'" for day in days)
        on = f"_event_date IN ({listed})"
    rows, event_time = dataset_of(bronze, on), operator.event_time
    lookups = (
        (name, tuple(one.lookup.on), tuple(one.columns), tuple(one.copied.table.file_uris()))
        for name, one in operator.lookups.items()
    )
    files = (bronze.table_uri, *rows.files) if isinstance(rows, ds.FileSystemDataset) else ()
    stretches = tuple(sorted(starts)), tuple(sorted(ends))
    remembered = _remembered_within((files, stretches, event_time, *lookups))
    if not files or not remembered:
        remembered[:] = [_found_in(rows, event_time, operator.lookups, *stretches)]
    return remembered[0]


def _found_in(
    rows: ds.Dataset,
    event_time: str,
    lookups: Lookups,
    starts: Sequence[datetime],
    ends: Sequence[datetime],
) -> Found:
    (time,) = (one.name for one in rows.schema if same_column(one.name, event_time))
    asked = (one for of in lookups.values() for one in of.lookup.on)
    instants = pa.timestamp("us", "UTC")
    with duckdb_in_utc() as connection:
        connection.register("all_rows", rows)
        stretches = [pa.array(list(one), instants) for one in (starts, ends)]
        connection.register("stretches", pa.table(stretches, names=["_start", "_end"]))
        # The last one that begins before a row is the one that ends last of those.
        connection.execute(
            f"""
            CREATE TEMP VIEW rows_within AS SELECT r.* FROM all_rows r
            ASOF JOIN stretches s ON r."{time}" >= s._start
            WHERE r."{time}" < s._end AND r."{time}" >= TIMESTAMPTZ '{min(starts).isoformat()}'
                AND r."{time}" < TIMESTAMPTZ '{max(ends).isoformat()}'
            """
        )
        columns = columns_by_name(rows.schema, asked)
        return rows_found(connection, "rows_within", lookups, columns)


@lru_cache(maxsize=1)
def _remembered_within(asked: tuple[object, ...]) -> list[Found]:
    """What rows in some stretches of these files of bronze were found to find, one or none."""
    return []


def has_large(operator: Operator) -> bool:
    """Is of one of its lookups only read what rows can find?"""
    return any(_is_large(one.copied.table) for one in operator.lookups.values())


def _days(start: datetime, end: datetime) -> list[Any]:
    first, last = start.date(), (end - timedelta(microseconds=1)).date()
    return [first + timedelta(days=number) for number in range((last - first).days + 1)]


def _is_large(copied: DeltaTable) -> bool:
    numbers = pa.table(copied.get_add_actions(flatten=True)).column("num_records")
    return numbers.null_count > 0 or (pc.sum(numbers).as_py() or 0) >= FEW_ROWS


def _keys_of(
    connection: duckdb.DuckDBPyConnection, rows: str, one: LookedUp, columns: Mapping[str, str]
) -> list[pa.Array[Any]] | None:
    """The keys that the rows have, null left out, as it finds nothing; None where they are too many
    or of other types than the copy's."""
    kept, found = schema_of(one.copied.table), []
    for place, ours in enumerate(one.lookup.on):
        if ours not in columns:
            return None
        name = f'"{columns[ours]}"'
        keys = connection.sql(
            f"SELECT DISTINCT {name} FROM {rows} WHERE {name} IS NOT NULL LIMIT {_MOST + 1}"
        ).to_arrow_table()
        if keys.num_rows > _MOST or keys.schema[0].type != kept.field(one.key_column(place)).type:
            return None
        found.append(keys.column(0).combine_chunks())
    return found


def _rows_with(one: LookedUp, keys: Sequence[pa.Array[Any]]) -> pa.Table | None:
    """Rows of its copy, all with these keys among them; None where these are too many."""
    # A file is written once, under a name that no other one has.
    remembered = _remembered(tuple(one.copied.table.file_uris()), tuple(one.columns))
    if remembered:
        (read,) = remembered
        known = zip(keys, read.keys, strict=True)
        if all(not pc.any(pc.invert(pc.is_in(new, value_set=old))).as_py() for new, old in known):
            return read.rows
    rows = _read(one, keys)
    remembered[:] = [_Read(keys, rows if rows.num_rows <= _MOST else None)]
    return remembered[0].rows


@lru_cache(maxsize=_REMEMBERED)
def _remembered(files: tuple[str, ...], columns: tuple[str, ...]) -> list[_Read]:
    """What was read last of these columns of a copy, one or none."""
    return []


def _read(one: LookedUp, keys: Sequence[pa.Array[Any]]) -> pa.Table:
    """Of the copy, which is sorted by its keys, row groups are not read whose bounds of the first
    key hold none of these, and each other one is asked for those within its bounds alone: a set of
    all of them does not fit into a processor's cache, and is built anew for each."""
    known, names = dataset_of(one.copied.table), list(one.columns)
    parts = [known.schema.empty_table().select(names)]
    if not all(map(len, keys)):
        return parts[0]
    first, *others = (one.key_column(place) for place in range(len(keys)))
    asked = keys[0].take(pc.sort_indices(keys[0]))
    within = (ds.field(first) >= asked[0]) & (ds.field(first) <= asked[-1])
    for fragment in known.get_fragments():
        for group in fragment.split_by_row_group(within, known.schema):
            told = group.row_groups[0].statistics or {}
            of_group = _between(asked, told.get(first))
            if not len(of_group):
                continue
            rows = group.to_table(schema=known.schema, columns=names)
            rows = rows.filter(pc.is_in(rows.column(first), of_group))
            for name, of in zip(others, keys[1:], strict=True):
                rows = rows.filter(pc.is_in(rows.column(name), of))
            parts.append(rows)
    return pa.concat_tables(parts)


def _between(keys: pa.Array[Any], told: Mapping[str, Any] | None) -> pa.Array[Any]:
    """Those of these sorted keys that are within a row group's bounds. All where it tells none, or
    of a type whose bounds Arrow tells in another one."""
    if not told or not (pa.types.is_string(keys.type) or pa.types.is_integer(keys.type)):
        return keys
    low, high = (pa.scalar(told[end], keys.type) for end in ("min", "max"))
    places = range(len(keys))
    begin = bisect_left(places, True, key=lambda one: pc.greater_equal(keys[one], low).as_py())
    end = bisect_left(places, True, key=lambda one: pc.greater(keys[one], high).as_py())
    return keys.slice(begin, end - begin)
