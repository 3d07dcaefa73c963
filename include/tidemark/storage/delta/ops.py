"""The tables of `ops/`, five of each pipeline, written without a JVM."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import reduce
from itertools import accumulate
from operator import or_
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from tidemark.storage.delta.append import conformed
from tidemark.storage.delta.create import TableSpec, ensure_table
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.history import schema_of
from tidemark.storage.delta.ops_place import OpsPlace, as_they_are, move_ops_table

Row = tuple[str, int, dict[str, Any]]
TEXT, COUNT, NUMBER, TIME = pa.string(), pa.int64(), pa.float64(), pa.timestamp("us", "UTC")
# When a row was written, by its writer's clock: what a row ages by.
WRITTEN_AT = "written_at"


def ops_columns(kind: pa.DataType, *names: str) -> list[pa.Field[Any]]:
    """Columns of one type."""
    return [pa.field(name, kind) for name in names]


def ensure_ops_table(
    place: OpsPlace,
    schema: pa.Schema,
    description: str,
    moving: Callable[[pa.Table], pa.Table] = as_they_are,
) -> DeltaTable:
    """The pipeline's own table; made where it is missing, of the rows of before where there are."""
    spec = TableSpec(Schema.from_arrow(schema).to_json(), (), description, may_add=None)
    return ensure_table(place.own, spec, move_ops_table(place, moving))


def ops_rows(table: DeltaTable, schema: pa.Schema, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows as the table takes them: a column that a newer version gave it is null."""
    return conformed(pa.Table.from_pylist(list(rows), schema), schema_of(table))


def removed_name(pipeline: str) -> str:
    """The app transaction that counts the rows of a pipeline which maintenance removed."""
    return f"{pipeline}/removed by maintenance"


def append_once(place: OpsPlace, schema: pa.Schema, description: str, rows: Sequence[Row]) -> None:
    """Append rows that the table does not have yet, in one commit.

    A row comes as (source, position, columns). The commit notes each source's last position as
    a transaction; rows at or below it were written before, and are left out. So a repeat after
    a crash writes nothing twice. Sources are few: a query, a table.
    """
    table = ensure_ops_table(place, schema, description)
    try:
        _append_new(table, schema, rows)
    except CommitFailedError:
        # Another process noted one of these sources since the table was read.
        table.update_incremental()
        _append_new(table, schema, rows)


def own_rows(
    table: DeltaTable | None,
    pipeline: str,
    columns: Collection[str],
    wanted: ds.Expression | None = None,
) -> list[dict[str, Any]]:
    """A pipeline's rows, those that are wanted, in no order; a column that the table lacks is
    null."""
    if table is None:
        return []
    known = dataset_of(table, f"pipeline = '{pipeline}'")
    own = ds.field("pipeline") == pipeline
    there = [name for name in columns if name in known.schema.names]
    rows = known.to_table(there, filter=own if wanted is None else own & wanted).to_pylist()
    return [{**dict.fromkeys(columns), **row} for row in rows]


def newest_rows(
    table: DeltaTable, pipeline: str, time: str, number: int, kinds: Collection[str] = ()
) -> list[dict[str, Any]]:
    """A pipeline's newest rows by a column of times that is never null, newest first.

    At least `number` of them where there are as many: all of the files that hold those. Which
    files that are is told by their statistics, so this does not grow with the table.
    """
    files = pa.table(table.get_add_actions(flatten=True))
    if not files.num_rows:
        return []
    # Of a table that pipelines shared.
    if "partition.pipeline" in files.column_names:
        files = files.filter(ds.field("partition.pipeline") == pipeline)
    if kinds:
        files = files.filter(_may_hold("kind", kinds))
    newest: list[dict[str, Any]] = files.sort_by([(f"max.{time}", "descending")]).to_pylist()
    if not newest:
        return []
    counts = accumulate(file["num_records"] for file in newest)
    enough = next((at for at, rows in enumerate(counts, 1) if rows >= number), len(newest))
    first: datetime = newest[enough - 1][f"max.{time}"]
    found = _rows_since(table, pipeline, time, first, kinds)
    # Packed files hold rows of other kinds, and old ones beside their newest: files that were left
    # out may hold newer ones.
    is_enough = found.num_rows >= number
    since = found[time][number - 1].as_py() if is_enough else newest[-1][f"max.{time}"]
    if newest[enough:] and since < first:
        found = _rows_since(table, pipeline, time, since, kinds)
    return found.to_pylist()


def _rows_since(
    table: DeltaTable, pipeline: str, time: str, since: datetime, kinds: Collection[str]
) -> pa.Table:
    """All rows of the files that hold one of then or later, newest first."""
    # A literal of SQL would be in nanoseconds, which delta-rs does not compare with its own.
    predicate = f"pipeline = '{pipeline}' AND {time} >= '{since.isoformat()}'"
    wanted = ds.field("pipeline") == pipeline
    if kinds:
        predicate += f" AND kind IN ({', '.join(map(repr, kinds))})"
        wanted &= ds.field("kind").isin(list(kinds))
    found = dataset_of(table, predicate).to_table(filter=wanted)
    return found.sort_by([(time, "descending")])


def _may_hold(column: str, values: Collection[str]) -> ds.Expression:
    """Of a file, by its statistics; one that has none may hold all."""
    low, high = ds.field(f"min.{column}"), ds.field(f"max.{column}")
    held = [(low <= value) & (high >= value) for value in values]
    return reduce(or_, held, low.is_null() | high.is_null())


def _append_new(table: DeltaTable, schema: pa.Schema, rows: Sequence[Row]) -> None:
    sources = {source for source, _, _ in rows}
    written = {source: table.transaction_version(source) for source in sources}
    new = [row for row in rows if (last := written[row[0]]) is None or row[1] > last]
    if not new:
        return
    newest = {source: max(at for name, at, _ in new if name == source) for source, _, _ in new}
    values = ops_rows(table, schema, [columns for _, _, columns in new])
    properties = CommitProperties(
        app_transactions=[Transaction(source, at) for source, at in newest.items()]
    )
    write_deltalake(table, values, mode="append", commit_properties=properties)
