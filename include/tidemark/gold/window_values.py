"""Which rows of gold a publish has to write: pure SQL over what changed and what gold holds.

A window is written when it is new, when its value differs, or when it closes now. Doubles
differ by more than a relative 1e-9: the order of a sum may change its last digits.

A change with `rows` 0 says that bronze has no row of the window any more: it goes from gold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from pyarrow.dataset import Dataset

from tidemark.gold.pins import Published
from tidemark.gold.plan import PublishPlan
from tidemark.gold.state import PROVISIONAL
from tidemark.operators.repaired import SEAL
from tidemark.pipeline.instants import instant_of
from tidemark.pipeline.model import Table
from tidemark.storage.delta.history import schema_of

_TOLERANCE = "1e-9"
_COUNTS = """
    SELECT count(*), count(*) FILTER (_known),
        epoch_ms(min(window_start)), epoch_ms(max(window_end))
    FROM written
"""


@dataclass(frozen=True)
class GoldChange:
    """What one commit writes: rows in gold's columns, `windows` of which are new, differ, or close.

    Where gold holds none of them yet, `replaced_dates` is empty and the rows are appended. Else
    they are everything that these partitions hold from now on. `windows` counts those that go;
    `changed` has that count too, and where they lie; None where there are none.
    """

    rows: pa.Table
    changed: Published | None
    replaced_dates: tuple[date, ...]

    @property
    def windows(self) -> int:
        return self.changed.windows if self.changed else 0


def changed_windows(
    gold: DeltaTable, changes: pa.Table, table: Table, plan: PublishPlan, run_id: str
) -> GoldChange:
    """The rows that bring gold from the plan's old state to its new one.

    `changes` are rows of the changes table with `_commit_version`; of several rows of a window
    that of the later commit counts. Status and revision follow from the close frontiers.
    """
    schema = schema_of(gold)
    keys = window_keys(table)
    with windows_to_write(gold, changes, table, plan, run_id) as connection:
        ((windows, known, start, end),) = connection.execute(_COUNTS).fetchall()
        dates = _dates(connection, "SELECT DISTINCT window_date FROM written") if known else ()
        rows = connection.sql(_rows(schema.names, keys, dates)).to_arrow_table()
    changed = Published(windows=windows, start_ms=start, end_ms=end) if windows else None
    return GoldChange(rows.cast(schema), changed, dates)


@contextmanager
def windows_to_write(
    gold: DeltaTable, changes: pa.Table, table: Table, plan: PublishPlan, run_id: str
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection in UTC with two tables: `before`, what gold's touched partitions hold, and
    `written`, the windows that are new, differ, or close now, in gold's columns.

    `_gone` is true in `written` for a window that goes from gold.
    """
    keys = window_keys(table)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("changes", changes)
        connection.execute(latest(keys, _sealed_or_not_a_seal(plan)))
        connection.register("touched", _touched(connection, gold, table.window.length, plan))
        connection.execute("CREATE TEMP TABLE before AS SELECT * FROM touched")
        connection.execute(_joined(keys, tuple(table.measures), schema_of(gold)))
        connection.execute(_written(plan), {"run": run_id})
        yield connection


def window_keys(table: Table) -> tuple[str, ...]:
    """What tells one row of gold from another; a window's end follows from its start."""
    return ("window_start", *table.group_by)


def _sealed_or_not_a_seal(plan: PublishPlan) -> str:
    """What a killed run sealed is open again where the source is no longer idle: append mode
    must not show it, and the others have the stream's own value."""
    return f"cause <> '{SEAL}' OR window_end <= {_literal(plan.close_after_ms)}"


def latest(keys: tuple[str, ...], condition: str = "true") -> str:
    """Of the rows in `changes`, the last one of each window, as the table `latest`."""
    return f"""
        CREATE TEMP TABLE latest AS SELECT * FROM changes WHERE {condition} QUALIFY
            row_number() OVER (PARTITION BY {_list(keys)} ORDER BY _commit_version DESC) = 1
    """


