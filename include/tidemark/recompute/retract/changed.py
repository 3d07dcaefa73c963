"""Which rows of gold a retraction changes: before and after, as far as people read them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

import duckdb
import pyarrow as pa

from tidemark.gold.row_values import same_value
from tidemark.operators.operator import Operator, listed, same_row
from tidemark.recompute.retract.change import ChangedRows

_MOST_SHOWN = 10


class NextRows(Protocol):
    """What gold is to be, as a migration plans it."""

    @property
    def operator(self) -> Operator: ...

    @property
    def schema(self) -> pa.Schema: ...

    def windows(self) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        """The tables `before` and `written`."""


def changed_rows(plan: NextRows) -> ChangedRows:
    """By the rule of every publish for what is the same."""
    operator = plan.operator
    same, row = same_value(operator.values, plan.schema, "w", "b"), same_row(operator, "w", "b")
    identity = ", ".join(
        f'coalesce(w."{name}", b."{name}") AS "{name}"' for name in operator.identity
    )
    values = ", ".join(
        f'b."{name}" AS "before {name}", w."{name}" AS "{name}"' for name in operator.values
    )
    with plan.windows() as connection:
        connection.execute(
            f"""
            CREATE TEMP TABLE changed AS
            SELECT {identity}, {values} FROM written w LEFT JOIN before b ON {row}
            WHERE b."rows" IS NULL OR NOT ({same})
            UNION ALL BY NAME
            SELECT {listed(operator.identity, "b")},
                {", ".join(f'b."{name}" AS "before {name}"' for name in operator.values)}
            FROM before b ANTI JOIN written w ON {row}
            """
        )
        ((windows,),) = connection.execute("SELECT count(*) FROM changed").fetchall()
        first = connection.sql(
            f"FROM changed ORDER BY {listed(operator.identity)} LIMIT {_MOST_SHOWN}"
        ).to_arrow_table()
    return ChangedRows(windows=windows, examples=tuple(_told(first.to_pylist(), operator)))


def _told(rows: list[dict[str, Any]], operator: Operator) -> Iterator[str]:
    for row in rows:
        keys = [str(row[name]) for name in operator.identity[1:]]
        values = [
            f"{name} {row[f'before {name}']} → {row[name]}"
            for name in operator.values
            if row[name] != row[f"before {name}"]
        ]
        where = " ".join([f"{row['window_start']:%Y-%m-%dT%H:%M:%SZ}", *keys])
        if row["rows"] is None:
            yield f"{where}: goes; it had {row['before rows']:,} rows"
        elif row["before rows"] is None:
            yield f"{where}: is new; it has {row['rows']:,} rows"
        else:
            yield f"{where}: {', '.join(values)}"
