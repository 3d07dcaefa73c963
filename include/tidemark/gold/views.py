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
from collections.abc import Mapping
from datetime import date
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from tidemark.commit_point import commit_point
from tidemark.errors import StorageUnavailable, ViewBroken
from tidemark.gold.row_values import dates_predicate
from tidemark.pipeline.expressions.in_duckdb import columns_of, condition_in_duckdb
from tidemark.pipeline.model import RANK, Pipeline, Table, View
from tidemark.pipeline.names import folded
from tidemark.storage.arrow_kinds import kinds_of
from tidemark.storage.delta.appended import commit_actions, entry_mark
from tidemark.storage.delta.create import TableSpec, ensure_table
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
_RANK_COMMENT = {"comment": "the row's place in its window, from 1 on"}
_RANK = {"name": RANK, "type": "integer", "nullable": True, "metadata": _RANK_COMMENT}


def write_views(pipeline: Pipeline, warehouse: Warehouse) -> None:
    """Bring all views of a pipeline's tables to what their gold is now. Safe to repeat.

    Where one cannot be computed the others are written, then ViewBroken is raised. LeaseLost,
    before a commit, where another run has taken the lease over; StorageUnavailable where another
    commit came first.
    """
    broken: list[ViewBroken] = []
    for name, table in pipeline.tables.items():
        for of, view in table.views.items():
            try:
                write_view(table, view, warehouse.gold(name), warehouse.view(name, of))
            except ViewBroken as error:
                broken.append(error)
    if broken:
        raise broken[0]


def write_view(table: Table, view: View, gold_place: TablePlace, place: TablePlace) -> None:
    """Bring one view to what gold is now, in one commit; none where it is that already."""
    gold, known = gold_place.existing(), place.open()
    columns = json.loads(gold.schema().to_json())
    columns["fields"] += [_RANK] if view.top else []
    if known is None:
        spec = TableSpec(json.dumps(columns), (_DATE,), view.description)
        known = ensure_table(place, spec)
    noted = known.transaction_version(_GOLD)
    made_of = partial(_made_of, view, columns, gold, gold_place)
    dates, same = None, _types(columns) == _types(json.loads(known.schema().to_json()))
    if noted is not None and same and made_of(noted) == known.transaction_version(_MADE_OF):
        dates = _changed_dates(gold_place, noted, gold.version(), known, place)
        if dates == set() and gold.version() - noted < _LOOKED_AT:
            return
    transactions = {
        _GOLD: gold.version(),
        _MADE_OF: made_of(gold.version()),
        _WRITTEN: known.version() + 1,
    }
    with duckdb_in_utc() as connection:
        try:
            _select(connection, table, view, gold, dates)
        except (duckdb.Error, ValueError) as error:
            raise ViewBroken(
                f"The rows of the view {place.uri} cannot be selected from version "
                f"{gold.version()} of its table's gold: {error}. What was to be published is "
                "published, and the view is as it was. Change its `having`, or name a measure "
                "there that computes the same."
            ) from error
        schema = schema_of(gold)
        if view.top:
            schema = schema.append(pa.field(RANK, pa.int32(), metadata=_RANK_COMMENT))
        rows = connection.sql("FROM selected").to_arrow_reader().cast(schema)
        place.fence()
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
    """The table `selected`: the view's rows of these dates, or of all. ValueError or duckdb.Error
    where the condition cannot be told."""
    predicate = "true" if dates is None else "false"
    if dates:
        predicate = dates_predicate(tuple(sorted(dates)))
    connection.register("gold", dataset_of(gold, predicate if dates else None))
    # As a table of its own: Arrow, to which DuckDB would hand the condition down, compares NaN
    # in another way.
    connection.execute(f"CREATE TEMP TABLE of_dates AS FROM gold WHERE {predicate}")
    columns = columns_of(kinds_of(schema_of(gold)))
    having = "true" if view.having is None else condition_in_duckdb(view.having, columns)
    connection.execute(f"CREATE TEMP TABLE shown AS FROM of_dates WHERE {having}")
    if view.top is None:
        connection.execute("ALTER TABLE shown RENAME TO selected")
        return
    by = f'"{columns[folded(view.top.by)][0]}" {"ASC" if view.top.order == "ascending" else "DESC"}'
    order = ", ".join([f"{by} NULLS LAST", *(f'"{key}" NULLS FIRST' for key in table.keys)])
    connection.execute(
        f"""
        CREATE TEMP TABLE selected AS
        SELECT *, row_number() OVER (PARTITION BY window_start ORDER BY {order})::INT AS {RANK}
        FROM shown QUALIFY {RANK} <= {view.top.n}
        """
    )


@commit_point(
    "view",
    after_a_kill="before: the view is as it was, and the next run writes it; after: its "
    "transactions say of which version of gold it is",
)
def _commit(
    view: DeltaTable, rows: pa.RecordBatchReader, dates: set[date] | None, noted: dict[str, int]
) -> None:
    """One commit on the version that was read, of the partitions of these dates, or of all."""
    properties = CommitProperties(
        app_transactions=[Transaction(app, version) for app, version in noted.items()],
        max_commit_retries=0,
    )
    try:
        if dates is None:
            write_deltalake(
                view, rows, mode="overwrite", schema_mode="overwrite", commit_properties=properties
            )
        elif dates:
            predicate = dates_predicate(tuple(sorted(dates)))
            write_deltalake(
                view, rows, mode="overwrite", predicate=predicate, commit_properties=properties
            )
        else:
            write_deltalake(view, rows, mode="append", commit_properties=properties)
    except CommitFailedError as error:
        raise StorageUnavailable(
            f"{view.table_uri} got another commit while its rows were selected ({error}). What was "
            "to be published is published, and the view is as it was. Try again."
        ) from error
