"""Rows that were computed again from bronze: which of them differ, and go to `changes`."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable
from pyarrow.dataset import Dataset

from tidemark.commit_point import commit_point
from tidemark.gold.failing import failing_known
from tidemark.gold.plan import GoldState
from tidemark.gold.row_values import latest_pending, same_value, time_literal
from tidemark.gold.spans import dates_predicate
from tidemark.operators.operator import Covered, Operator, listed, same_row
from tidemark.storage.delta.append import append_rows
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.history import FAILURE, schema_of
from tidemark.storage.delta.notes import RecomputedNote, as_metadata
from tidemark.storage.delta.place import TablePlace, own_handles
from tidemark.storage.duckdb_in_utc import answers, arrow_of, duckdb_in_utc


@dataclass(frozen=True)
class KnownRows:
    """So many rows stand in gold, `closed` of them as closed ones."""

    held: int
    closed: int


def differing_rows(
    gold: DeltaTable,
    changes: DeltaTable,
    state: GoldState,
    operator: Operator,
    recomputed: pa.Table,
    covered: Covered | None,
    after_ms: int,
    gone_by_ms: int | None = None,
) -> pa.Table:
    """What `changes` has to say after a computation: the rows whose value is not the newest known
    one, and of the known rows that it covered those that are gone, with `rows` 0 and null measures.
    One that fails and stands nowhere differs.

    The newest known value is that in `changes` after what was published, if a publish up to the
    frontier `after_ms` takes it, else gold's. Values compare as in publish: doubles by a relative
    1e-9, all else exactly. `gone_by_ms` is the frontier that a seal closes up to: rows that are
    gone by that end there, so that a publish which passes over the seal keeps them.
    """
    if not recomputed.num_rows and covered is None:
        return recomputed
    with duckdb_in_utc() as connection:
        connection.register("recomputed", recomputed)
        latest_pending(connection, changes, state, operator, after_ms)
        connection.register("gold", _of_same_dates(gold, recomputed, covered))
        columns = [name for name in recomputed.column_names if name != FAILURE]
        before = f"SELECT {listed(columns)}, NULL AS {FAILURE} FROM gold"
        if operator.traits.checks_emitted or operator.lookups:
            # What failed and merged since goes too, though gold never had it.
            failing_known(connection, changes, operator, state.generation, after_ms)
            mended = f"EXISTS (FROM gold g WHERE {same_row(operator, 'g', 'f')})"
            before = f"{before} UNION ALL BY NAME FROM failing_known f WHERE NOT {mended}"
        connection.execute(
            f"""
            CREATE TEMP TABLE known AS SELECT {listed([*columns, FAILURE])} FROM latest UNION ALL
            SELECT {listed([*columns, FAILURE])} FROM ({before}) r
            WHERE NOT EXISTS (SELECT 1 FROM latest s WHERE {same_row(operator, "r", "s")})
            """
        )
        same = same_value(operator.values, recomputed.schema, "r", "s")
        sql = f"""
            SELECT r.* FROM recomputed r LEFT JOIN known s ON {same_row(operator, "r", "s")}
            WHERE s."rows" IS NULL OR NOT ({same})
            OR r."{FAILURE}" IS DISTINCT FROM s."{FAILURE}"
        """
        if covered is not None:
            connection.register("touched", covered.touched)
            sql = f"{sql} UNION ALL {_gone(operator, recomputed.column_names, covered, gone_by_ms)}"
        return arrow_of(connection.sql(sql), recomputed.schema)


def known_to_gold(
    gold: DeltaTable, state: GoldState, operator: Operator, rows: pa.Table
) -> KnownRows:
    """How many of these rows of the table gold holds, whatever their values are there."""
    if not rows.num_rows:
        return KnownRows(0, 0)
    closed = f"g.window_end <= {time_literal(state.close_ms)}"
    sql = f"""
        SELECT count(*), count(*) FILTER ({closed}) FROM gold g
        SEMI JOIN rows_found r ON {same_row(operator, "g", "r")}
    """
    ((held, closed_there),) = answers(sql, rows_found=rows, gold=_of_same_dates(gold, rows, None))
    return KnownRows(held, closed_there)


def _gone(operator: Operator, columns: list[str], covered: Covered, gone_by_ms: int | None) -> str:
    said = {name: f'k."{name}"' for name in (*operator.identity, "window_end")} | {"rows": "0"}
    if gone_by_ms is not None:
        said["window_end"] = time_literal(gone_by_ms)
    values = ", ".join(said.get(name, "NULL") for name in columns)
    return f"""
        SELECT {values} FROM known k WHERE k."rows" > 0 AND ({covered.condition})
            AND NOT EXISTS (SELECT 1 FROM recomputed r WHERE {same_row(operator, "k", "r")})
    """


@commit_point(
    "recomputed windows",
    after_a_kill="before: the next run finds the same windows; after: they do not differ any more",
)
def append_recomputed(
    changes: TablePlace,
    windows: pa.Table,
    cause: str,
    generation: int,
    run_id: str,
    batch: int | None = None,
) -> None:
    """One commit of recomputed windows; none where there are none. `batch`: that of the stream
    which they are left out of, or after which they were computed (`batch_computed_after`).

    StorageUnavailable where the lease is taken over after the fence was asked.
    """
    if not windows.num_rows:
        return
    # Whoever computed the windows holds the table as it was.
    with own_handles():
        table = changes.existing()
    changes.fence()
    rows = rows_of_changes(schema_of(table), windows, cause, generation, run_id, batch)
    note = RecomputedNote(cause=cause, run=run_id)
    properties = CommitProperties(custom_metadata=as_metadata(note))
    append_rows(table, rows, "recomputed windows", properties)


def rows_of_changes(
    schema: pa.Schema,
    windows: pa.Table,
    cause: str,
    generation: int,
    run_id: str,
    batch: int | None = None,
) -> pa.Table:
    """Recomputed windows with what `changes`, whose schema is given, says of each beside its
    value."""
    constants = {"cause": cause, "generation": generation, "run": run_id, "batch": batch}
    for name, value in constants.items():
        values = pa.repeat(pa.scalar(value, schema.field(name).type), windows.num_rows)
        windows = windows.append_column(name, values)
    return windows


def _of_same_dates(gold: DeltaTable, rows: pa.Table, covered: Covered | None) -> Dataset:
    days = pc.unique(rows.column("window_start").cast(pa.date32())).to_pylist()
    dates = [dates_predicate(tuple(sorted(filter(None, days))))] if any(days) else []
    if covered is not None:
        dates.append(f"({covered.dates})")
    return dataset_of(gold, " OR ".join(dates))
