"""Which rows came too late for the stream of sessions, and which sessions they touch.

The engine drops a row that lies a gap or more behind the watermark, whether its session is open or
not (class SessionWindowStateStoreRestoreExec and its watermark predicate, and seen): the frontier
of a batch is that watermark less the gap, or the close frontier where that is further.

A row in time can touch a session too, which the engine has emitted and which is not closed: what
gold holds of these is held against bronze (`gold/to_compute.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.operators.sessions.in_bronze import SessionsIn, sessions_of
from tidemark.operators.touched import BatchCounts, BatchRead, Touched
from tidemark.storage.delta.appended import appended_rows
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.duckdb_in_utc import arrow_of, duckdb_in_utc


def find_late_rows(
    rows: SessionsIn,
    place: TablePlace,
    batches: Sequence[BatchRead],
    late_us: Sequence[int],
    frozen_before_ms: int | None,
    closed_ms: int,
) -> Touched:
    """The late rows and what they touch (`Operator.touched`); what is to be computed again are
    sessions as bronze gives them. `late_us` is up to where rows are late, for each batch."""
    if not batches:
        return Touched((), sessions_of(rows, rows.no_points()))
    keys, frozen_us = rows.listed_keys(), (frozen_before_ms or 0) * 1_000
    totals: list[tuple[int, int]] = []
    with duckdb_in_utc() as connection:
        for number, (batch, late) in enumerate(zip(batches, late_us, strict=True)):
            connection.register("batch", appended_rows(rows.bronze, place, batch.first, batch.last))
            connection.execute(_near(rows, number, late, closed_ms))
            totals += connection.execute(
                f"SELECT count(*) FILTER ({rows.condition}), "
                f"count(*) FILTER (NOT ({rows.condition})) FROM batch"
            ).fetchall()
        every = " UNION ALL ".join(f"FROM near_{number}" for number in range(len(batches)))
        points = arrow_of(connection.sql(f"SELECT DISTINCT {keys}, _t FROM ({every})"))
        connection.register("sessions", sessions_of(rows, points))
        # Of which rows, of which sessions.
        session = f"(s.window_start, {rows.listed_keys('s')})"
        counted = connection.execute(
            f"""
            SELECT n._batch, count(*) FILTER (n._late),
                count(DISTINCT {session}) FILTER (n._late),
                count(*) FILTER (n._late AND epoch_us(s.window_start) < {frozen_us}),
                count(DISTINCT {session})
            FROM ({every}) n JOIN sessions s ON {rows.same_key("n", "s")}
                AND n._t >= epoch_us(s.window_start)
                AND n._t <= epoch_us(s.window_end) - {rows.gap}
            GROUP BY n._batch
            """
        ).fetchall()
        sql = f"""
            SELECT window_start, {keys}, window_end, "rows" FROM sessions
            WHERE epoch_us(window_start) >= {frozen_us}
        """
        kept = arrow_of(connection.sql(sql))
    found = {number: counts for number, *counts in counted}
    counts = tuple(
        _counts(batch, totals[number], found.get(number, [0, 0, 0, 0]))
        for number, batch in enumerate(batches)
    )
    return Touched(counts, kept)


def _near(rows: SessionsIn, number: int, late: int, closed_ms: int) -> str:
    """The batch's rows that touch what is closed by now: is each late?"""
    # Nothing is closed up to 0, and a row may lie there.
    closed = max(late, closed_ms * 1_000) if closed_ms else late
    return f"""
        CREATE TEMP TABLE near_{number} AS
        SELECT {number} AS _batch, {rows.listed_keys()}, _t, _t <= {late} AS _late
        FROM (
            SELECT {rows.selected_keys()}, epoch_us("{rows.event_time}") AS _t FROM batch
            WHERE {rows.condition}
        ) WHERE _t <= {closed}
    """


def _counts(batch: BatchRead, totals: tuple[int, int], found: Sequence[int]) -> BatchCounts:
    (total, not_counted), (late, groups, frozen, closed) = totals, found
    return BatchCounts(
        batch=batch,
        rows=total,
        assigned=total,
        wholly_late=late,
        partly_late=0,
        late_assigned=late,
        late_groups=groups,
        frozen=frozen,
        closed_groups=closed,
        not_counted=not_counted,
    )
