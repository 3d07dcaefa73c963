"""What gold held, by the history of a generation, where gold itself is gone."""

from __future__ import annotations

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from tidemark.errors import MigrationRefused
from tidemark.gold.latest_verdict import latest_verdict_key
from tidemark.gold.row_values import latest, time_literal
from tidemark.operators.operator import Operator, listed
from tidemark.operators.repaired import BACKFILL, MIGRATION, NOT_OF_GOLD, SEAL
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
    """The rows before a time, with a `_commit_version` that puts those of one window in order.

    Maintenance packs files, and with the former ones their commits' feed goes. Then the rows tell:
    the stream's by their batch, before what was computed again; of that the one with more input
    rows is later, but where a backfill may have taken some away, or the row went. Where a row can
    fail again, each tells the batch after which it was said.
    """
    started = f"window_start < {time_literal(before_ms)}"
    same = listed(operator.identity)
    others = ", ".join(f"'{cause}'" for cause in NOT_OF_GOLD)
    with duckdb_in_utc() as connection:
        try:
            connection.register("found", changes_between(changes, -1, changes.version()))
            return pa.table(connection.sql(f"FROM found WHERE {started}").to_arrow_table())
        except (DeltaError, OSError, pa.ArrowException, duckdb.Error):
            connection.register("found", dataset_of(changes))
        connection.execute(
            f"""
            CREATE TEMP TABLE ranked AS
            SELECT *, cause NOT IN ('stream', '{MIGRATION}') AS _again FROM found WHERE {started}
            """
        )
        said = latest_verdict_key(operator, "r")
        values = listed((*operator.values, FAILURE), "r")
        unknown = "count(DISTINCT _value) FILTER (_again AND _last = 1) > 1"
        if operator.traits.fails_again:
            # From before what was computed told the batch after which it was.
            unknown += " OR count(*) > 1 AND bool_or(_again AND batch IS NULL)"
        else:
            taken = f"""cause = '{BACKFILL}' OR "rows" = 0"""
            unknown += f" OR count(*) FILTER (_again) > 1 AND bool_or(_again AND ({taken}))"
        ((unordered,),) = connection.execute(
            f"""
            SELECT count(*) FROM (
                FROM (
                    FROM ranked r SELECT *, ({values}) AS _value,
                        rank() OVER (PARTITION BY {same}, _again ORDER BY {said} DESC) AS _last
                    WHERE cause NOT IN ({others})
                ) SELECT {same} GROUP BY {same} HAVING {unknown}
            )
            """
        ).fetchall()
        if unordered:
            raise MigrationRefused(
                f"Gold is gone, and of {unordered:,} windows nobody can tell any more which of the "
                f"values in {changes.table_uri} was the last: one went, a backfill is among "
                "them, two are of as many rows, or one does not tell its batch; and the commits "
                "that would tell were removed by maintenance. Bronze has no rows of windows before "
                f"{instant_text(before_ms)} any more (`keep`). Nothing was written. Restore gold "
                "from a backup; or move that history away too, and these windows are gone."
            )
        order = f"_again, batch NULLS FIRST, {said}"
        if operator.traits.fails_again:
            order = f"batch NULLS FIRST, _again, {said}"
        rows = connection.sql(
            f"""
            SELECT * EXCLUDE (_again), row_number() OVER (
                PARTITION BY {same} ORDER BY {order}) AS {VERSION}
            FROM ranked r
            """
        ).to_arrow_table()
        return pa.table(rows)
