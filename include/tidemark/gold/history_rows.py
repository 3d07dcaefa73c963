"""What gold held, by the history of a generation, where gold itself is gone."""

from __future__ import annotations

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from tidemark.errors import MigrationRefused
from tidemark.gold.row_values import latest, time_literal
from tidemark.operators.operator import Operator, listed
from tidemark.operators.repaired import SEAL
from tidemark.pipeline.instants import epoch_ms, instant_text
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.history import FAILURE, VERSION, changes_between
from tidemark.storage.delta.notes import EmittedNote, note_of
from tidemark.storage.duckdb_in_utc import duckdb_in_utc


def closed_by_history(changes: DeltaTable) -> int:
    """Up to where `changes` says that rows are closed, in milliseconds; 0 where it does not.

    By what each batch noted of gold, and by what a seal has closed.
    """
    notes = (note_of(commit) for commit in changes.history())
    noted = [note.close_ms or 0 for note in notes if isinstance(note, EmittedNote)]
    with duckdb_in_utc() as connection:
        connection.register("changes", dataset_of(changes))
        ((sealed,),) = connection.execute(
            f"SELECT max(window_end) FROM changes WHERE cause = '{SEAL}'"
        ).fetchall()
    return max([*noted, 0 if sealed is None else epoch_ms(sealed)])


def rows_of_history(changes: DeltaTable, operator: Operator, before_ms: int) -> pa.Table:
    """The last value of each closed row that starts before a time, as gold would show it: identity
    and values of that generation, `status`, `revision` 0, `updated_by`, `window_date`.

    None that failed or went. MigrationRefused where nothing tells which value was the last.
    """
    with duckdb_in_utc() as connection:
        connection.register("changes", _ordered(changes, operator, before_ms))
        connection.execute(latest(operator))
        found: pa.Table = connection.sql(
            f"""
            SELECT {listed((*operator.identity, *operator.values))}, 'final' AS status,
                0::BIGINT AS revision, run AS updated_by, window_start::DATE AS window_date
            FROM latest WHERE "rows" > 0 AND "{FAILURE}" IS NULL
            """
        ).to_arrow_table()
    return found


def _ordered(changes: DeltaTable, operator: Operator, before_ms: int) -> pa.Table:
    """The rows before a time, by the feed of their commits, which tells what came after what."""
    started = f"window_start < {time_literal(before_ms)}"
    with duckdb_in_utc() as connection:
        try:
            connection.register("found", changes_between(changes, -1, changes.version()))
            return pa.table(connection.sql(f"FROM found WHERE {started}").to_arrow_table())
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
        return pa.table(
            connection.sql(f"SELECT *, 0 AS {VERSION} FROM found LIMIT 0").to_arrow_table()
        )
