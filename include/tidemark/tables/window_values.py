"""Which rows of gold a publish has to write: pure SQL over what changed and what gold holds.

A window is written when it is new, when its value differs, or when it closes now. Doubles
differ by more than a relative 1e-9: the order of a sum may change its last digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from tidemark.pipeline.model import Table
from tidemark.tables.plan import PublishPlan

_TOLERANCE = "1e-9"


@dataclass(frozen=True)
class GoldChange:
    """Rows in gold's columns. `only_new`: none of them stands in gold yet."""

    rows: pa.Table
    only_new: bool
    first_date: date
    last_date: date


def changed_windows(
    gold: DeltaTable, changes: pa.Table, table: Table, plan: PublishPlan, run_id: str
) -> GoldChange:
    """The rows that bring gold from the plan's old state to its new one.

    `changes` are rows of the changes table with `_commit_version`; of several rows of a window
    that of the later commit counts. Status and revision follow from the close frontiers.
    """
    schema = gold.to_pyarrow_dataset().schema
    keys = window_keys(table)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("changes", changes)
        connection.register("gold", gold.to_pyarrow_dataset())
        connection.execute(_latest(keys))
        connection.execute(_before(connection, table.window.length, plan))
        connection.execute(_joined(keys, tuple(table.measures), schema))
        connection.execute(_written(plan), {"run": run_id})
        rows = connection.sql(
            f"SELECT {_list(schema.names)} FROM written ORDER BY {_list(keys)}"
        ).to_arrow_table()
        known = connection.execute("SELECT count(*) FROM written WHERE known").fetchone()
    dates = rows.column("window_date").unique().sort().to_pylist() or [date(1970, 1, 1)]
    return GoldChange(rows.cast(schema), known == (0,), dates[0], dates[-1])


def window_keys(table: Table) -> tuple[str, ...]:
    """What tells one row of gold from another; a window's end follows from its start."""
    return ("window_start", *table.group_by)


def _latest(keys: tuple[str, ...]) -> str:
    return f"""
        CREATE TEMP TABLE latest AS SELECT * FROM changes QUALIFY
            row_number() OVER (PARTITION BY {_list(keys)} ORDER BY _commit_version DESC) = 1
    """


def _before(connection: duckdb.DuckDBPyConnection, length: timedelta, plan: PublishPlan) -> str:
    """Gold's rows that can be touched: those of changed windows, and of windows that close now.

    An open window ends after the old frontier, so it starts after that less the length: both
    parts are bounded by date, and gold's other partitions are not read.
    """
    first, last = connection.execute(
        "SELECT min(window_start)::DATE, max(window_start)::DATE FROM latest"
    ).fetchone() or (None, None)
    changed = f"window_date BETWEEN DATE '{first}' AND DATE '{last}'" if first else "false"
    opened = (_instant(plan.close_before_ms) - length).date()
    closing = (
        f"status = 'provisional' AND window_end <= {_literal(plan.close_after_ms)} "
        f"AND window_date >= DATE '{opened}'"
    )
    return f"CREATE TEMP TABLE before AS SELECT * FROM gold WHERE {changed} OR ({closing})"


def _joined(keys: tuple[str, ...], measures: tuple[str, ...], schema: pa.Schema) -> str:
    """One row a window: its value, what gold says of it, and whether the value is another."""
    same_key = " AND ".join(f'n."{key}" IS NOT DISTINCT FROM b."{key}"' for key in keys)
    taken = ", ".join(
        f'CASE WHEN n."rows" IS NULL THEN b."{name}" ELSE n."{name}" END AS "{name}"'
        for name in (*keys, "window_end", *measures, "rows")
    )
    same_value = " AND ".join(
        _same(name, pa.types.is_floating(schema.field(name).type)) for name in (*measures, "rows")
    )
    return f"""
        CREATE TEMP TABLE joined AS SELECT {taken},
            b."rows" IS NOT NULL AS known, b.status AS old_status,
            coalesce(b.revision, 0) AS old_revision,
            n."rows" IS NOT NULL AND (b."rows" IS NULL OR NOT ({same_value})) AS differs
        FROM latest n FULL JOIN before b ON {same_key}
    """


def _same(name: str, floating: bool) -> str:
    new, old = f'n."{name}"', f'b."{name}"'
    same = f"{new} IS NOT DISTINCT FROM {old}"
    if not floating:
        return f"({same})"
    close = f"abs({new} - {old}) <= {_TOLERANCE} * greatest(abs({new}), abs({old}))"
    return f"({same} OR coalesce({close}, false))"


def _written(plan: PublishPlan) -> str:
    before, after = _literal(plan.close_before_ms), _literal(plan.close_after_ms)
    return f"""
        CREATE TEMP TABLE written AS SELECT *,
            differs AND window_end <= {before} AS corrects,
            CASE WHEN window_end > {after} THEN 'provisional'
                 WHEN old_status = 'corrected' OR corrects THEN 'corrected'
                 ELSE 'final' END AS status,
            old_revision + corrects::BIGINT AS revision,
            $run AS updated_by, window_start::DATE AS window_date
        FROM joined WHERE differs OR status IS DISTINCT FROM old_status
    """


def _list(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _instant(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _literal(milliseconds: int) -> str:
    """A literal, because a prepared parameter would keep DuckDB from skipping partitions."""
    return f"TIMESTAMPTZ '{_instant(milliseconds).isoformat()}'"
