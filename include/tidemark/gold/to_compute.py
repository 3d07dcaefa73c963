"""What a table's repair has to compute again from bronze: found without Spark.

What late rows touch, and what of the windows that the stream leaves out is due; of a table that
shows what is open without a stream, what else new rows touch. Where a kind of
operator emits what can differ from bronze (`Operator.checks_emitted`), all that stands in `changes`
since the last publish is held against bronze too, and what gold holds that is not closed: by their
bounds and `rows`. Rows of bronze are only added, so equal bounds and numbers are equal rows. Not so
where rows were deleted by hand and landed again: what late rows touch is computed in any case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from tidemark.gold.excluded import Excluded
from tidemark.gold.failing import failing_known, other_rows
from tidemark.gold.looked_up import touched_by_lookups
from tidemark.gold.plan import GoldState
from tidemark.gold.row_values import counts_at_close, latest_pending, open_dates, time_literal
from tidemark.operators.bronze_rows import BronzeRows
from tidemark.operators.operator import Operator, listed, same_row
from tidemark.operators.repaired import APART, NOT_OF_GOLD
from tidemark.operators.touched import NEVER_MS, BatchCounts, BatchRead
from tidemark.pipeline.instants import instant_of
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.history import schema_of
from tidemark.storage.duckdb_in_utc import answer, arrow_of, distinct_rows, duckdb_in_utc


@dataclass(frozen=True)
class Frontiers:
    """In milliseconds, UTC: how far gold is closed, how far the query has closed rows
    (`Run.closed_ms`), the seal frontier (0: no seal), and what is frozen (None: nothing). `emits`
    is false where the query emits nothing (`Table.recomputes`)."""

    before_ms: int
    closed_ms: int
    seal_ms: int
    frozen_before_ms: int | None
    emits: bool = True

    @property
    def reached_ms(self) -> int:
        """How far gold will be closed without a seal."""
        return max(self.before_ms, self.closed_ms)

    @property
    def open_after_ms(self) -> int:
        """The frontier that the stream itself reached: what ends later, it may not have emitted."""
        return self.reached_ms if self.emits else self.before_ms

    @property
    def after_ms(self) -> int:
        """How far gold will be closed."""
        return max(self.reached_ms, self.seal_ms)

    def emitted_to_ms(self, operator: Operator) -> int:
        """Up to which end nothing is left in the query's state."""
        emitted = operator.traits.emitted_to_ms(self.closed_ms) if self.emits else 0
        return max(emitted, self.before_ms)


@dataclass(frozen=True)
class ToCompute:
    """The counts of the batches; what is to be computed again, and of that `alone` what may fail a
    query over others, `opened` what is open: all as `Touched.closed`. `detached`: what is to be
    noted as such (`detached_rows`); None: nothing. `looked_up`: what lookups touch besides."""

    batches: tuple[BatchCounts, ...]
    rows: pa.Table
    alone: pa.Table
    opened: pa.Table
    detached: pa.Table | None = None
    looked_up: pa.Table | None = None


def to_compute(
    excluded: Excluded,
    gold: DeltaTable,
    changes: DeltaTable,
    state: GoldState,
    batches: Sequence[BatchRead],
    at: Frontiers,
) -> ToCompute:
    """For a table whose query has read `batches` since its last publish. Only reads."""
    operator, rows, place = excluded.operator, excluded.rows, excluded.place
    nothing_new = not batches and changes.version() <= state.changes
    if operator.traits.checks_emitted and not (nothing_new and at.after_ms <= at.before_ms):
        touched = rows.touched(place, batches, at.frozen_before_ms, at.before_ms)
        due, detached = touched.closed, None
        if operator.traits.detaches_rows:
            noted = detached_rows(changes, operator, state.generation, at.before_ms)
            due = pa.concat_tables([due, rows.rows_in_bronze(noted).cast(due.schema)])
            detached = to_note(due, noted, operator, at.open_after_ms)
        found = _unlike_bronze(excluded, gold, changes, state, due, at)
        nothing = found.slice(0, 0)
        return ToCompute(excluded.counted(touched.batches), found, nothing, nothing, detached)
    if operator.lookups:
        rows.look_ahead(place, batches, at.before_ms, at.after_ms)
    due = excluded.due(batches, at.frozen_before_ms, at.before_ms, at.open_after_ms)
    looked_up = None
    if operator.lookups:
        found = touched_by_lookups(
            rows, gold, changes, state, at.before_ms, at.after_ms, at.frozen_before_ms
        )
        looked_up = other_rows(found, due, operator)
    if not batches:
        nothing = due.slice(0, 0)
        return ToCompute((), nothing, due, nothing, looked_up=looked_up)
    touched = rows.touched(place, batches, at.frozen_before_ms, at.before_ms)
    late, opened = other_rows(touched.closed, due, operator), due.slice(0, 0)
    if operator.table.recomputes_open:
        every = rows.touched(place, batches, at.frozen_before_ms, NEVER_MS).closed
        opened = other_rows(other_rows(every, late, operator), due, operator)
    if looked_up is not None:
        looked_up = other_rows(other_rows(looked_up, late, operator), opened, operator)
    return ToCompute(excluded.counted(touched.batches), late, due, opened, looked_up=looked_up)


