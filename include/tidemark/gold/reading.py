"""Read gold, all of a table or a range of its windows, without Spark.

Each call reads one version of gold, so it sees a publish wholly or not at all. Files of other dates
are not opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from tidemark.errors import GoldNotFound, TidemarkError
from tidemark.gold.state import PROVISIONAL
from tidemark.pipeline.instants import utc_instant
from tidemark.pipeline.load import find_pipeline
from tidemark.pipeline.names import check_folder_name
from tidemark.pipeline.places import Places
from tidemark.pipeline.problems import nearest
from tidemark.pipeline.settings.settings import Settings, load_settings
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.warehouse import Warehouse

Instant = datetime | date | str

_TIME = pa.timestamp("us", "UTC")


def read(
    pipeline: str,
    table: str,
    *,
    start: Instant | None = None,
    end: Instant | None = None,
    columns: Sequence[str] | None = None,
    final_only: bool = False,
    settings: Settings | Path | str | None = None,
) -> pa.Table:
    """The rows of a pipeline's gold table: one for each window and key, in no order. `TABLE.VIEW`
    names a view of it, which has those that the view shows.

    A range keeps the windows with start <= `window_start` < end: datetimes with a zone, ISO 8601
    text with one, or dates (midnight in UTC). `final_only` leaves out the windows that are still
    open (`provisional`). `settings`: as loaded, or their file; default: as the command `tidemark`
    finds them. The pipeline's file is not needed. Raises GoldNotFound, and ValueError for a time
    without a zone or a column that gold does not have.
    """
    found = dataset(pipeline, table, start=start, end=end, final_only=final_only, settings=settings)
    if columns is not None:
        _check_columns(columns, found.schema.names)
    return found.to_table(columns=list(columns) if columns is not None else None)


def dataset(
    pipeline: str,
    table: str,
    *,
    start: Instant | None = None,
    end: Instant | None = None,
    final_only: bool = False,
    settings: Settings | Path | str | None = None,
) -> ds.Dataset:
    """The rows that `read` gives, not read yet: for DuckDB, Polars, or batch by batch.

    Stays at the version of gold that it was asked for, until a VACUUM removes that one's files.
    """
    loaded = settings if isinstance(settings, Settings) else load_settings(settings)
    check_folder_name(pipeline, "pipeline")
    of, dot, view = table.partition(".")
    check_folder_name(of, "table")
    first, last = _utc(start), _utc(end)
    warehouse = Warehouse.of(pipeline, loaded)
    if dot:
        check_folder_name(view, "view")
    gold = (warehouse.view(of, view) if view else warehouse.gold(of)).open()
    if gold is None:
        raise GoldNotFound(why_not_found(pipeline, of, view, loaded))
    dates = " AND ".join(_dates(first, last)) or None
    found: ds.Dataset = dataset_of(gold, dates)
    for condition in _conditions(first, last, final_only):
        found = found.filter(condition)
    return found


def _dates(first: datetime | None, last: datetime | None) -> Iterator[str]:
    """Gold is partitioned by the date of a window's start."""
    if first is not None:
        yield f"window_date >= DATE '{first.date()}'"
    if last is not None:
        yield f"window_date <= DATE '{last.date()}'"


def _conditions(
    first: datetime | None, last: datetime | None, final_only: bool
) -> Iterator[ds.Expression]:
    if first is not None:
        yield ds.field("window_start") >= pa.scalar(first, _TIME)
    if last is not None:
        yield ds.field("window_start") < pa.scalar(last, _TIME)
    if final_only:
        yield ds.field("status") != PROVISIONAL


def _utc(instant: Instant | None) -> datetime | None:
    return None if instant is None else utc_instant(str(instant))


def _check_columns(asked: Sequence[str], known: Sequence[str]) -> None:
    for name in asked:
        if name not in known:
            near = nearest(name, known)
            hint = f" Did you mean `{near}`?" if near else ""
            raise ValueError(f"gold has no column `{name}`.{hint} It has: {', '.join(known)}")


def why_not_found(pipeline: str, table: str, view: str, settings: Settings) -> str:
    """Why there is no such table, or no such view of it, and what there is."""
    places = Places(settings.root, pipeline)
    place = places.view(table, view) if view else places.gold(table)
    missing = f"There is no {'view' if view else 'gold table'} at {place}."
    try:
        tables = find_pipeline(pipeline, settings).tables
    except TidemarkError as error:
        return f"{missing} {error}"
    known = tuple(tables)
    if view:
        table = f"{table}.{view}"
        known = tuple(f"{name}.{one}" for name, of in tables.items() for one in of.views)
    if table in known:
        why = f"No run of {pipeline} has made it yet" if view else f"{pipeline} has not run yet"
        return f"{missing} {why}: `tidemark run {pipeline}` makes it."
    near = nearest(table, known)
    hint = f" Did you mean `{near}`?" if near else ""
    what = "views" if view else "tables"
    return f"{missing}{hint} The {what} of {pipeline}: {', '.join(known) or 'none'}."
