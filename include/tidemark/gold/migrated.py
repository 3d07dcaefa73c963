"""The rows of gold's next generation: pure SQL over what bronze gives and what gold held before.

A closed row that stood in gold with the same values keeps its status and revision; only columns
that both generations have are compared, so a new measure is no correction. One whose values differ
is corrected. One that has no predecessor is final, of revision 0, as each row that gold sees first.

Rows that are frozen (`keep`) are not computed: bronze may have lost rows of theirs. They stay with
the values that mean what they meant, and null in the others; all of them go where rows of the next
generation are others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
from pyarrow.dataset import Dataset

from tidemark.gold.compared import Compared
from tidemark.gold.row_values import same, time_literal
from tidemark.gold.state import PROVISIONAL
from tidemark.operators.operator import Operator, listed, same_row
from tidemark.storage.delta.history import FAILURE
from tidemark.storage.duckdb_in_utc import arrow_of, duckdb_in_utc

_EXAMPLES = 3


@dataclass(frozen=True)
class Former:
    """Gold before a migration: all its rows, and its columns by those of the next generation.

    `identity` (None: the rows are others), `values` that can be compared, `kept` those that mean
    what they meant. `other_types`: some value has become one that cannot be compared, so that each
    row differs."""

    rows: Dataset | pa.Table
    identity: Mapping[str, str] | None
    values: Mapping[str, str]
    kept: frozenset[str]
    other_types: bool = False


@dataclass(frozen=True)
class NextGold:
    """What gold is to hold: its columns, its operator, and up to where it is closed.

    Rows that start before `frozen_before_ms` were not computed.
    """

    schema: pa.Schema
    operator: Operator
    close_ms: int
    frozen_before_ms: int | None
    run_id: str


@contextmanager
def migrated_windows(
    former: Former, computed: pa.Table, to: NextGold
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection in UTC with two tables: `before`, what gold held, by the next generation's
    names where rows are the same; and `written`, all rows that gold is to hold, in its columns.

    `computed` has identity, values and FAILURE. `_gone` is false in `written`; `_seen` is what a
    row counts as in `Compared`.
    """
    with duckdb_in_utc() as connection:
        connection.register("computed", computed)
        connection.register("former", former.rows)
        connection.execute(f"CREATE TEMP TABLE before AS {_before(former, to)}")
        connection.execute(f"CREATE TEMP TABLE written AS {_written(former, to)}")
        yield connection


def compared(connection: duckdb.DuckDBPyConnection, former: Former, to: NextGold) -> Compared:
    """The numbers of `migrated_windows`."""
    counts = "SELECT _seen, count(*) FROM written GROUP BY 1"
    found = dict(connection.execute(counts).fetchall())
    ((failing,),) = connection.execute(
        f'SELECT count(*) FROM computed WHERE "{FAILURE}" IS NOT NULL'
    ).fetchall()
    gone = "SELECT count(*) FROM former"
    if former.identity is not None:
        same = same_row(to.operator, "b", "w")
        gone = f"SELECT count(*) FROM before b ANTI JOIN written w ON {same}"
    ((went,),) = connection.execute(gone).fetchall()
    examples = tuple(_examples(connection, to)) if "corrected" in found else ()
    return Compared(**found, failing=failing, gone=went, examples=examples)


def _examples(connection: duckdb.DuckDBPyConnection, to: NextGold) -> Iterator[str]:
    """The first corrected rows, as the changed values say it."""
    operator = to.operator
    names = [*operator.identity, *(name for name in operator.values if name != "window_end")]
    before = ", ".join(f'b."{name}" AS "before {name}"' for name in names)
    rows = connection.sql(
        f"""
        SELECT {listed(names, "w")}, {before} FROM written w JOIN before b
        ON {same_row(operator, "w", "b")} WHERE w._seen = 'corrected'
        ORDER BY {listed(operator.identity, "w")} LIMIT {_EXAMPLES}
        """
    ).to_arrow_table()
    for row in rows.to_pylist():
        yield ": ".join(told_row(row, operator, names[len(operator.identity) :]))


def told_row(row: Mapping[str, Any], operator: Operator, names: Sequence[str]) -> tuple[str, str]:
    """For people, which row it is, and which of these values are others than `before NAME`."""
    keys = [str(row[name]) for name in operator.identity[1:]]
    values = [
        f"{name} {row[f'before {name}']} → {row[name]}"
        for name in names
        if row[name] != row[f"before {name}"]
    ]
    where = " ".join([f"{row['window_start']:%Y-%m-%dT%H:%M:%SZ}", *keys])
    return where, ", ".join(values)