def _unlike_bronze(
    excluded: Excluded,
    gold: DeltaTable,
    changes: DeltaTable,
    state: GoldState,
    touched: pa.Table,
    at: Frontiers,
) -> pa.Table:
    """Rows as bronze gives them that are known otherwise, or not at all though the query is past
    them, and known ones that late rows touch; rows of before `frozen_before_ms` stay as they are.
    """
    operator, in_bronze = excluded.operator, excluded.rows
    names = [*operator.located, "rows"]
    with duckdb_in_utc() as connection:
        latest_pending(connection, changes, state, operator, at.after_ms)
        failing_known(connection, changes, operator, state.generation, at.after_ms)
        due = _excluded_and_due(connection, excluded, changes, at)
        looked_at = _looked_at(connection, operator, gold, due, at)
        connection.register("touched_rows", touched)
        connection.register("given", in_bronze.rows_in_bronze(looked_at))
        connection.register("closing", _closing(excluded, at, touched))
        frozen = at.frozen_before_ms
        kept = "true" if frozen is None else f"window_start >= {time_literal(frozen)}"
        connection.execute(
            f"""
            CREATE TEMP TABLE candidates AS SELECT {listed(names)}, bool_or(_late) AS _late FROM (
                SELECT {listed(names)}, true AS _late FROM touched_rows
                UNION ALL SELECT {listed(names)}, false FROM given
                UNION ALL SELECT {listed(names)}, false FROM closing
            ) WHERE {kept} GROUP BY ALL
            """
        )
        found = arrow_of(connection.sql(f"SELECT {listed(names)} FROM candidates"))
        if not found.num_rows:
            return found
        _known(connection, gold, in_bronze, found)
        known = arrow_of(connection.sql("FROM known"))
        if (unlike := in_bronze.unlike(known, found)) is not None:
            connection.register("unlike", unlike)
            columns = listed(names)
            sql = f"SELECT {columns} FROM unlike UNION SELECT {columns} FROM touched_rows"
            sql = f"{sql} WHERE {kept}"
            return arrow_of(connection.sql(sql))
        return arrow_of(connection.sql(_differing(in_bronze, at.emitted_to_ms(operator))))


def _closing(excluded: Excluded, at: Frontiers, touched: pa.Table) -> pa.Table:
    """What bronze gives of all that the stream has closed, where it may have emitted none of it."""
    if not excluded.operator.traits.checks_closing or at.open_after_ms <= at.before_ms:
        return touched.slice(0, 0)
    first = instant_of(at.before_ms) + timedelta(microseconds=1)
    found = excluded.rows.ending(first, instant_of(at.open_after_ms))
    assert found is not None
    return found


def _excluded_and_due(
    connection: duckdb.DuckDBPyConnection, excluded: Excluded, changes: DeltaTable, at: Frontiers
) -> pa.Table:
    """What closes now of the rows that the stream leaves out, by where they ended when they were
    set aside; and those of which nothing was said since: they have grown past that end, and what
    a former run closed, by a seal maybe, was between both. Not so where all that closes is held
    against bronze anyway."""
    operator = excluded.operator
    if operator.traits.checks_closing:
        return excluded.ending_in(at.before_ms, at.after_ms)
    ended = excluded.ending_in(0, at.after_ms)
    closes = f"window_end > {time_literal(at.before_ms)}"
    connection.register("ended", ended)
    unsaid = _not_in(connection, "ended", "failing_known", operator)
    if unsaid.num_rows:
        others = ", ".join(f"'{cause}'" for cause in NOT_OF_GOLD)
        connection.register("unsaid", unsaid)
        connection.register("history", dataset_of(changes, f"cause NOT IN ({others})"))
        # What an unpublished seal said may have been passed over.
        said = f"h.cause NOT IN ({others}) AND {counts_at_close(at.before_ms, 'h')}"
        unsaid = _not_in(connection, "unsaid", "history", operator, said)
    connection.register("never_said", unsaid)
    found = connection.sql(f"SELECT * FROM ended WHERE {closes} UNION FROM never_said")
    return arrow_of(found, ended.schema)


def _not_in(
    connection: duckdb.DuckDBPyConnection,
    rows: str,
    history: str,
    operator: Operator,
    condition: str = "true",
) -> pa.Table:
    same = f"{same_row(operator, 'r', 'h')} AND {condition}"
    return arrow_of(
        connection.sql(f"SELECT * FROM {rows} r WHERE NOT EXISTS (FROM {history} h WHERE {same})")
    )


