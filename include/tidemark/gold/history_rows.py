"""What gold held, by the history of a generation, where gold itself is gone."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
from deltalake import DeltaTable

from tidemark.gold.row_values import latest, time_literal
from tidemark.operators.operator import Operator, listed
from tidemark.operators.repaired import SEAL
from tidemark.pipeline.instants import epoch_ms
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.history import FAILURE, changes_between
from tidemark.storage.delta.notes import EmittedNote, note_of
from tidemark.storage.duckdb_in_utc import duckdb_in_utc

_MILLISECOND = timedelta(milliseconds=1)


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

    None that failed or went. StorageUnavailable where the log was cleaned of some commits.
    """
    with duckdb_in_utc() as connection:
        connection.register("changes", changes_between(changes, -1, changes.version()))
        connection.execute(latest(operator, f"window_start < {time_literal(before_ms)}"))
        found: pa.Table = connection.sql(
            f"""
            SELECT {listed((*operator.identity, *operator.values))}, 'final' AS status,
                0::BIGINT AS revision, run AS updated_by, window_start::DATE AS window_date
            FROM latest WHERE "rows" > 0 AND "{FAILURE}" IS NULL
            """
        ).to_arrow_table()
    return found