def _touched(
    connection: duckdb.DuckDBPyConnection, gold: DeltaTable, length: timedelta, plan: PublishPlan
) -> Dataset:
    """Gold's partitions with changed windows, or with windows that can close now.

    An open window ends after the old frontier, so it starts after that less the length. The
    other partitions are left out here, by name: DuckDB would open all of them.
    """
    opened = (instant_of(plan.close_before_ms) - length).date()
    closed = instant_of(plan.close_after_ms).date()
    predicate = f"window_date BETWEEN DATE '{opened}' AND DATE '{closed}'"
    if changed := _dates(connection, "SELECT DISTINCT window_start::DATE FROM latest"):
        predicate = f"{predicate} OR {dates_predicate(changed)}"
    return gold.to_pyarrow_dataset(file_pruning_predicate=predicate)


def _joined(keys: tuple[str, ...], measures: tuple[str, ...], schema: pa.Schema) -> str:
    """One row a window: its value, what gold says of it, and whether the value is another.

    The names that are no columns of gold begin with `_`, as no key or measure does.
    """
    same_key = " AND ".join(f'n."{key}" IS NOT DISTINCT FROM b."{key}"' for key in keys)
    taken = ", ".join(
        f'CASE WHEN n."rows" IS NULL THEN b."{name}" ELSE n."{name}" END AS "{name}"'
        for name in (*keys, "window_end", *measures, "rows")
    )
    same = same_value(measures, schema, "n", "b")
    return f"""
        CREATE TEMP TABLE joined AS SELECT {taken},
            b."rows" IS NOT NULL AS _known, b.status AS _old_status,
            coalesce(b.revision, 0) AS _old_revision,
            n."rows" IS NOT NULL AND (b."rows" IS NULL OR NOT ({same})) AS _differs,
            coalesce(n."rows" = 0, false) AS _gone
        FROM latest n FULL JOIN before b ON {same_key}
        WHERE b."rows" IS NOT NULL OR n."rows" > 0
    """


def same_value(measures: Iterable[str], schema: pa.Schema, new: str, old: str) -> str:
    """The condition that a window has the same value in the relations `new` and `old`."""
    return " AND ".join(
        _same(f'{new}."{name}"', f'{old}."{name}"', pa.types.is_floating(schema.field(name).type))
        for name in (*measures, "rows")
    )


def _same(new: str, old: str, floating: bool) -> str:
    same = f"{new} IS NOT DISTINCT FROM {old}"
    if not floating:
        return f"({same})"
    # NaN and infinity are close to nothing but themselves: SQL would find NaN <= NaN.
    finite = f"isfinite({new}) AND isfinite({old})"
    close = f"abs({new} - {old}) <= {_TOLERANCE} * greatest(abs({new}), abs({old}))"
    return f"({same} OR coalesce({finite} AND {close}, false))"


def _written(plan: PublishPlan) -> str:
    before, after = _literal(plan.close_before_ms), _literal(plan.close_after_ms)
    return f"""
        CREATE TEMP TABLE written AS SELECT *,
            _differs AND window_end <= {before} AS _corrects,
            CASE WHEN window_end > {after} THEN '{PROVISIONAL}'
                 WHEN _old_status = 'corrected' OR _corrects THEN 'corrected'
                 ELSE 'final' END AS status,
            _old_revision + _corrects::BIGINT AS revision,
            $run AS updated_by, window_start::DATE AS window_date
        FROM joined WHERE _differs OR status IS DISTINCT FROM _old_status
    """


def _rows(columns: list[str], keys: tuple[str, ...], dates: tuple[date, ...]) -> str:
    """What is written, with the rows of replaced partitions that stay as they are."""
    names, written = _list(columns), f"SELECT {_list(columns)} FROM written WHERE NOT _gone"
    if dates:
        same_key = " AND ".join(f'b."{key}" IS NOT DISTINCT FROM w."{key}"' for key in keys)
        kept = f"SELECT {names} FROM before b ANTI JOIN written w ON {same_key}"
        written = f"{written} UNION ALL {kept} WHERE {dates_predicate(dates)}"
    return f"SELECT * FROM ({written}) ORDER BY {_list(keys)}"


def dates_predicate(dates: tuple[date, ...]) -> str:
    """The predicate of gold's partitions of these dates, for delta-rs and DuckDB; one at least."""
    return "window_date IN (" + ", ".join(f"DATE '{day}'" for day in dates) + ")"


def _dates(connection: duckdb.DuckDBPyConnection, sql: str) -> tuple[date, ...]:
    return tuple(sorted(row[0] for row in connection.execute(sql).fetchall()))


def _list(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _literal(milliseconds: int) -> str:
    return f"TIMESTAMPTZ '{instant_of(milliseconds).isoformat()}'"
