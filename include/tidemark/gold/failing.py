"""Windows that fail: a measure of them cannot be computed, so gold has no row of them.

A measure that fails when it is evaluated (a division by a sum that is zero) fails a window for as
long as its rows are as they are, and the stream itself says so in `changes`. One that fails before
that, on a row or when a sum overflows, would fail the whole query: such a window is *excluded*.
The stream leaves it out from the batch on that would have failed, and from then on it changes only
by being computed again from bronze (`streaming/run/steps.py`, `repair.py`). The row of
cause `failed` says that and no more: what becomes of gold, the repair's row does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable

from tidemark.gold.plan import GoldState
from tidemark.gold.row_values import counts_at_close, time_literal
from tidemark.gold.spans import dates_predicate
from tidemark.operators.operator import Operator, listed, same_row
from tidemark.operators.repaired import (
    BACKFILL,
    CLOSED,
    FAILED,
    LATE,
    LOOKUP,
    MIGRATION,
    OPEN,
    SEAL,
)
from tidemark.pipeline.instants import epoch_ms, instant_text
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.history import FAILURE, schema_of
from tidemark.storage.duckdb_in_utc import answer, duckdb_in_utc

_EXAMPLES, _SHOWN_KEY = 3, 60


@dataclass(frozen=True)
class Failing:
    """So many windows fail; the first of them in words: their start, keys, and why."""

    windows: int = 0
    examples: tuple[str, ...] = ()


NONE_FAILING = Failing()


def failing_rows(changes: DeltaTable, operator: Operator, generation: int) -> pa.Table:
    """Every row that `changes` has of a generation with a failure; some of them are not the newest
    of their windows. Identity, what else locates them, `window_end`, `rows`, `cause`, `batch`,
    `run` and FAILURE.

    Files are left out by their statistics, and those from before there was the column by their own
    columns.
    """
    schema = schema_of(changes)
    names = list(dict.fromkeys((*operator.located, "window_end", "rows", "cause", "batch", "run")))
    if FAILURE not in schema.names:
        empty = schema.empty_table().select(names)
        return empty.append_column(FAILURE, pa.array([], pa.string()))
    found: Any = dataset_of(changes, f'"{FAILURE}" IS NOT NULL')
    files = [one for one in found.get_fragments() if FAILURE in one.physical_schema.names]
    # Of a file without a failure delta-rs tells Arrow what it takes for one: so by its length.
    fails = pc.utf8_length(ds.field(FAILURE)) >= 0
    whole = ds.FileSystemDataset(files, found.schema, found.format, found.filesystem)
    rows = whole.to_table(filter=fails & (ds.field("generation") == generation))
    return rows.select([*names, FAILURE])


def excluded_windows(changes: DeltaTable, operator: Operator, generation: int) -> pa.Table:
    """The windows that the stream leaves out: where they are (`Operator.located`), and `batch`, the
    first batch of the query that left them out."""
    identity = listed(operator.identity)
    return _of_failing(
        changes,
        operator,
        generation,
        f"""
        SELECT {_located(operator)}, min(batch) AS batch FROM failing
        WHERE cause = '{FAILED}' GROUP BY {identity} ORDER BY {identity}
        """,
    )


def _located(operator: Operator) -> str:
    """Of several rows with one identity, all that they reach to."""
    more = [f'max("{name}") AS "{name}"' for name in operator.located[len(operator.identity) :]]
    return ", ".join([listed(operator.identity), *more])


def failing_when_computed(changes: DeltaTable, operator: Operator, generation: int) -> pa.Table:
    """Where the windows are that failed when they were computed from bronze, or would have failed
    the stream: what may fail a query over others too."""
    sql = f"""
        SELECT {_located(operator)} FROM failing WHERE cause <> 'stream'
        GROUP BY {listed(operator.identity)}
    """
    return _of_failing(changes, operator, generation, sql)


def _of_failing(changes: DeltaTable, operator: Operator, generation: int, sql: str) -> pa.Table:
    kept = schema_of(changes)
    found = answer(sql, failing=failing_rows(changes, operator, generation))
    return found.cast(pa.schema([kept.field(name) for name in found.column_names]))


def failing_known(
    connection: duckdb.DuckDBPyConnection,
    changes: DeltaTable,
    operator: Operator,
    generation: int,
    after_ms: int,
) -> None:
    """Make the table `failing_known`: of each row that a computation from bronze or the stream said
    fails, and that is not gone since, what was said last: where it is, `rows`, FAILURE. Only what
    is in force once gold is closed up to this frontier."""
    connection.register("failing_rows", failing_rows(changes, operator, generation))
    connection.register("history_of_gone", dataset_of(changes, '"rows" = 0'))
    columns = listed([*operator.located, "rows", FAILURE])
    identity = listed(operator.identity)
    connection.execute(
        f"""
        CREATE TEMP TABLE failing_known AS SELECT {columns} FROM failing_rows f
        WHERE {_is_verdict(operator, "history_of_gone", after_ms)}
        QUALIFY row_number() OVER (
            PARTITION BY {identity} ORDER BY {_last_verdict(operator, "f")} DESC) = 1
        """
    )


def _is_verdict(operator: Operator, history: str, after_ms: int) -> str:
    """The condition that a row `f` of `failing_rows` is a verdict, and that the relation `history`
    has none since which says that it is gone. By what is in force at a frontier."""
    when = f"{_by_batch('h')} > {_by_batch('f')}"
    if not operator.traits.fails_again:
        # Of two by one batch nobody knows which was said last: by rows alone, what went stays away.
        # A former version noted no batch by what it computed; what has one there is of a later one.
        noted = f"f.batch IS NOT NULL AND f.cause NOT IN ('stream', '{MIGRATION}')"
        when = f"({_by_batch('h')} >= {_by_batch('f')} OR h.batch IS NULL AND NOT ({noted}))"
    return f"""f.cause <> '{FAILED}' AND {counts_at_close(after_ms, "f")} AND NOT EXISTS (
        FROM {history} h WHERE h."rows" = 0 AND {same_row(operator, "f", "h")} AND {when}
            AND {counts_at_close(after_ms, "h")})"""


def other_rows(rows: pa.Table, without: pa.Table, operator: Operator) -> pa.Table:
    """The rows that are none of the others, by their identity and by what else locates them."""
    return _joined(rows, without, operator, "ANTI")


def same_rows(rows: pa.Table, among: pa.Table, operator: Operator) -> pa.Table:
    """The rows that are one of the others."""
    return _joined(rows, among, operator, "SEMI")


def _joined(rows: pa.Table, others: pa.Table, operator: Operator, how: str) -> pa.Table:
    same = " AND ".join(f'r."{name}" IS NOT DISTINCT FROM o."{name}"' for name in operator.located)
    sql = f"FROM rows_given r {how} JOIN others o ON {same}"
    return answer(sql, rows.schema, rows_given=rows, others=others)


def failing_of_run(
    changes: DeltaTable, operator: Operator, generation: int, run_id: str
) -> Failing:
    """The windows of which a run said that they fail."""
    with duckdb_in_utc() as connection:
        connection.register("failing", failing_rows(changes, operator, generation))
        return _told(connection, operator, "run = ?", [run_id])


def failing_windows(
    gold: DeltaTable, changes: DeltaTable, operator: Operator, state: GoldState
) -> pa.Table:
    """The rows of `failing_rows` of windows that gold lacks because they fail, those that wait for
    their publish among them, but for a seal's; not of those that are gone since."""
    rows = failing_rows(changes, operator, state.generation)
    with duckdb_in_utc() as connection:
        connection.register("failing", rows)
        days = connection.execute("SELECT DISTINCT window_start::DATE FROM failing").fetchall()
        if not days:
            return rows
        dates = tuple(sorted(day for (day,) in days))
        connection.register("gold", dataset_of(gold, dates_predicate(dates)))
        connection.register("history", dataset_of(changes, '"rows" = 0'))
        found = connection.sql(
            f"""
            SELECT * FROM failing f
            WHERE {_is_verdict(operator, "history", state.close_ms)}
            AND NOT EXISTS (FROM gold g WHERE {same_row(operator, "f", "g")})
            """
        ).to_arrow_table()
    return pa.table(found).cast(rows.schema)


