"""Which rows of a table are touched where lookups say something else than gold was computed with.

Found by the keys whose rows of a lookup differ, and the times at which these hold: of bronze only
rows with such a key are read, in files that can have some, and only their keys and times. A row of
gold is touched where such a row of bronze is in it now, or was: it may be gone. So is what waits
for its publish: a run that was not published may have computed it with another copy.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable

from tidemark.gold.plan import GoldState
from tidemark.gold.row_values import latest_pending
from tidemark.operators.bronze_rows import BronzeRows
from tidemark.operators.keys import column_named
from tidemark.operators.lookups import (
    FROM,
    TO,
    LookedUp,
    LookupCopy,
    columns_by_name,
    copy_of_number,
    input_of,
    register_copy,
)
from tidemark.operators.operator import Operator, listed
from tidemark.pipeline.expressions.sql import names_read
from tidemark.pipeline.instants import instant_of
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.history import schema_of
from tidemark.storage.duckdb_in_utc import arrow_of, distinct_rows, duckdb_in_utc

_TIME = pa.timestamp("us", "UTC")
# Former copies have times outside of these, which Python has none for.
_FIRST = "TIMESTAMPTZ '0001-01-01 00:00:00+00'"
_LAST = "TIMESTAMPTZ '9999-12-31 23:59:59.999999+00'"
# The year 1653: nothing that a pipeline reads ended before.
_BEFORE_ALL_MS = -10_000_000_000_000


def touched_by_lookups(
    rows: BronzeRows,
    gold: DeltaTable,
    changes: DeltaTable,
    state: GoldState,
    before_ms: int,
    after_ms: int,
    frozen_before_ms: int | None,
) -> pa.Table:
    """What is to be computed again, as `Touched.closed`; `rows` have the newest copies. Gold is
    closed up to `before_ms` now, and will be up to `after_ms`."""
    operator = rows.operator
    columns = pa.schema([schema_of(gold).field(name) for name in operator.located])
    noted = {name: state.inputs[input_of(name)] for name in operator.lookups}
    if all(one.copied.number == noted[name] for name, one in operator.lookups.items()):
        return columns.empty_table()
    pending = _pending(changes, state, operator, after_ms)
    parts = [_kept(rows, pending, after_ms, frozen_before_ms)]
    if max(noted.values()) >= 0:
        known = _by_both(rows, noted)
        if known is None:
            # Which rows they were is not known, so that all may be others now.
            last = instant_of(rows.newest_end_ms())
            everything = rows.ending(instant_of(_BEFORE_ALL_MS), last)
            known = [everything] if everything is not None else []
            known.append(dataset_of(gold).to_table(columns=list(operator.located)))
        parts += [_kept(rows, one, before_ms, frozen_before_ms) for one in known]
    return distinct_rows(pa.concat_tables([one.cast(columns) for one in parts]))


def _pending(changes: DeltaTable, state: GoldState, operator: Operator, after_ms: int) -> pa.Table:
    """What the next publish takes that was computed before this run; what went by it too, for a
    lookup that was changed and changed back may bring it again."""
    with duckdb_in_utc() as connection:
        latest_pending(connection, changes, state, operator, after_ms)
        sql = f"SELECT {listed(operator.located)} FROM latest"
        return arrow_of(connection.sql(sql))


def _kept(
    rows: BronzeRows, found: pa.Table, closed_ms: int, frozen_before_ms: int | None
) -> pa.Table:
    """Without frozen ones; where gold shows only what is closed, without the others."""
    if frozen_before_ms is not None:
        first = pa.scalar(rows.operator.first_kept_start(frozen_before_ms), _TIME)
        found = found.filter(pc.greater_equal(found.column("window_start").cast(_TIME), first))
    if rows.operator.table.recomputes_open:
        return found
    ends = rows.ends(found)
    return found.filter(pc.less_equal(ends, pa.scalar(instant_of(closed_ms), _TIME)))


def _by_both(rows: BronzeRows, noted: dict[str, int]) -> list[pa.Table] | None:
    """The rows of the table that touched rows of bronze are in, by the copies of before and by
    those of now; None where a copy of before is not to be had, or is of another definition."""
    operator, copies = rows.operator, dict[str, LookupCopy]()
    for name, one in operator.lookups.items():
        same = one.copied.number == noted[name]
        before = one.copied if same else copy_of_number(one.copied.place, noted[name])
        if before is None or not _comparable(before, one):
            return None
        copies[name] = before
    former = operator.with_copies(copies).rows_in(rows.bronze)
    touched = [*_touched_rows(rows, copies)]
    return [of.holding(part) for part in touched for of in (former, rows) if part.num_rows]


def _comparable(before: LookupCopy, now: LookedUp) -> bool:
    """Were both copied by the same keys and times, and do they have the same columns?"""
    keys = [now.key_column(place) for place in range(len(now.lookup.on))]
    kept, asked = schema_of(before.table), schema_of(now.copied.table)
    return before.is_of(now.lookup) and all(kept.field(key) == asked.field(key) for key in keys)


def _touched_rows(rows: BronzeRows, before: dict[str, LookupCopy]) -> Iterator[pa.Table]:
    """Of each lookup the rows of bronze for which it says something else than before."""
    operator = rows.operator
    for name, now in operator.lookups.items():
        if before[name].number == now.copied.number:
            continue
        was = LookedUp(now.lookup, now.keys, before[name])
        with duckdb_in_utc() as connection:
            register_copy(connection, "before_all", was)
            register_copy(connection, "now_all", now)
            connection.execute(
                """
                CREATE TEMP TABLE differing AS
                (FROM before_all EXCEPT FROM now_all)
                UNION ALL (FROM now_all EXCEPT FROM before_all)
                """
            )
            candidates = _with_keys(connection, rows, now)
            if candidates is not None:
                connection.register("candidates", candidates)
                yield arrow_of(connection.sql(_differing(operator, now, rows)))


def _with_keys(
    connection: duckdb.DuckDBPyConnection, rows: BronzeRows, one: LookedUp
) -> pa.RecordBatchReader | None:
    """The rows of bronze that can have a differing key, within the times in which these hold: in
    the columns that tell where in the table they are. None where no key differs."""
    first_key = one.key_column(0)
    of_keys = connection.sql(f"SELECT DISTINCT {first_key} FROM differing").to_arrow_table()
    if not of_keys.num_rows:
        return None
    schema = schema_of(rows.bronze)
    event_time = column_named(schema, rows.operator.event_time).name
    named = _read_of_bronze(rows.operator, schema)
    columns = columns_by_name(schema, one.lookup.on)
    ours = next(iter(one.lookup.on))
    if ours not in columns:
        return None
    key, keys = ds.field(columns[ours]), of_keys.column(0).combine_chunks()
    keys = keys.cast(schema.field(columns[ours]).type)
    wanted = (key >= pc.min(keys)) & (key <= pc.max(keys)) & key.isin(keys)
    dates = None
    if one.lookup.as_of:
        ((first, last, open_end),) = connection.execute(
            f"SELECT least(greatest(min({FROM}), {_FIRST}), {_LAST}), "
            f"greatest(max({TO}) FILTER ({TO} <= {_LAST}), {_FIRST}), bool_or({TO} > {_LAST}) "
            "FROM differing"
        ).fetchall()
        wanted &= ds.field(event_time) >= pa.scalar(first, _TIME)
        dates = f"_event_date >= DATE '{first.date()}'"
        if not open_end:
            wanted &= ds.field(event_time) < pa.scalar(last, _TIME)
            dates = f"{dates} AND _event_date <= DATE '{last.date()}'"
    known = dataset_of(rows.bronze, dates)
    return known.scanner(columns=named, filter=wanted).to_reader()


def _read_of_bronze(operator: Operator, schema: pa.Schema) -> list[str]:
    """The columns by which it is told where in the table a row of bronze is."""
    lookups = operator.lookups.values()
    asked = [operator.event_time, *(ours for one in lookups for ours in one.lookup.on)]
    from_lookups = {key for one in lookups for key in one.keys}
    asked += [key for key in operator.table.group_by if key not in from_lookups]
    asked += [parts[0] for parts in names_read(operator.table.where or "true")]
    return list(dict.fromkeys(columns_by_name(schema, asked).values()))


def _differing(operator: Operator, one: LookedUp, rows: BronzeRows) -> str:
    """The candidates for which the two copies have other values, or one alone has any."""
    schema = schema_of(rows.bronze)
    columns = columns_by_name(schema, one.lookup.on)
    event_time = column_named(schema, operator.event_time).name
    keys = ", ".join(one.key_column(place) for place in range(len(one.lookup.on)))
    values = ["_found", *(f'"{name}"' for name in one.lookup.columns)]
    of = {side: one.same_keys("c", side, event_time, columns) for side in ("b", "n")}
    other = " OR ".join(f"b.{value} IS DISTINCT FROM n.{value}" for value in values)
    return f"""
        WITH keys AS (SELECT DISTINCT {keys} FROM differing),
            was AS (FROM before_all SEMI JOIN keys USING ({keys})),
            now AS (FROM now_all SEMI JOIN keys USING ({keys}))
        SELECT c.* FROM candidates c LEFT JOIN was b ON {of["b"]} LEFT JOIN now n ON {of["n"]}
        WHERE {other}
    """
