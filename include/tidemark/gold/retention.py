"""Retention: whole dates of bronze go that nothing can need any more (`keep`).

A row older than `keep` is rejected, and a closed window that starts before that is frozen, so
nothing is computed from those dates again. Dates of windows that are still open stay, however
old, those in which a duplicate of a new row can stand, and those that tables of other pipelines
may need (`gold/other_readers.py`). The tables' streams read on: they skip commits that only remove
(`skipChangeCommits`). A table that is out of the pipeline's file is not asked: put back, it is
stopped where dates of its open windows went (`runs/losses.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from tidemark.checkpoint.log import Checkpoint
from tidemark.commit_point import commit_point
from tidemark.gold.checkpoints import ingest_checkpoint
from tidemark.gold.other_readers import (
    OtherReader,
    note_reader,
    noted_reader,
    other_readers,
)
from tidemark.gold.state import gold_state
from tidemark.operators.kinds import operator_of
from tidemark.operators.operator import Operator
from tidemark.operators.other_inputs import other_pipelines
from tidemark.pipeline.instants import epoch_ms, instant_of
from tidemark.pipeline.model import Pipeline
from tidemark.sources.notes import source_notes
from tidemark.storage.delta.append import on_this_version
from tidemark.storage.delta.damage import not_committed
from tidemark.storage.delta.notes import RetentionNote
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.warehouse import Warehouse

_MILLISECOND = timedelta(milliseconds=1)
_DATE = "_event_date"
_FIRST_MS = epoch_ms(datetime.min.replace(tzinfo=UTC))


def frozen_before_ms(pipeline: Pipeline, ingest: Checkpoint) -> int | None:
    """Closed windows that start before this stay as they are: bronze may have lost rows of
    theirs. None without `keep`, or before the first batch.

    By the time of the newest batch, as the verdict `too old` is; where a former one's was later,
    and somebody accepted that, by that one: its dates may be gone. Milliseconds, UTC.
    """
    last = ingest.last_batch("offsets")
    if pipeline.keep is None or last is None:
        return None
    later = (epoch_ms(one.batch_time) for one in source_notes(ingest).clock if one.batch_time)
    newest_ms = max([ingest.offsets(last).batch_time_ms, *later])
    return newest_ms - pipeline.keep // _MILLISECOND


def table_frozen_before_ms(
    pipeline: Pipeline,
    warehouse: Warehouse,
    name: str,
    operator: Operator,
    bronze: DeltaTable,
    close_ms: int | None = None,
) -> int | None:
    """Closed rows of a table that start before this stay as they are, by its kind, and by what
    other pipelines may have dropped of what it joins. Rows that are open by the frontier
    `close_ms` are not frozen, however old."""
    too_old = frozen_before_ms(pipeline, ingest_checkpoint(warehouse))
    if too_old is None:
        return None
    frozen: int | None = operator.rows_in(bronze).frozen_before_ms(too_old)
    if close_ms is not None:
        frozen = frozen_rows_before_ms(operator, frozen, close_ms, bronze)
    both = frozen, given_up_ms(warehouse, name, operator)
    return max(found for found in both if found is not None)


def given_up_ms(warehouse: Warehouse, table: str, operator: Operator) -> int | None:
    """Rows of a table that start before this may lack rows of other pipelines: their table has
    noted that it needs these no more. None where it needs all."""
    found = []
    for pipeline, name in other_pipelines(operator).items():
        noted = noted_reader(_of(warehouse, pipeline), warehouse.places.pipeline, table)
        if noted is not None and noted.from_ms is not None:
            found.append(epoch_ms(instant_of(noted.from_ms) + operator.needed_before(name)))
    return max(found, default=None)


def open_and_given_up_ms(
    warehouse: Warehouse, table: str, operator: Operator, close_ms: int
) -> int | None:
    """The time of `given_up_ms` where a row that is open by this frontier starts before it; else
    None."""
    given_up = given_up_ms(warehouse, table, operator)
    first_open = epoch_ms(operator.first_open_start(close_ms))
    return given_up if given_up is not None and first_open < given_up else None


def note_needed(pipeline: Pipeline, warehouse: Warehouse) -> None:
    """Note beside the bronzes of others from when on the tables that join need their rows, by what
    is published: what is open and what is not frozen. Safe to repeat."""
    frozen = frozen_before_ms(pipeline, ingest_checkpoint(warehouse))
    if frozen is None or frozen <= 0:
        # No row is older: times begin with 1970.
        return
    for table in pipeline.tables:
        operator = operator_of(pipeline, table)
        for other, name in other_pipelines(operator).items():
            closed = gold_state(warehouse.gold(table).existing()).close_ms
            first = min(instant_of(frozen), operator.first_open_start(closed))
            needed = epoch_ms(first - operator.needed_before(name))
            reader = OtherReader(pipeline=pipeline.name, table=table, from_ms=needed)
            warehouse.fence()
            note_reader(_of(warehouse, other), reader)


def _of(warehouse: Warehouse, pipeline: str) -> Warehouse:
    """The places of another pipeline below the same root."""
    return Warehouse(replace(warehouse.places, pipeline=pipeline), warehouse.options)


def frozen_rows_before_ms(
    operator: Operator, frozen_ms: int | None, close_ms: int, bronze: DeltaTable
) -> int | None:
    """Rows of a table that start before this are frozen, whatever they are: those that are open
    by its close frontier still have all their input rows, however old."""
    if frozen_ms is None:
        return None
    return min(frozen_ms, epoch_ms(operator.rows_in(bronze).seeded_from(close_ms)))


def first_kept_date(
    pipeline: Pipeline, frozen_ms: int, close_ms: Mapping[str, int], bronze: DeltaTable
) -> date:
    """The oldest date whose rows are still needed.

    `close_ms` holds each table's published close frontier: rows that can touch what is open stay.
    """
    unique = pipeline.source.unique
    horizon = unique.within if unique else timedelta(0)
    needed = [frozen_ms - horizon // _MILLISECOND]
    needed += [
        needed_from_ms(operator_of(pipeline, name), frozen_ms, closed, bronze)
        for name, closed in close_ms.items()
    ]
    return date_of(min(needed))


def needed_from_ms(operator: Operator, frozen_ms: int, close_ms: int, bronze: DeltaTable) -> int:
    """Input rows of before this are in no row of a table that is open by its published frontier, or
    not frozen, where input rows older than `frozen_ms` are not taken any more."""
    rows = operator.rows_in(bronze)
    first = min(rows.first_needed_ms(close_ms), rows.frozen_before_ms(frozen_ms))
    return operator.kept_from_ms(first)


def date_of(milliseconds: int) -> date:
    """The date, in UTC; the first one where a horizon reaches back further than there are dates."""
    return instant_of(max(milliseconds, _FIRST_MS)).date()


def drop_expired_dates(pipeline: Pipeline, warehouse: Warehouse) -> tuple[date, ...]:
    """Drop bronze's expired dates after a publish, in one commit; the dates that went.

    Only the table's log is written: the files go when the table is vacuumed. Safe to repeat.
    """
    if expired := expired_dates(pipeline, warehouse):
        _drop(warehouse.bronze, expired, tuple(pipeline.tables))
    return expired


def expired_dates(pipeline: Pipeline, warehouse: Warehouse) -> tuple[date, ...]:
    """Bronze's dates that nothing needs any more by what is published here, and by what the tables
    of other pipelines have noted; oldest first."""
    ingest = Checkpoint(warehouse.places.ingest_checkpoint, warehouse.options)
    frozen = frozen_before_ms(pipeline, ingest)
    if frozen is None:
        return ()
    golds = {name: warehouse.gold(name).existing() for name in pipeline.tables}
    closed = {name: gold_state(gold).close_ms for name, gold in golds.items()}
    bronze = warehouse.bronze.existing()
    of_others = [reader.from_ms or 0 for reader in other_readers(warehouse)]
    first_kept = first_kept_date(pipeline, frozen, closed, bronze)
    first_kept = min([first_kept, *(instant_of(needed).date() for needed in of_others)])
    held = [date.fromisoformat(part[_DATE]) for part in bronze.partitions()]
    return tuple(sorted(day for day in held if day < first_kept))


def rows_of_dates(bronze: DeltaTable, dates: tuple[date, ...]) -> int:
    """How many rows bronze has of these dates, by the statistics of its files."""
    day = f"partition.{_DATE}"
    # Bounds may be days and times that Python does not have.
    files = pa.table(bronze.get_add_actions(flatten=True)).select(["num_records", day]).to_pylist()
    listed = {str(one) for one in dates}
    return sum(int(file["num_records"] or 0) for file in files if str(file[day]) in listed)


@commit_point(
    "expired dates dropped",
    after_a_kill="before: the next run drops them; after: there is nothing left to drop",
)
def _drop(bronze: TablePlace, expired: tuple[date, ...], tables: tuple[str, ...]) -> None:
    table = bronze.existing()
    bronze.fence()
    listed = ", ".join(f"'{day}'" for day in expired)
    note = RetentionNote(dates=expired, tables=tables)
    try:
        table.delete(f"{_DATE} IN ({listed})", commit_properties=on_this_version(note))
    except CommitFailedError as error:
        raise not_committed(
            bronze.uri,
            error,
            f"{bronze.uri} got another commit while its dates {listed} were dropped ({error}). "
            "What was to be published is published. Try again: the next run drops them.",
        ) from error
