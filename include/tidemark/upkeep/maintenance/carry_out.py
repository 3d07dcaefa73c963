"""Carry out a plan of maintenance, in its order.

Killed anywhere, all readers find what they found before, and a new plan holds what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from tidemark.commit_point import commit_point
from tidemark.storage.delta.append import with_sound_bounds
from tidemark.storage.delta.commits import ROWS_ADDED
from tidemark.storage.delta.damage import not_committed
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.dropped_rejects import DROPPED
from tidemark.storage.delta.history import schema_of
from tidemark.storage.delta.notes import RejectsDroppedNote, as_metadata
from tidemark.storage.delta.ops import removed_name
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.file_place import FilePlace
from tidemark.upkeep.maintenance.plan import MaintenancePlan


def carry_out_maintenance(pipeline: str, plan: MaintenancePlan, place: TablePlace) -> None:
    """Do what the plan says; what is done already is no error.

    `place` is the table's, or the folder's. Its fence is asked once a table is read, before
    anything is written, and now and then. StorageUnavailable where another commit excluded one
    of these, as a takeover of the lease does; the table is as it was then.
    """
    if plan.keep_rows is not None:
        table = place.existing()
        place.fence()
        keep_rows(table, pipeline, plan.keep_rows)
    if plan.drop_rejects is not None:
        drop_rejects(place, plan.drop_rejects)
    for column, values in plan.compact.items():
        table = place.existing()
        place.fence()
        compact_table(table, column, values)
    if plan.checkpoint:
        place.fence()
        write_checkpoint(place.existing())
    if plan.remove:
        remove(place, plan.remove)


@commit_point(
    "old rows dropped",
    after_a_kill="before: all rows are there; after: a repeat finds none to drop",
)
def keep_rows(table: DeltaTable, pipeline: str, stays: ds.Expression) -> None:
    """Write a pipeline's rows anew that stay, in one commit, which counts those that go.

    Not by delta-rs's DELETE: it writes strings as Arrow views, which pyarrow cannot filter. Rows
    that are appended meanwhile exclude this.
    """
    own = f"pipeline = '{pipeline}'"
    known = dataset_of(table, own)
    is_own, counted = ds.field("pipeline") == pipeline, removed_name(pipeline)
    rows = known.to_table(filter=is_own & stays)
    gone = known.count_rows(filter=is_own) - rows.num_rows
    removed = Transaction(counted, (table.transaction_version(counted) or 0) + gone)
    noted = CommitProperties(app_transactions=[removed])
    with _excluded(table):
        write_deltalake(table, rows, mode="overwrite", predicate=own, commit_properties=noted)


@commit_point(
    "old rejects dropped",
    after_a_kill="before: all rejects are there, and the next maintenance drops them; after: there "
    "is nothing left to drop",
)
def drop_rejects(place: TablePlace, up_to: int) -> None:
    """Drop the rejects of the batches up to this one, in one commit, which says so: files that
    have others too are written again with these. Not by delta-rs's DELETE, as `keep_rows`."""
    table = place.existing()
    known, schema = dataset_of(table, f"_batch <= {up_to}"), schema_of(table)
    note = RejectsDroppedNote(
        up_to=up_to, rows=known.count_rows(filter=ds.field("_batch") <= up_to)
    )
    place.fence()
    properties = CommitProperties(
        app_transactions=[Transaction(DROPPED, up_to)],
        # No row is new.
        custom_metadata={**as_metadata(note), ROWS_ADDED: "0"},
        max_commit_retries=0,
    )
    with _excluded(table):
        write_deltalake(
            table,
            schema.empty_table(),
            mode="overwrite",
            predicate=f"_batch <= {up_to}",
            commit_properties=properties,
            writer_properties=with_sound_bounds(schema),
        )


@commit_point(
    "values blanked",
    after_a_kill="before: the rows tell them yet; after: a repeat finds none to blank",
)
def blank_values(
    table: DeltaTable, pipeline: str, blanked: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    """Write a pipeline's rows anew without what they tell of values, in one commit; none where they
    tell nothing. Rows that are appended meanwhile exclude this."""
    own = f"pipeline = '{pipeline}'"
    known = dataset_of(table, own).to_table(filter=ds.field("pipeline") == pipeline)
    before = known.to_pylist()
    after = [blanked(dict(row)) for row in before]
    if after != before:
        rows = pa.Table.from_pylist(after, known.schema)
        with _excluded(table):
            write_deltalake(table, rows, mode="overwrite", predicate=own)


@commit_point(
    "small files packed",
    after_a_kill="before: files that no commit names; after: the same rows in fewer files",
)
def compact_table(table: DeltaTable, column: str, values: tuple[str, ...]) -> None:
    """Pack the small files of these partitions, or of a table without any, in one commit.

    Its files carry `dataChange` false, so streams and change feeds pass over them.
    """
    with _excluded(table):
        table.optimize.compact(
            partition_filters=[(column, "in", list(values))] if column else None,
            writer_properties=with_sound_bounds(schema_of(table)),
        )


@commit_point(
    "log checkpoint written",
    after_a_kill="before: the log is read entry by entry; after: a repeat finds none due",
)
def write_checkpoint(table: DeltaTable) -> None:
    """Write a checkpoint of the newest version into the table's log."""
    table.create_checkpoint()


@commit_point(
    "unneeded files removed",
    after_a_kill="before, after and in between: no reader needs what is gone; a repeat removes "
    "the rest",
)
def remove(place: FilePlace, going: tuple[str, ...]) -> None:
    """Remove files that nobody needs."""
    place.remove_files(going)


@contextmanager
def _excluded(table: DeltaTable) -> Iterator[None]:
    try:
        yield
    except CommitFailedError as error:
        raise not_committed(
            table.table_uri,
            error,
            f"{table.table_uri} was changed while its maintenance worked on version "
            f"{table.version()} ({error}): did another process write to it, or take the lease "
            "over? The table holds what it held. Try again.",
        ) from error
