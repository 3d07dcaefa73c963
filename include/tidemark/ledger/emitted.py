"""What a table's query emitted, batch by batch, for the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from deltalake import DeltaTable

from tidemark.gold.failing import failing_rows
from tidemark.gold.plan import GoldState
from tidemark.gold.spans import dates_predicate
from tidemark.operators.operator import Equation, Operator, listed, same_row
from tidemark.operators.repaired import MIGRATION
from tidemark.storage.delta.commits import emitted_rows
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.history import VERSION, changes_between
from tidemark.storage.duckdb_in_utc import duckdb_in_utc

# A batch's sum of `rows` over what it emitted, and over what the same windows were before.
Emitted = Mapping[int, tuple[int, int]]


def emitted_by_batch(
    gold: DeltaTable, changes: DeltaTable, state: GoldState, operator: Operator, query: str
) -> Emitted:
    """The sums of each batch since the last publish; none where a batch has no equation."""
    if operator.traits.equation is Equation.ALL:
        return of_all(emitted_rows(changes, query, state.changes))
    if operator.traits.equation is None or changes.version() <= state.changes:
        return {}
    return _of_changed(gold, changes, state, operator)


def of_all(sums: Mapping[int, int]) -> Emitted:
    """From the sum over all windows that each batch of a query noted: what came before is the
    batch before. The first known batch has none, unless it is the query's first."""
    batches = sorted(sums)
    before = {later: sums[earlier] for earlier, later in pairwise(batches)}
    known = batches if batches[:1] == [0] else batches[1:]
    return {batch: (sums[batch], before.get(batch, 0)) for batch in known}


def _of_changed(
    gold: DeltaTable, changes: DeltaTable, state: GoldState, operator: Operator
) -> Emitted:
    """Each window's rows less those of its emission before, or less gold's for the first one.

    Of one that failed gold has no row: less those of its newest failure that was published, or
    with which its generation began.
    """
    row = operator.identity
    with duckdb_in_utc() as connection:
        connection.register("changes", changes_between(changes, state.changes, changes.version()))
        connection.execute("CREATE TEMP TABLE emitted AS FROM changes WHERE cause = 'stream'")
        days = connection.execute("SELECT DISTINCT window_start::DATE FROM emitted").fetchall()
        dates = tuple(sorted(day for (day,) in days))
        if not dates:
            return {}
        connection.register("gold", dataset_of(gold, dates_predicate(dates)))
        connection.register("failing", failing_rows(changes, operator, state.generation))
        connection.execute(
            f"""
            CREATE TEMP TABLE failed AS SELECT {listed(row)}, max("rows") AS "rows" FROM failing
            WHERE cause IN ('stream', '{MIGRATION}') AND batch NOT IN (SELECT batch FROM emitted)
            GROUP BY ALL
            """
        )
        found = connection.execute(
            f"""
            SELECT batch, sum("rows")::BIGINT, sum(_before)::BIGINT FROM (
                SELECT c.batch, c."rows", coalesce(
                    lag(c."rows") OVER (PARTITION BY {listed(row, "c")} ORDER BY c.{VERSION}),
                    g."rows", f."rows", 0) AS _before
                FROM emitted c LEFT JOIN (SELECT {listed(row)}, "rows" FROM gold) g
                ON {same_row(operator, "c", "g")}
                LEFT JOIN failed f ON {same_row(operator, "c", "f")}
            ) GROUP BY batch
            """
        ).fetchall()
    return {batch: (now, before) for batch, now, before in found}
