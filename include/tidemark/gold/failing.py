"""Windows that fail: a measure of them cannot be computed, so gold has no row of them.

A measure that fails when it is evaluated (a division by a sum that is zero) fails a window for as
long as its rows are as they are, and the stream itself says so. One that fails before that, on a
row or when a sum overflows, would fail the whole query: such a window is *set aside*. The stream
leaves it out from the batch on that would have failed, and from then on it changes only by being
computed again from bronze (`streaming/run/set_aside.py`, `repair.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from tidemark.gold.row_values import dates_predicate
from tidemark.operators.operator import Operator, listed, same_row
from tidemark.operators.repaired import FAILED
from tidemark.pipeline.instants import epoch_ms, instant_text
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.history import FAILURE, schema_of
from tidemark.storage.duckdb_in_utc import duckdb_in_utc

_EXAMPLES, _SHOWN_KEY = 3, 60


@dataclass(frozen=True)
class Failing:
    """So many windows fail now; the first of them in words: their start, keys, and why."""

    windows: int = 0
    examples: tuple[str, ...] = ()


NONE_FAILING = Failing()


def failing_rows(changes: DeltaTable, generation: int) -> pa.Table:
    """Every row that `changes` has of a generation with a failure, in its columns; some of them
    are not the newest of their windows. Other files are left out by their statistics."""
    schema = schema_of(changes)
    if FAILURE not in schema.names:
        return schema.empty_table()
    same = (ds.field("generation") == generation) & ds.field(FAILURE).is_valid()
    return dataset_of(changes, f'"{FAILURE}" IS NOT NULL').to_table(filter=same)


def set_aside(changes: DeltaTable, operator: Operator, generation: int) -> pa.Table:
    """The windows that the stream leaves out: their identity, and `batch`, the first batch of the
    query that left them out."""
    rows = failing_rows(changes, generation)
    with duckdb_in_utc() as connection:
        connection.register("failing", rows)
        found = connection.sql(
            f"""
            SELECT {listed(operator.identity)}, min(batch) AS batch FROM failing
            WHERE cause = '{FAILED}' GROUP BY ALL ORDER BY ALL
            """
        ).to_arrow_table()
    kept = schema_of(changes)
    return pa.table(found).cast(pa.schema([kept.field(name) for name in found.column_names]))


def failing_of_run(
    changes: DeltaTable, operator: Operator, generation: int, run_id: str
) -> Failing:
    """The windows of which a run said that they fail, also where it mended them since."""
    rows = failing_rows(changes, generation)
    with duckdb_in_utc() as connection:
        connection.register("rows_found", rows)
        identity = listed(operator.identity)
        connection.execute(
            f"""
            CREATE TEMP TABLE now AS SELECT {identity}, any_value("{FAILURE}") AS "{FAILURE}"
            FROM rows_found WHERE run = ? GROUP BY {identity}
            """,
            [run_id],
        )
        return _told(connection, operator)


def other_rows(rows: pa.Table, without: pa.Table, operator: Operator) -> pa.Table:
    """The rows whose identity is none of the others'."""
    return _joined(rows, without, operator, "ANTI")


def same_rows(rows: pa.Table, among: pa.Table, operator: Operator) -> pa.Table:
    """The rows whose identity is one of the others'."""
    return _joined(rows, among, operator, "SEMI")


def _joined(rows: pa.Table, others: pa.Table, operator: Operator, how: str) -> pa.Table:
    with duckdb_in_utc() as connection:
        connection.register("rows_given", rows)
        connection.register("others", others)
        found = connection.sql(
            f"FROM rows_given r {how} JOIN others o ON {same_row(operator, 'r', 'o')}"
        ).to_arrow_table()
    return pa.table(found).cast(rows.schema)


def failing_now(
    gold: DeltaTable, changes: DeltaTable, operator: Operator, generation: int
) -> Failing:
    """The windows that gold lacks because they fail, as far as it is published."""
    rows = failing_rows(changes, generation)
    if not rows.num_rows:
        return NONE_FAILING
    identity = listed(operator.identity)
    with duckdb_in_utc() as connection:
        connection.register("failing", rows)
        days = connection.execute("SELECT DISTINCT window_start::DATE FROM failing").fetchall()
        dates = tuple(sorted(day for (day,) in days))
        connection.register("gold", dataset_of(gold, dates_predicate(dates)))
        connection.execute(
            f"""
            CREATE TEMP TABLE now AS SELECT {identity}, any_value("{FAILURE}") AS "{FAILURE}"
            FROM failing f ANTI JOIN (SELECT {identity} FROM gold) g
            ON {same_row(operator, "f", "g")} GROUP BY {identity}
            """
        )
        return _told(connection, operator)


def _told(connection: duckdb.DuckDBPyConnection, operator: Operator) -> Failing:
    """Of the table `now`."""
    ((windows,),) = connection.execute("SELECT count(*) FROM now").fetchall()
    first = connection.sql(f"FROM now ORDER BY {listed(operator.identity)} LIMIT {_EXAMPLES}")
    examples = tuple(_words(row) for row in first.to_arrow_table().to_pylist())
    return Failing(int(windows), examples)


def _words(row: Mapping[str, Any]) -> str:
    """A row that fails, for people: its start, its keys, and why."""
    start = instant_text(epoch_ms(row["window_start"]))
    keys = "".join(
        f" {name}={str(value)[:_SHOWN_KEY]}"
        for name, value in row.items()
        if name not in ("window_start", FAILURE)
    )
    return f"{start}{keys}: {row[FAILURE]}"
