"""The tables of `ops/` as a run finds them: those of before are taken over, and what is broken or
gone is made anew from what is known.

A broken table of `ops/` stops no run: it is set aside, and made anew by whoever writes next. What
stands in it is an account of what other tables hold. It is renamed, not removed, to
`NAME.broken-TIME` beside itself; object storage knows no rename, so there somebody has to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from tidemark.errors import DataDamaged
from tidemark.gold.checkpoints import ingest_checkpoint
from tidemark.gold.state import is_published
from tidemark.ledger.ledger import last_batch_written, replace_ledger
from tidemark.ledger.rebuild import Ledgered, rebuilt_lines
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import OPS_TABLES
from tidemark.pipeline.settings.storage_options import is_local, local_path
from tidemark.runs.contract.recorded import seeds_of
from tidemark.runs.found import found_tables
from tidemark.runs.ledger_fit import published_after
from tidemark.runs.recorded_runs import one_row_of_each
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.ops_place import OpsPlace, as_they_are, move_ops_table
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.file_place import one_look
from tidemark.storage.warehouse import Warehouse


def repair_ops_tables(
    pipeline: Pipeline, warehouse: Warehouse, say: Callable[[str], object]
) -> None:
    """Set broken tables aside, take over what is in the shared ones, and build the ledger anew
    where it was broken, or was removed; never raises.

    Its runs come back as far as gold's commits tell: the last one that published. What upkeep and
    checks said before is in the table that was set aside.
    """
    places = {name: warehouse.ops_table(name) for name in OPS_TABLES}
    try:
        with one_look():
            is_due = any(map(_is_due, places.values()))
        if is_due:
            now = datetime.now(UTC)
            set_broken_aside({name: place.own for name, place in places.items()}, say, now)
            waiting = {n: place.former for n, place in places.items() if place.own.open() is None}
            set_broken_aside(waiting, say, now)
            move_ops_tables(warehouse)
        if _forgot(pipeline, warehouse):
            lines = rebuilt_lines(Ledgered(pipeline, warehouse, seeds_of(pipeline, warehouse)))
            replace_ledger(warehouse.ledger, pipeline.name, lines, datetime.now(UTC))
            say(f"{len(lines)} lines of the ledger of {pipeline.name} were built anew")
    except Exception as error:  # noqa: BLE001  a run is as good without its accounts of before
        say(f"ops could not be mended ({type(error).__name__}: {error})")


def _is_due(place: OpsPlace) -> bool:
    """Is a table broken, or has the shared one rows of the pipeline still?"""
    if is_broken(place.own):
        return True
    own = place.own.open()
    if own is not None and own.version() > 0:
        return False
    is_lost = own is None and place.has_former and is_broken(place.former)
    return is_lost or place.not_moved() is not None


def move_ops_tables(warehouse: Warehouse) -> None:
    """Take over what the tables that pipelines shared have of the pipeline. Once it is done, nobody
    opens those any more."""
    for name in OPS_TABLES:
        moving = one_row_of_each if name == "runs" else as_they_are
        move_ops_table(warehouse.ops_table(name), moving)


def _forgot(pipeline: Pipeline, warehouse: Warehouse) -> bool:
    """Has the ledger nothing of the pipeline, though something was published? A run publishes after
    it wrote the ledger; one that found no rows wrote lines of the tables alone, and an act its own,
    also into a ledger that was lost before it."""
    query = ingest_checkpoint(warehouse).query_id()
    ledger = warehouse.ledger.open()
    if query is None or last_batch_written(ledger, pipeline.name, query) >= 0:
        return False
    if ledger is not None:
        own = dataset_of(ledger, f"pipeline = '{pipeline.name}'")
        if own.head(1, ["pipeline"], filter=ds.field("pipeline") == pipeline.name).num_rows:
            found = found_tables(pipeline, warehouse)
            return any(published_after(table, -1) is not None for table in found)
    golds = (warehouse.gold(name).open() for name in pipeline.tables)
    return any(gold is not None and is_published(gold) for gold in golds)


def set_broken_aside(
    tables: Mapping[str, TablePlace], say: Callable[[str], object], now: datetime
) -> frozenset[str]:
    """The names of those that were broken and are out of the way now. What was done is said.

    Asked when a run begins: all of a table's files are asked for their sizes, none is opened.
    """
    aside = set()
    for name, place in tables.items():
        if (damage := _damage(place)) is None:
            continue
        moved = _move(place, damage, now) if is_local(place.uri) else None
        if moved is None:
            say(f"{place.uri} is broken, and what is to be written to it may fail: {damage}")
            continue
        aside.add(name)
        say(f"{place.uri} was broken, is kept as {moved} and made anew. It was: {damage}")
    return frozenset(aside)


def _move(place: TablePlace, damage: str, now: datetime) -> Path | None:
    """Where the table lies now; None where it could not be moved.

    One rename: a kill before it leaves the table to the next run, one after it a table that is not
    there, which every run makes. Another run may have been quicker: what it made anew is not
    broken, and stays.
    """
    found = Path(local_path(place.uri))
    found = next((one for one in found.parents if one.is_file()), found)
    aside = found.with_name(f"{found.name}.broken-{now.astimezone(UTC):%Y%m%dT%H%M%S}")
    try:
        if _damage(place) == damage:
            found.rename(aside)
            place.is_made()
    except OSError:
        return None
    return aside


def is_broken(place: TablePlace) -> bool:
    """Is a table broken? Asks what `set_broken_aside` does."""
    return _damage(place) is not None


def _damage(place: TablePlace) -> str | None:
    try:
        table = place.open()
    except DataDamaged as error:
        return str(error)
    return _broken_file(table, place.uri) if table is not None and is_local(place.uri) else None


def _broken_file(table: DeltaTable, uri: str) -> str | None:
    files = pa.table(table.get_add_actions()).select(["path", "size_bytes"])
    for path, size in zip(*(column.to_pylist() for column in files.columns), strict=True):
        try:
            is_whole = Path(local_path(uri), path).stat().st_size == size
        except OSError:
            return f"{path} is gone"
        if not is_whole:
            return f"{path} is broken: it should have {size:,} bytes"
    return None