def failing_now(
    gold: DeltaTable,
    changes: DeltaTable,
    operator: Operator,
    state: GoldState,
    frozen_before_ms: int | None = None,
) -> Failing:
    """The windows that fail now, in words, without frozen ones, which nothing mends."""
    kept = frozen_before_ms and f"window_start >= {time_literal(frozen_before_ms)}"
    with duckdb_in_utc() as connection:
        connection.register("failing", failing_windows(gold, changes, operator, state))
        return _told(connection, operator, kept or "true")


def _told(
    connection: duckdb.DuckDBPyConnection,
    operator: Operator,
    condition: str,
    values: Sequence[Any] = (),
) -> Failing:
    """Of the relation `failing`, what fulfils a condition."""
    identity = listed(operator.identity)
    connection.execute(
        f"""
        CREATE TEMP TABLE told AS
        SELECT {identity},
            last("{FAILURE}" ORDER BY {_last_verdict(operator, "f")}) AS "{FAILURE}"
        FROM failing f WHERE {condition} GROUP BY {identity}
        """,
        values,
    )
    ((windows,),) = connection.execute("SELECT count(*) FROM told").fetchall()
    first = connection.sql(f"FROM told ORDER BY {identity} LIMIT {_EXAMPLES}")
    return Failing(int(windows), tuple(_words(row) for row in first.to_arrow_table().to_pylist()))


def _words(row: Mapping[str, Any]) -> str:
    """A row that fails, for people: its start, its keys, and why."""
    start = instant_text(epoch_ms(row["window_start"]))
    keys = "".join(
        f" {name}={str(value)[:_SHOWN_KEY]}"
        for name, value in row.items()
        if name not in ("window_start", FAILURE)
    )
    return f"{start}{keys}: {row[FAILURE]}"


def _last_verdict(operator: Operator, relation: str) -> str:
    """What tells the last word on a row, of those that were computed from bronze or failed, as a
    value of DuckDB's to order by: that with more input rows, as a row's only grow. Where one fails
    again over other rows, that after the newest batch, and there by its cause."""
    if not operator.traits.fails_again:
        return f"({listed(operator.traits.grows, relation)},)"
    return _by_batch(relation)


def _by_batch(relation: str) -> str:
    """What tells which of two rows of `changes` was said last, as a value of DuckDB's to order by:
    after which batch of the query, and there by which cause."""
    causes = ", ".join(f"'{cause}'" for cause in (LATE, LOOKUP, OPEN, CLOSED, SEAL, BACKFILL))
    within = f"coalesce(list_position([{causes}], {relation}.cause), 0)"
    return f"(coalesce({relation}.batch, -1), {within})"
