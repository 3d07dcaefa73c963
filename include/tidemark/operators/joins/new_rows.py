"""What new rows of either side touch, and which of them the engine has dropped.

A row is late where its time is at or before the watermark that its batch ran by, whichever side it
is of (class StreamingSymmetricHashJoinExec, and seen). A row of the left side touches the windows
that it is in; one of the right side those of the left rows that it matches, whenever these came:
wrongly unmatched ones are among them.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pyarrow as pa

from tidemark.operators.joins.in_bronze import JoinIn, windows_given
from tidemark.operators.operator import InputTable
from tidemark.operators.touched import BatchCounts, BatchRead, Touched
from tidemark.operators.windows.in_duckdb import each_start, window_count
from tidemark.storage.delta.appended import appended_rows
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.duckdb_in_utc import arrow_of, duckdb_in_utc, one_number


def find_touched(
    joined: JoinIn,
    place: TablePlace,
    other: InputTable,
    name: str,
    batches: Sequence[BatchRead],
    frozen_before_ms: int | None,
    closed_ms: int,
) -> Touched:
    """The late rows of either side and what they touch (`Operator.touched`); `other` is the
    right side, which the batches call `name`."""
    counts: list[BatchCounts] = []
    windows: list[pa.Table] = []
    for batch in batches:
        with duckdb_in_utc() as connection:
            _register(connection, joined, place, other, name, batch)
            frontier = max(batch.late_ms, closed_ms)
            connection.execute(_touching(joined, batch, frontier))
            late = f"_at <= make_timestamptz({batch.watermark_ms * 1_000})"
            assigned = window_count("_at", joined.table.window)
            (left,) = connection.execute(
                f"""
                SELECT count(*), coalesce(sum({assigned}), 0)::BIGINT,
                    count(*) FILTER ({late}),
                    coalesce(sum({assigned}) FILTER ({late}), 0)::BIGINT,
                    (SELECT count(*) FROM left_added WHERE NOT ({joined.left.condition}))
                FROM new_left
                """
            ).fetchall()
            late_right = one_number(connection, f"SELECT count(*) FROM new_right WHERE {late}")
            closed = f"_start + {joined.length} <= {frontier * 1_000}"
            ((groups, closed_groups),) = connection.execute(
                f"""
                SELECT count(*) FILTER (_late), count(*) FILTER ({closed}) FROM (
                    SELECT _start{joined.listed_keys()}, bool_or(_late) AS _late
                    FROM touching GROUP BY ALL
                )
                """
            ).fetchall()
            counted, kept = "SELECT 0, 0", "true"
            if frozen_before_ms is not None:
                counted = _frozen(joined, frontier, frozen_before_ms * 1_000)
                kept = f"_start >= {frozen_before_ms * 1_000}"
            ((left_frozen, right_frozen),) = connection.execute(counted).fetchall()
            sql = f"""
                SELECT DISTINCT make_timestamptz(_start) AS window_start{joined.listed_keys()}
                FROM touching WHERE {closed} AND {kept}
            """
            found = arrow_of(connection.sql(sql))
        windows.append(found)
        counts.append(
            BatchCounts(
                batch=batch,
                rows=left[0],
                assigned=left[1],
                wholly_late=left[2] + late_right,
                partly_late=0,
                late_assigned=left[3],
                late_groups=groups,
                frozen=left_frozen + right_frozen,
                closed_groups=closed_groups,
                not_counted=left[4],
            )
        )
    asked = pa.concat_tables(windows) if windows else joined.empty()
    return Touched(tuple(counts), windows_given(joined, asked))


def _register(
    connection: duckdb.DuckDBPyConnection,
    joined: JoinIn,
    place: TablePlace,
    other: InputTable,
    name: str,
    batch: BatchRead,
) -> None:
    """The relations `new_left` and `new_right`."""
    left, right = joined.left.bronze, joined.right.bronze
    connection.register("left_added", appended_rows(left, place, batch.first, batch.last))
    first, last = batch.of(name)
    connection.register("right_added", appended_rows(right, other.place, first, last))
    connection.execute(
        f"CREATE TEMP TABLE new_left AS SELECT {joined.left_columns()} FROM left_added "
        f"WHERE {joined.left.condition}"
    )
    connection.execute(
        f"CREATE TEMP TABLE new_right AS SELECT {joined.right_columns()} FROM right_added"
    )
    ((low, high),) = connection.execute(
        "SELECT epoch_us(min(_at)), epoch_us(max(_at)) FROM new_right"
    ).fetchall()
    spans = [] if low is None else [(low - joined.high, high - joined.low)]
    connection.register("left_bronze", joined.left.rows_of(spans))


def _left(joined: JoinIn) -> str:
    return f"SELECT {joined.left_columns()} FROM left_bronze WHERE {joined.left.condition}"


def _frozen(joined: JoinIn, frontier_ms: int, frozen: int) -> str:
    """How many assignments of new rows go to windows that are closed, and start before `frozen`
    (microseconds): of the left side's rows, and of the pairs that the right side's make. One of
    these that can match nothing but such windows' rows is one: the rows may be gone."""
    start = each_start("_at", joined.table.window)
    is_frozen = f"_start + {joined.length} <= {frontier_ms * 1_000} AND _start < {frozen}"
    alone = f"epoch_us(_at) - ({joined.low}) < {frozen}"
    return f"""
        SELECT (SELECT count(*) FROM (SELECT {start} AS _start FROM new_left) WHERE {is_frozen}),
        (SELECT count(*) FROM new_right WHERE {alone}) + (
            SELECT count(*) FROM (
                SELECT {start} AS _start FROM (
                    SELECT l._at FROM ({_left(joined)}) l
                    JOIN (FROM new_right WHERE NOT ({alone})) r ON {joined.matches("l", "r")}
                )
            ) WHERE {is_frozen}
        )
    """


def _touching(joined: JoinIn, batch: BatchRead, frontier_ms: int) -> str:
    """The table `touching`: the windows that new rows touch, as far as the rows are late, or the
    windows closed."""
    watermark = f"make_timestamptz({batch.watermark_ms * 1_000})"
    start, keys = each_start("_at", joined.table.window), joined.listed_keys()
    # A query's first batch drops nothing, and nothing is closed: no match is looked for.
    nothing = not frontier_ms and not batch.watermark_ms
    asked = "false" if nothing else f"_late OR _start + {joined.length} <= {frontier_ms * 1_000}"
    return f"""
        CREATE TEMP TABLE touching AS SELECT DISTINCT * FROM (
            SELECT {start} AS _start{keys}, _at <= {watermark} AS _late FROM new_left
            UNION ALL
            SELECT {start} AS _start{keys}, _late FROM (
                SELECT l._at{joined.listed_keys("l")}, r._at <= {watermark} AS _late
                FROM ({_left(joined)}) l
                JOIN new_right r ON {joined.matches("l", "r")}
            )
        ) WHERE {asked}
    """
