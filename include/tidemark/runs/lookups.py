"""The copies of a pipeline's lookups: what others keep, as a run found it at its beginning.

The life of a copy:
1. look whether the source is another than the newest copy was made of (`Dimension.version`);
2. read it, and check that of each key at most one row holds at a time;
3. one commit: where rows differ all of them, under the next number, else only that it was looked
   at. Gold's commits name the number that their rows were computed with;
4. remove the files of copies that no gold names any more.
Killed anywhere, the next run finds the newest copy and looks again. A number is never given twice,
also where the folder of the copies was lost or put back, or files of it are gone: what gold names
and nobody has is as any other then, and all of the table is computed again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial, reduce
from itertools import takewhile

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, Schema, write_deltalake
from deltalake.exceptions import CommitFailedError

from tidemark.commit_point import commit_point
from tidemark.gold.state import gold_state
from tidemark.judge.instants import FIRST_MICROS, LAST_MICROS
from tidemark.operators.lookups import (
    FROM,
    TO,
    LookupCopy,
    copies_of,
    input_of,
    newest_copy,
)
from tidemark.pipeline.granted import why_not_granted
from tidemark.pipeline.model import Lookup, Pipeline
from tidemark.runs.run import Run
from tidemark.sources.dimension import Dimension
from tidemark.storage.delta.append import with_sound_bounds
from tidemark.storage.delta.create import TableSpec, ensure_table
from tidemark.storage.delta.damage import not_committed
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.notes import LookupNote, as_metadata
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.duckdb_in_utc import duckdb_in_utc

_SHOWN = 3
_CALENDAR = tuple(pa.scalar(one, pa.timestamp("us", "UTC")) for one in (FIRST_MICROS, LAST_MICROS))
# Spark reads no version that is older than its files have to be kept (seven days), though a copy is
# read for as long as its lookup stays as it is.
_KEPT = dict.fromkeys(
    ("delta.deletedFileRetentionDuration", "delta.logRetentionDuration"), "interval 36500 days"
)
# A run looks for few keys: of row groups without any of these nothing is read.
_MOST_IN_GROUP = 128 * 1024


def why_to_copy(run: Run, only_missing: bool = False) -> str | None:
    """Which lookup is another than its copy, or was not copied yet as the pipeline's file has it;
    None where none is."""
    for name, lookup in run.pipeline.lookup.items():
        newest = newest_copy(run.warehouse.lookup(name))
        if newest is None or newest.definition != _definition(run.pipeline, lookup):
            return f"the lookup {name} was not copied yet as the pipeline's file has it"
        if because := _why_lost(newest, [*_pinned(run, name)]):
            return f"the copy of the lookup {name} {because}"
        if not only_missing and newest.source != _dimension(run, name).version:
            return f"the lookup {name} is another than its copy"
    return None


def copy_lookups(run: Run) -> Iterator[str]:
    """Copy what is another than before, under the lease; what was copied, in words. All are read
    and checked before any is written. Raises LookupBroken, SourceNotFound, SourceUnavailable."""
    found = []
    for name, lookup in run.pipeline.lookup.items():
        place, source = run.warehouse.lookup(name), _dimension(run, name)
        newest, definition = newest_copy(place), _definition(run.pipeline, lookup)
        pinned, asked = [*_pinned(run, name)], (source.version, definition)
        lost = newest is None or _why_lost(newest, pinned) is not None
        if newest is None or lost or (newest.source, newest.definition) != asked:
            rows = _checked(source, source.rows(_kinds(run.pipeline, lookup)))
            found.append((name, place, newest, lost, pinned, *asked, rows))
    for name, place, newest, lost, pinned, version, definition, rows in found:
        same = (
            newest is not None
            and not lost
            and newest.definition == definition
            and _same(newest, rows)
        )
        if newest is None:
            # Beyond all that a folder which was lost ever had, published or not.
            number = max([int(time.time()), *(one + 1 for one in pinned)])
        else:
            number = newest.number if same else max([newest.number, *pinned]) + 1
        note = LookupNote(number=number, source=version, definition=definition)
        _write(place, rows.slice(0, 0) if same else rows, note, same)
        _drop_unneeded(place, {number, *pinned})
        yield f"lookup {name}: {'as it was' if same else f'{rows.num_rows:,} rows'}"


def note_copies(run: Run) -> None:
    """Have the newest commit of each copy say which one it is, for who leaves of its log that one
    alone: after a takeover it is a fence."""
    for name in run.pipeline.lookup:
        place = run.warehouse.lookup(name)
        newest = newest_copy(place)
        if newest is not None and newest.table.version() < place.existing().version():
            note = LookupNote(
                number=newest.number, source=newest.source, definition=newest.definition
            )
            _write(place, dataset_of(newest.table).schema.empty_table(), note, same=True)


def _why_lost(newest: LookupCopy, pinned: list[int]) -> str | None:
    """Why it is copied again whatever its source says; None where it need not be."""
    if newest.number < max(pinned, default=-1):
        return "is older than the one that gold names: its folder was put back"
    return None if newest.is_readable() else "cannot be read, or files of it are lost"


def _dimension(run: Run, name: str) -> Dimension:
    lookup = run.pipeline.lookup[name]
    uri, why_not = run.places.source(lookup.place), partial(why_not_granted, settings=run.settings)
    return Dimension(name, lookup, uri, run.settings.storage_options, why_not)


def _kinds(pipeline: Pipeline, lookup: Lookup) -> dict[str, str]:
    """The columns to read, and their types: of keys those of the source."""
    keys = {theirs: pipeline.source.columns[ours].type for ours, theirs in lookup.on.items()}
    return {**keys, **lookup.columns}


def _definition(pipeline: Pipeline, lookup: Lookup) -> str:
    told = {
        "on": lookup.on,
        "as_of": lookup.as_of,
        "columns": lookup.columns,
        "types": _kinds(pipeline, lookup),
    }
    return json.dumps(told)


def _pinned(run: Run, name: str) -> Iterator[int]:
    """The numbers of its copy that golds name."""
    for table in run.pipeline.tables:
        gold = run.warehouse.gold(table).open()
        if gold is not None:
            yield gold_state(gold, (input_of(name),)).inputs[input_of(name)]


def _checked(source: Dimension, rows: pa.Table) -> pa.Table:
    """The rows as the copy has them, without those of null keys; LookupBroken where two hold for
    one key at a time, or a time lies outside the years 1 to 9999."""
    lookup = source.lookup
    rows = _within_calendar(source, rows)
    # By numbers: `ID` and `id` are one name to DuckDB.
    given = {name: f"_{place}" for place, name in enumerate(rows.column_names)}
    keys = [f"_on_{place}" for place in range(len(lookup.on))]
    theirs = [given[name] for name in lookup.on.values()]
    named = [f"{column} AS {key}" for key, column in zip(keys, theirs, strict=True)]
    known = " AND ".join(f"{column} IS NOT NULL" for column in theirs)
    of_key = ", ".join(keys)
    named += [f'{given[column]} AS "{column}"' for column in lookup.columns]
    held = ""
    if lookup.as_of:
        # A date begins at midnight, UTC.
        begin, *end = (f"{given[column]}::TIMESTAMPTZ" for column in lookup.as_of)
        until = (
            end[0]
            if end
            else f"lead({begin}) OVER (PARTITION BY {', '.join(theirs)} ORDER BY {begin})"
        )
        named += [f"{begin} AS {FROM}", f"{until} AS {TO}"]
        held = f", {FROM}"
    with duckdb_in_utc() as connection:
        connection.register("given", rows.rename_columns(list(given.values())))
        connection.execute(
            f"CREATE TEMP TABLE copied AS SELECT {', '.join(named)} FROM given WHERE {known}"
        )
        if lookup.as_of:
            overlap = (
                f"coalesce({TO}, TIMESTAMPTZ 'infinity') > lead({FROM}) OVER w OR {FROM} >= {TO}"
            )
            said = f"{FROM} IS NULL OR coalesce({overlap}, false)"
            window = f"WINDOW w AS (PARTITION BY {of_key} ORDER BY {FROM})"
            judged = f"SELECT *, {said} AS _wrong FROM copied {window}"
            wrong = f"SELECT DISTINCT {of_key} FROM ({judged}) WHERE _wrong"
            reason = (
                f"has rows that begin at no time, end before they begin, or hold at the same time "
                f"({', '.join(lookup.as_of)})"
            )
        else:
            wrong = f"SELECT {of_key} FROM copied GROUP BY ALL HAVING count(*) > 1"
            reason = "has several rows of one key, so that nobody can say which one is meant"
        copied = connection.sql(f"FROM copied ORDER BY {of_key}{held}").to_arrow_table()
        found = []
        # To group millions of keys took half of the time.
        if lookup.as_of or _has_one_twice(copied.select(keys)):
            found = connection.execute(f"{wrong} ORDER BY ALL LIMIT {_SHOWN}").fetchall()
        if found:
            shown = "; ".join(
                ", ".join(
                    f"{name}={value}" for name, value in zip(lookup.on.values(), one, strict=True)
                )
                for one in found
            )
            raise source.broken(f"{reason}: {shown}")
    return pa.table(copied)


def _within_calendar(source: Dimension, rows: pa.Table) -> pa.Table:
    """The rows without times outside the years 1 to 9999, UTC, which no event has: a row that ends
    later holds for ever, one that begins earlier from the first day on. LookupBroken where there
    are others."""
    begin, end = (*source.lookup.as_of, None, None)[:2]
    for place, (name, kind) in enumerate(zip(rows.column_names, rows.schema.types, strict=True)):
        if not pa.types.is_timestamp(kind) and not pa.types.is_date(kind):
            continue
        first, last = (one.cast(kind) for one in _CALENDAR)
        values = rows.column(name)
        if name == begin:
            values = pc.if_else(pc.less(values, first), first, values)
        elif name == end:
            values = pc.if_else(pc.greater(values, last), pa.scalar(None, kind), values)
        outside = pc.or_(pc.less(values, first), pc.greater(values, last))
        if pc.any(outside).as_py():
            row = pc.index(outside, True).as_py() + 1
            raise source.broken(
                f"has a time outside the years 1 to 9999, UTC, in row {row}, column `{name}`"
            )
        rows = rows.set_column(place, name, values)
    return rows


def _has_one_twice(keys: pa.Table) -> bool:
    """Are two of these rows equal, which are sorted and have no null?"""
    after, before = keys.slice(1), keys.slice(0, max(keys.num_rows - 1, 0))
    pairs = zip(after.columns, before.columns, strict=True)
    return bool(pc.any(reduce(pc.and_, (pc.equal(*pair) for pair in pairs))).as_py())


def _same(newest: LookupCopy, rows: pa.Table) -> bool:
    with duckdb_in_utc() as connection:
        connection.register("before", dataset_of(newest.table))
        connection.register("now", rows)
        ((changed,),) = connection.execute(
            "SELECT EXISTS (FROM before EXCEPT FROM now) OR EXISTS (FROM now EXCEPT FROM before)"
        ).fetchall()
    return not changed


@commit_point(
    "lookup copied",
    after_a_kill="before: the next run copies it; after: the next run finds the copy, and what it "
    "touches of gold",
)
def _write(place: TablePlace, rows: pa.Table, note: LookupNote, same: bool) -> None:
    """One commit on the version that was read, or the first one; of no rows where all are as they
    were."""
    properties = CommitProperties(custom_metadata=as_metadata(note), max_commit_retries=0)
    table = place.open()
    if table is None:
        schema_json = Schema.from_arrow(rows.schema).to_json()
        table = ensure_table(place, TableSpec(schema_json, properties=_KEPT))
    place.fence()
    try:
        write_deltalake(
            table,
            rows,
            mode="append" if same else "overwrite",
            schema_mode=None if same else "overwrite",
            commit_properties=properties,
            writer_properties=with_sound_bounds(rows.schema, _MOST_IN_GROUP, has_days=True),
        )
    except CommitFailedError as error:
        raise not_committed(
            place.uri,
            error,
            f"{place.uri} was changed while a lookup was copied to it ({error}): did another run "
            "take the lease over? The copy is as it was. Try again.",
        ) from error


@commit_point(
    "copies of lookups dropped",
    after_a_kill="before and after: nobody reads what is dropped; the next copy drops what is left",
)
def _drop_unneeded(place: TablePlace, numbers: set[int]) -> None:
    table = place.existing()
    # Their numbers fall: older copies than the first that is needed are not opened, year for year.
    first = min(number for number in numbers if number >= 0)
    newer = takewhile(lambda one: one.number >= first, copies_of(place))
    kept = [one.table.version() for one in newer if one.number in numbers]
    place.fence()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False, keep_versions=kept)
