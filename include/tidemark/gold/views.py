"""Views: those rows of a table's gold that a report shows, each view a Delta table beside it.

A view is a function of gold, date by date: a row of it is in the partition of gold's row, and the
rows of a window are all in one. So what gold's commits changed tells which partitions of a view are
to be written again, whatever made those commits: a publish, a backfill, a migration, a rewind.

The life of a view:
1. read what its transactions say: of which version of gold it is, and by which definition;
2. find the dates whose rows gold's commits have changed since, and those that commits of somebody
   else have changed in the view: all dates where nobody can tell, or the definition is another;
3. select the rows of these dates from gold as it is now;
4. one commit carries them and the version of gold.
Killed anywhere before 4, the view is as it was, of an earlier version of gold; the next run, or a
repeat, writes it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from tidemark.commit_point import commit_point
from tidemark.errors import DataDamaged, StorageUnavailable, ViewBroken
from tidemark.gold.spans import dates_predicate
from tidemark.pipeline.expressions.in_duckdb import Columns, columns_of, condition_in_duckdb
from tidemark.pipeline.model import RANK, Table, View
from tidemark.pipeline.names import folded
from tidemark.storage.arrow_kinds import kinds_of
from tidemark.storage.delta.append import on_this_version, with_sound_bounds
from tidemark.storage.delta.appended import commit_actions, entry_mark
from tidemark.storage.delta.create import TableSpec, ensure_table
from tidemark.storage.delta.damage import not_committed
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.history import schema_of
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.duckdb_in_utc import duckdb_in_utc
from tidemark.storage.warehouse import Warehouse

_DATE = "window_date"
# A view's transactions: the version of gold that it has, what it was made of (`_made_of`), and the
# version of its own in which that was written.
_GOLD, _MADE_OF, _WRITTEN = "tidemark/view/gold", "tidemark/view/made_of", "tidemark/view/written"
# So many commits of gold that changed no row are looked at by each run; then the view notes them.
_LOOKED_AT = 20
# So many rows of gold are in memory at once, or those of one date.
_AT_ONCE = 500_000
_OF_FILES = ("partition.window_date", "num_records")
_RANK_COMMENT = {"comment": "the row's place in its window, from 1 on"}
_RANK = {"name": RANK, "type": "integer", "nullable": True, "metadata": _RANK_COMMENT}


def write_views(tables: Mapping[str, Table], warehouse: Warehouse, note: bool = False) -> None:
    """Bring all views of these tables to what their gold is now. Safe to repeat. `note`: also where
    no row is another since they were written, they note gold's version (`is_of_gold`).

    Where one cannot be computed the others are written, then ViewBroken is raised. LeaseLost,
    before a commit, where another run has taken the lease over; StorageUnavailable where another
    commit came first.
    """
    broken: list[ViewBroken] = []
    for name, table in tables.items():
        for of, view in table.views.items():
            try:
                write_view(table, view, warehouse.gold(name), warehouse.view(name, of), note)
            except ViewBroken as error:
                broken.append(error)
    if broken:
        raise ViewBroken(" ".join(map(str, broken)))


def is_of_gold(place: TablePlace, gold: DeltaTable) -> bool:
    """Is a view what its table's gold is at this version? A damaged one is not."""
    try:
        view = place.open()
    except DataDamaged:
        return False
    return view is not None and view.transaction_version(_GOLD) == gold.version()


def write_view(
    table: Table, view: View, gold_place: TablePlace, place: TablePlace, note: bool = False
) -> None:
    """Bring one view to what gold is now, in one commit; none where it is that already, or where
    there is no gold yet."""
    gold = gold_place.open()
    if gold is None:
        return
    try:
        known = place.open()
    except DataDamaged as error:
        raise ViewBroken(
            f"{error} It is a view: gold is published, and whoever removes the folder {place.uri} "
            "has the next run make it anew."
        ) from error
    columns = json.loads(gold.schema().to_json())
    columns["fields"] += [_RANK] if view.top else []
    made_of = partial(_made_of, view, columns, gold, gold_place)
    dates = None
    if known is not None and _types(columns) == _types(json.loads(known.schema().to_json())):
        noted = known.transaction_version(_GOLD)
        if noted is not None and made_of(noted) == known.transaction_version(_MADE_OF):
            dates = _changed_dates(gold_place, noted, gold.version(), known, place)
            behind = gold.version() - noted
            if dates == set() and behind < (1 if note else _LOOKED_AT):
                return
    with duckdb_in_utc() as connection:
        try:
            _select(connection, table, view, gold, dates)
        except ValueError as error:
            raise ViewBroken(
                f"The rows of the view {place.uri} cannot be selected from version "
                f"{gold.version()} of its table's gold: {error}. Gold is published, and the view "
                "is as it was. Change its definition, or have a measure that computes the same, "
                "and name that."
            ) from error
        schema = schema_of(gold)
        if view.top:
            schema = schema.append(pa.field(RANK, pa.int32(), metadata=_RANK_COMMENT))
        rows = connection.sql("FROM selected").to_arrow_reader().cast(schema)
        place.fence()
        if known is None:
            spec = TableSpec(json.dumps(columns), (_DATE,), view.description)
            known = ensure_table(place, spec)
        transactions = {
            _GOLD: gold.version(),
            _MADE_OF: made_of(gold.version()),
            _WRITTEN: known.version() + 1,
        }
        _commit(known, rows, dates, transactions)


