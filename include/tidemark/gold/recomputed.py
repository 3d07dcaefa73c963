"""Windows that were computed again from bronze: which of them differ, and go to `changes`."""

from __future__ import annotations

import duckdb
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from pyarrow.dataset import Dataset

from tidemark.commit_point import commit_point
from tidemark.gold.plan import GoldState
from tidemark.gold.window_values import dates_predicate, latest, same_value, window_keys
from tidemark.operators.windows.in_duckdb import window_starts
from tidemark.pipeline.model import Table
from tidemark.storage.delta.append import append_rows
from tidemark.storage.delta.history import changes_between, schema_of
from tidemark.storage.delta.notes import RecomputedNote, as_metadata
from tidemark.storage.delta.place import TablePlace


def differing_windows(
    gold: DeltaTable, changes: DeltaTable, state: GoldState, recomputed: pa.Table, table: Table
) -> pa.Table:
    """The recomputed windows whose value is not the newest known one.

    That is the one in `changes` after what was published, else gold's. Values compare as in
    publish: doubles by a relative 1e-9, all else exactly.
    """
    if not recomputed.num_rows:
        return recomputed
    keys = window_keys(table)
    pending = changes_between(changes, state.changes, changes.version())
    same_key = " AND ".join(f'r."{key}" IS NOT DISTINCT FROM s."{key}"' for key in keys)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("recomputed", recomputed)
        connection.register("changes", pending)
        connection.execute(latest(keys))
        connection.register("gold", _of_same_dates(gold, recomputed))
        columns = ", ".join(f'"{name}"' for name in recomputed.column_names)
        connection.execute(
            f"""
            CREATE TEMP TABLE known AS SELECT {columns} FROM latest UNION ALL
            SELECT {columns} FROM gold r WHERE NOT EXISTS (SELECT 1 FROM latest s WHERE {same_key})
            """
        )
        same = same_value(table.measures, recomputed.schema, "r", "s")
        rows = connection.sql(
            f"""
            SELECT r.* FROM recomputed r LEFT JOIN known s ON {same_key}
            WHERE s."rows" IS NULL OR NOT ({same})
            """
        ).to_arrow_table()
    return pa.table(rows.cast(recomputed.schema))


@commit_point(
    "recomputed windows",
    after_a_kill="before: the next run finds the same windows; after: they do not differ any more",
)
def append_recomputed(
    changes: TablePlace, windows: pa.Table, cause: str, generation: int, run_id: str
) -> None:
    """One commit of recomputed windows; none where there are none.

    StorageUnavailable where the lease is taken over after the fence was asked.
    """
    if not windows.num_rows:
        return
    table = changes.existing()
    changes.fence()
    rows = rows_of_changes(schema_of(table), windows, cause, generation, run_id)
    note = RecomputedNote(cause=cause, run=run_id)
    properties = CommitProperties(custom_metadata=as_metadata(note))
    append_rows(table, rows, "recomputed windows", properties)


def rows_of_changes(
    schema: pa.Schema, windows: pa.Table, cause: str, generation: int, run_id: str
) -> pa.Table:
    """Recomputed windows with what `changes`, whose schema is given, says of each beside its
    value."""
    constants = {"cause": cause, "generation": generation, "run": run_id, "batch": None}
    for name, value in constants.items():
        values = pa.repeat(pa.scalar(value, schema.field(name).type), windows.num_rows)
        windows = windows.append_column(name, values)
    return windows


def _of_same_dates(gold: DeltaTable, windows: pa.Table) -> Dataset:
    dates = tuple(sorted({start.date() for start in window_starts(windows)}))
    return gold.to_pyarrow_dataset(file_pruning_predicate=dates_predicate(dates))