def _looked_at(
    connection: duckdb.DuckDBPyConnection,
    operator: Operator,
    gold: DeltaTable,
    due: pa.Table,
    at: Frontiers,
) -> pa.Table:
    """What is held against bronze: what waits for its publish, what is open in gold or closes as
    failing, and of the excluded windows those that are due."""
    identity = listed(operator.identity)
    opened = f"window_end > {time_literal(at.before_ms)}"
    days = open_dates(gold, at.before_ms)
    connection.register("open_gold", dataset_of(gold, days))
    connection.register("due", due)
    found = connection.sql(
        f"""
        SELECT {identity} FROM latest WHERE "rows" > 0
        UNION SELECT {identity} FROM open_gold WHERE {opened}
        UNION SELECT {identity} FROM failing_known WHERE {opened}
        UNION SELECT {identity} FROM due
        """
    )
    return arrow_of(found)


def _known(
    connection: duckdb.DuckDBPyConnection, gold: DeltaTable, in_bronze: BronzeRows, found: pa.Table
) -> None:
    """The table `known`: the newest known rows near what was found, failing ones among them."""
    operator, covered = in_bronze.operator, in_bronze.covered(found)
    connection.register("gold", dataset_of(gold, covered.dates if covered else None))
    names = listed([*operator.located, "rows"])
    connection.execute(
        f"""
        CREATE TEMP TABLE known AS
        SELECT {names} FROM latest WHERE "rows" > 0
        UNION ALL SELECT {names} FROM (
            SELECT {names} FROM gold
            UNION ALL SELECT {names} FROM failing_known f
            WHERE NOT EXISTS (FROM gold h WHERE {same_row(operator, "h", "f")})
        ) g WHERE NOT EXISTS (SELECT 1 FROM latest l WHERE {same_row(operator, "g", "l")})
        """
    )


def _differing(in_bronze: BronzeRows, emitted_to_ms: int) -> str:
    """Candidates that are not known as they are, that late rows touch, or that overlap with others
    that are known. One that nobody knows is still in the query's state, where the query is not past
    it, or closes later."""
    operator = in_bronze.operator
    names = [*operator.located, "rows"]
    same = same_row(operator, "k", "c")
    values = [name for name in names if name not in operator.identity]
    equal = " AND ".join(f'k."{name}" = c."{name}"' for name in values)
    return f"""
        SELECT {listed(names)} FROM (
            SELECT {listed(names, "c")}, c._late, count(k."rows") AS _near,
                coalesce(bool_or(k."rows" IS NOT NULL AND {same} AND {equal}), false) AS _equal,
                coalesce(bool_or(k."rows" IS NOT NULL AND NOT ({same})), false) AS _others
            FROM candidates c LEFT JOIN known k ON {in_bronze.starts_in("k", "c")}
            GROUP BY {listed(names, "c")}, c._late
        ) WHERE _others OR (
            (_late OR NOT _equal) AND (_near > 0 OR window_end <= {time_literal(emitted_to_ms)})
        )
    """


def detached_rows(
    changes: DeltaTable, operator: Operator, generation: int, after_ms: int
) -> pa.Table:
    """Rows that are detached from the stream: what is noted as such in a generation and ends after
    this, where it was noted, in the columns of `Operator.located`. Files without such a row are
    left out by their statistics.

    They are open ones of which the stream's state is not what bronze gives. Where an operator keeps
    on from a state that lacks a late row (`Traits.detaches_rows`), nothing that it emits of that
    row of gold is right, and what it does not emit is not to be seen. So `changes` has a row of
    cause `apart` of each that a late row touched while it was open, before the publish that takes
    the late row along: from then on each run computes it from bronze, until it is closed. One that
    grows or merges is noted again. Such a row says nothing of gold, as one of cause `failed`. A
    later generation's query reads the late rows with all others, so that nothing of it is detached.
    """
    names = list(operator.located)
    if not operator.traits.detaches_rows:
        return schema_of(changes).empty_table().select(names)
    found: Any = dataset_of(changes, f"cause = '{APART}'")
    noted = (ds.field("cause") == APART) & (ds.field("generation") == generation)
    rows = found.to_table(
        columns=names, filter=noted & (ds.field("window_end") > instant_of(after_ms))
    )
    return distinct_rows(pa.table(rows))


def to_note(found: pa.Table, noted: pa.Table, operator: Operator, closed_ms: int) -> pa.Table:
    """Of what bronze gives, what is open behind this frontier and not noted as it is."""
    names = listed(operator.located)
    same = " AND ".join(f'f."{name}" IS NOT DISTINCT FROM n."{name}"' for name in operator.located)
    opened = found.filter(ds.field("window_end") > instant_of(closed_ms))
    sql = f'SELECT DISTINCT {names}, "rows" FROM found f ANTI JOIN noted n ON {same}'
    schema = found.select([*operator.located, "rows"]).schema
    return answer(sql, schema, found=opened, noted=noted)