def _types(columns: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(field["name"], field["type"]) for field in columns["fields"]]


def _made_of(
    view: View, columns: Mapping[str, Any], gold: DeltaTable, place: TablePlace, version: int
) -> int:
    """What a view is made of, as a number of 63 bits: its definition, its columns, and which log
    it is that has this version of gold. A folder that was put back from a backup has another one
    from there on."""
    top = view.top.model_dump() if view.top else None
    said = [view.having, top, columns, str(gold.metadata().id), entry_mark(place, version)]
    digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).digest()
    return int.from_bytes(digest[:8]) >> 1


def _changed_dates(
    gold: TablePlace, noted: int, last: int, known: DeltaTable, view: TablePlace
) -> set[date] | None:
    """The dates whose rows are others since, in gold or by somebody else's hand in the view; None
    where the logs do not tell."""
    written = known.transaction_version(_WRITTEN)
    if written is None or written > known.version():
        return None
    found: set[date] = set()
    for place, first, newest in ((gold, noted, last), (view, written, known.version())):
        for version in range(first + 1, newest + 1):
            try:
                actions = commit_actions(place, version)
            except StorageUnavailable:
                # Maintenance has removed the entry, which nobody else had to read any more.
                return None
            for action in actions:
                file = action.get("add") or action.get("remove")
                if file and file["dataChange"]:
                    if not (file.get("partitionValues") or {}).get(_DATE):
                        return None
                    found.add(date.fromisoformat(file["partitionValues"][_DATE]))
    return found


def _select(
    connection: duckdb.DuckDBPyConnection,
    table: Table,
    view: View,
    gold: DeltaTable,
    dates: set[date] | None,
) -> None:
    """The table `selected`: the view's rows of these dates, or of all. ValueError where the
    definition cannot be told of them.

    Of gold there is one part in memory at a time.
    """
    connection.register("gold", dataset_of(gold, dates_predicate(tuple(dates)) if dates else None))
    selected = _selected(table, view, columns_of(kinds_of(schema_of(gold))))
    # As a table of its own: no condition is handed down to Arrow, and to what it knows of files.
    part = "CREATE OR REPLACE TEMP TABLE part AS FROM gold WHERE "
    connection.execute(part + "false")
    _telling(connection, f"CREATE TEMP TABLE selected AS {selected}")
    for days in _parts(gold, dates):
        connection.execute(part + dates_predicate(days))
        _telling(connection, f"INSERT INTO selected {selected}")


def _parts(gold: DeltaTable, dates: set[date] | None) -> Iterator[tuple[date, ...]]:
    """Those of these dates, or of all, that gold has, some at a time by their number of rows."""
    rows = Counter[date]()
    files = pa.table(gold.get_add_actions(flatten=True))
    for file in files.select(
        [name for name in _OF_FILES if name in files.column_names]
    ).to_pylist():
        day = date.fromisoformat(str(file["partition.window_date"]))
        if dates is None or day in dates:
            rows[day] += file.get("num_records") or _AT_ONCE
    days, number = list[date](), 0
    for day in sorted(rows):
        if days and number + rows[day] > _AT_ONCE:
            yield tuple(days)
            days, number = [], 0
        days.append(day)
        number += rows[day]
    if days:
        yield tuple(days)


def _selected(table: Table, view: View, columns: Columns) -> str:
    """The query of the view's rows of one part. ValueError where gold's columns have none."""
    having = "true" if view.having is None else condition_in_duckdb(view.having, columns)
    if view.top is None:
        return f"FROM part WHERE {having}"
    by, _ = columns.get(folded(view.top.by), (None, None))
    if by is None:
        raise ValueError(f"`{view.top.by}` is no column of the table")
    order = f'"{by}" {"ASC" if view.top.order == "ascending" else "DESC"} NULLS LAST'
    ordered = ", ".join([order, *(f'"{key}" NULLS FIRST' for key in table.keys)])
    return f"""
        SELECT *, row_number() OVER (PARTITION BY window_start ORDER BY {ordered})::INT AS {RANK}
        FROM part WHERE {having} QUALIFY {RANK} <= {view.top.n}
    """


def _telling(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """ValueError where an expression has no value for a row, or none for a type."""
    try:
        connection.execute(sql)
    except (duckdb.DataError, duckdb.ProgrammingError) as error:
        raise ValueError(str(error)) from error


@commit_point(
    "view",
    after_a_kill="before: the view is as it was, and the next run writes it; after: its "
    "transactions say of which version of gold it is",
)
def _commit(
    view: DeltaTable, rows: pa.RecordBatchReader, dates: set[date] | None, noted: dict[str, int]
) -> None:
    """One commit on the version that was read, of the partitions of these dates, or of all."""
    properties = on_this_version(None, noted)
    how: dict[str, Any] = {"mode": "append"}
    if dates is None:
        how = {"mode": "overwrite", "schema_mode": "overwrite"}
    elif dates:
        how = {"mode": "overwrite", "predicate": dates_predicate(tuple(sorted(dates)))}
    bounds = with_sound_bounds(rows.schema)
    try:
        write_deltalake(view, rows, commit_properties=properties, writer_properties=bounds, **how)
    except CommitFailedError as error:
        raise not_committed(
            view.table_uri,
            error,
            f"{view.table_uri} got another commit while its rows were selected ({error}). What was "
            "to be published is published, and the view is as it was. Try again.",
        ) from error