def rows_of(connection: duckdb.DuckDBPyConnection, to: NextGold) -> pa.Table:
    """All rows that gold is to hold."""
    sql = f"SELECT {listed(to.schema.names)} FROM written ORDER BY {listed(to.operator.identity)}"
    return arrow_of(connection.sql(sql), to.schema)


def _before(former: Former, to: NextGold) -> str:
    """Gold's rows by the new names; none where they are others."""
    of_publish = ("status", "revision", "updated_by", "window_date")
    if former.identity is None:
        none = ", ".join(f'NULL AS "{name}"' for name in to.schema.names)
        return f"SELECT {none} LIMIT 0"
    names = {**former.identity, **former.values, **{name: name for name in of_publish}}
    columns = [
        f'"{names[name]}" AS "{name}"' if name in names else f'NULL AS "{name}"'
        for name in to.schema.names
    ]
    return f"SELECT {', '.join(columns)} FROM former"


def _written(former: Former, to: NextGold) -> str:
    operator = to.operator
    compare = [name for name in operator.values if name in former.values]
    known = compare and not former.other_types
    same = " AND ".join(_same(name, former, to) for name in compare) if known else "false"
    values = listed((*operator.identity, *operator.values))
    columns = listed(to.schema.names)
    close = time_literal(to.close_ms)
    computed = f"""
        SELECT {values}, status, revision, updated_by, window_start::DATE AS window_date,
            CASE WHEN status = '{PROVISIONAL}' THEN 'open' WHEN _corrects THEN 'corrected'
                WHEN _known THEN 'same' ELSE 'first_seen' END AS _seen
        FROM (
            SELECT *,
                CASE WHEN window_end > {close} THEN '{PROVISIONAL}'
                    WHEN _corrects OR _status = 'corrected' THEN 'corrected'
                    ELSE 'final' END AS status,
                _revision + _corrects::BIGINT AS revision,
                CASE WHEN _same THEN _updated_by ELSE '{_quoted(to.run_id)}' END AS updated_by
            FROM (
                SELECT {listed((*operator.identity, *operator.values), "n")},
                    b."rows" IS NOT NULL AS _known, b.status AS _status,
                    coalesce(b.revision, 0)::BIGINT AS _revision, b.updated_by AS _updated_by,
                    b."rows" IS NOT NULL AND ({same}) AS _same,
                    b."rows" IS NOT NULL AND NOT ({same}) AND b.status <> '{PROVISIONAL}'
                        AND n.window_end <= {close} AS _corrects
                FROM computed n LEFT JOIN before b ON {same_row(operator, "n", "b")}
                WHERE n."{FAILURE}" IS NULL
            )
        )
    """
    found = f"SELECT {columns}, false AS _gone, _seen FROM ({computed})"
    if to.frozen_before_ms is None or former.identity is None:
        return found
    kept = ", ".join(
        f'"{name}"' if name not in operator.values or name in former.kept else f'NULL AS "{name}"'
        for name in to.schema.names
    )
    return f"""{found} UNION ALL
        SELECT {kept}, false AS _gone, 'frozen' AS _seen FROM before
        WHERE window_start < {time_literal(to.frozen_before_ms)}
    """


def _same(name: str, former: Former, to: NextGold) -> str:
    """The condition that the rows `n` and `b` have the same value, of types that may differ."""
    new, old = f'n."{name}"', f'b."{name}"'
    kind, before = to.schema.field(name).type, former.rows.schema.field(former.values[name]).type
    names = _exact(kind), _exact(before)
    if kind == before or None in names:
        return same(new, old, pa.types.is_floating(kind))
    # DuckDB compares decimals in a type of its own choice, which need not hold both.
    cast = f"TRY_CAST({old} AS {names[0]})"
    back = f"TRY_CAST({cast} AS {names[1]})"
    return f"({new} IS NOT DISTINCT FROM {cast} AND {old} IS NOT DISTINCT FROM {back})"


def _exact(kind: pa.DataType) -> str | None:
    """What DuckDB calls a type of whole numbers or decimals; None: it is another."""
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    return f"INT{kind.bit_width // 8}" if pa.types.is_integer(kind) else None


def _quoted(text: str) -> str:
    return text.replace("'", "''")
