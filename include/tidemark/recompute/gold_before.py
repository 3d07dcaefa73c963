"""Gold as a migration finds it: its state and rows, also where it is gone and other places tell.

Gold that was never published counts as gone: a run or a migration that was killed makes it anew.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow.dataset import Dataset, dataset

from tidemark.errors import MigrationRefused
from tidemark.gold.checkpoints import ingest_checkpoint, query_checkpoint
from tidemark.gold.plan import GoldState
from tidemark.gold.retention import (
    date_of,
    frozen_before_ms,
    frozen_rows_before_ms,
    needed_from_ms,
    open_and_given_up_ms,
    table_frozen_before_ms,
)
from tidemark.gold.row_values import latest, time_literal
from tidemark.gold.state import gold_state, is_published
from tidemark.operators.operator import Operator, listed
from tidemark.operators.repaired import SEAL
from tidemark.pipeline.instants import epoch_ms, instant_text
from tidemark.recompute.former import former_generation
from tidemark.recompute.table_change import Change
from tidemark.runs.generations import generations
from tidemark.runs.run import Run, closed_by_stream_ms
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.history import FAILURE, VERSION, changes_between
from tidemark.storage.delta.notes import EmittedNote, note_of
from tidemark.storage.duckdb_in_utc import answers, arrow_of, duckdb_in_utc


@dataclass(frozen=True)
class GoldBefore:
    """`table` is None where gold is gone, `is_lost` also where it was never published. `state` is
    gold's own, or what checkpoints and histories tell of it. Rows that start before
    `frozen_before_ms` stay as they were."""

    table: DeltaTable | None
    state: GoldState
    is_lost: bool
    frozen_before_ms: int | None


def gold_before(run: Run, name: str, operator: Operator, change: Change) -> GoldBefore:
    """MigrationRefused where open rows of the next generation reach back further than bronze."""
    gold = run.warehouse.gold(name).open()
    if gold is not None and is_published(gold):
        state, is_lost = gold_state(gold, operator.inputs), False
    else:
        version = -1 if gold is None else gold.version()
        state, is_lost = _lost_state(run, name, operator, version), True
    frozen = _frozen(run, name, operator, change.former, state.close_ms)
    return GoldBefore(gold, state, is_lost, frozen)


def _lost_state(run: Run, name: str, operator: Operator, version: int) -> GoldState:
    """What any of its queries or histories says is closed stays closed: what of it is closed too
    early is repaired as any late row is."""
    warehouse = run.warehouse
    closed = [0]
    for number in generations(warehouse, name):
        closed.append(closed_by_stream_ms(query_checkpoint(warehouse, name, number), operator))
        changes = warehouse.changes(name, number).open()
        if changes is not None:
            closed.append(closed_by_history(changes))
    return GoldState(
        version=version,
        changes=-1,
        inputs=dict.fromkeys(operator.inputs, -1),
        close_ms=max(closed),
        generation=former_generation(warehouse, name),
    )


def _frozen(run: Run, name: str, operator: Operator, former: Operator, close_ms: int) -> int | None:
    too_old = frozen_before_ms(run.pipeline, ingest_checkpoint(run.warehouse))
    if too_old is None:
        return None
    bronze = run.warehouse.bronze.existing()
    frozen = table_frozen_before_ms(run.pipeline, run.warehouse, name, operator, bronze)
    if not close_ms:
        # Nothing tells what was closed: then bronze is not asked for what it may have dropped.
        return frozen
    # What the former rows needed tells what was dropped: by the next ones, what is left of a longer
    # row would seem to begin there.
    first_kept = date_of(needed_from_ms(former, too_old, close_ms, bronze))
    needed = operator.rows_in(bronze).first_needed_ms(close_ms)
    if date_of(operator.kept_from_ms(needed)) < first_kept:
        raise MigrationRefused(
            f"Windows that are still open begin at {instant_text(needed)} by the changed file, and "
            f"bronze has rows from {first_kept} on only (`keep`): they would lack "
            "some. Nothing was written. Let runs close windows up to a later time first, or put "
            "the former window back."
        )
    given_up = open_and_given_up_ms(run.warehouse, name, operator, close_ms)
    if given_up is not None:
        raise MigrationRefused(
            f"Windows that are still open begin before {instant_text(given_up)} by the changed "
            f"file, and {name} has noted that it needs no row of the other bronze which these may "
            "match: they may be gone (`keep`). Nothing was written. Let runs close windows up to a "
            "later time first, or put the former range back."
        )
    return frozen_rows_before_ms(operator, frozen, close_ms, bronze)


def rows_before(run: Run, name: str, found: GoldBefore, change: Change) -> Dataset | None:
    """Gold; where it is lost, what its history has of rows that bronze cannot give any more. None
    where there is neither.

    MigrationRefused as `rows_of_history`.
    """
    if found.table is not None and not found.is_lost:
        return dataset_of(found.table)
    changes = run.warehouse.changes(name, found.state.generation).open()
    if changes is None or found.frozen_before_ms is None or change.predecessors.identity is None:
        return None
    return dataset(rows_of_history(changes, change.former, found.frozen_before_ms))


def closed_by_history(changes: DeltaTable) -> int:
    """Up to where `changes` says that rows are closed, in milliseconds; 0 where it does not.

    By what each batch noted of gold, and by what a seal has closed.
    """
    notes = (note_of(commit) for commit in changes.history())
    noted = [note.close_ms or 0 for note in notes if isinstance(note, EmittedNote)]
    sql = f"SELECT max(window_end) FROM changes WHERE cause = '{SEAL}'"
    ((sealed,),) = answers(sql, changes=dataset_of(changes))
    return max([*noted, 0 if sealed is None else epoch_ms(sealed)])


def rows_of_history(changes: DeltaTable, operator: Operator, before_ms: int) -> pa.Table:
    """The last value of each closed row that starts before a time, as gold would show it: identity
    and values of that generation, `status`, `revision` 0, `updated_by`, `window_date`.

    None that failed or went. MigrationRefused where nothing tells which value was the last.
    """
    with duckdb_in_utc() as connection:
        connection.register("changes", _ordered(changes, operator, before_ms))
        connection.execute(latest(operator))
        found = connection.sql(
            f"""
            SELECT {listed((*operator.identity, *operator.values))}, 'final' AS status,
                0::BIGINT AS revision, run AS updated_by, window_start::DATE AS window_date
            FROM latest WHERE "rows" > 0 AND "{FAILURE}" IS NULL
            """
        )
        return arrow_of(found)


def _ordered(changes: DeltaTable, operator: Operator, before_ms: int) -> pa.Table:
    """The rows before a time, by the feed of their commits, which tells what came after what."""
    started = f"window_start < {time_literal(before_ms)}"
    with duckdb_in_utc() as connection:
        try:
            connection.register("found", changes_between(changes, -1, changes.version()))
            return arrow_of(connection.sql(f"FROM found WHERE {started}"))
        except duckdb.OperationalError:
            raise
        except (DeltaError, OSError, pa.ArrowException, duckdb.Error):
            connection.register("found", dataset_of(changes))
        windows = connection.sql(
            f"""
            SELECT count(*) FROM (
                SELECT DISTINCT {listed(operator.identity)} FROM found WHERE {started})
            """
        ).fetchall()[0][0]
        if windows:
            raise MigrationRefused(
                f"Gold is gone, and nobody can tell any more which value in {changes.table_uri} "
                f"was the last one of {windows:,} windows: maintenance has removed the commits "
                f"that would, and bronze has no rows of windows before {instant_text(before_ms)} "
                "any more (`keep`). Nothing was written. Restore gold from a backup; or move that "
                "history away too, and these windows are gone."
            )
        return arrow_of(connection.sql(f"SELECT *, 0 AS {VERSION} FROM found LIMIT 0"))
