"""Which rows of gold a publish has to write: pure SQL over what changed and what gold holds.

A row (a window with its key, say) is written when it is new, when its value differs, or when it
closes now. Doubles differ by more than a relative 1e-9: the order of a sum may change its last
digits.

A row that gold holds as closed and that differs is corrected. One that gold does not hold was not
there to be corrected, however late it comes: it is final, of revision 0.

A change with `rows` 0 says that no row of bronze is in it any more, and one with a failure that a
measure cannot be computed: either goes from gold.

Where gold holds some of them, a commit replaces spans of time (`spans.py`), and not whole dates: of
gold only the files are read, and written anew, that have rows in one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from tidemark.gold.pins import Published
from tidemark.gold.plan import GoldState, PublishPlan
from tidemark.gold.spans import (
    GoldSpan,
    dates_predicate,
    days_of,
    make_spans,
    spans_predicate,
    spans_written,
    within_spans,
)
from tidemark.gold.state import PROVISIONAL
from tidemark.operators.operator import Operator, listed, same_row
from tidemark.operators.repaired import NOT_OF_GOLD, SEAL
from tidemark.pipeline.instants import instant_of
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.history import FAILURE, changes_between, schema_of
from tidemark.storage.duckdb_in_utc import arrow_of, duckdb_in_utc

_TIME = pa.timestamp("us", "UTC")
_COUNTS = """
    SELECT count(*), count(*) FILTER (_known),
        epoch_ms(min(window_start)), epoch_ms(max(window_end))
    FROM written
"""


@dataclass(frozen=True)
class GoldChange:
    """What one commit writes: rows in gold's columns, `windows` of which are new, differ, or close.

    Where gold holds none of them yet, `replaced` is empty and the rows are appended. Else they are
    everything that gold has in these spans from now on. `windows` counts those that go; `changed`
    has that count too, and where they lie; None where there are none.
    """

    rows: pa.Table
    changed: Published | None
    replaced: tuple[GoldSpan, ...]

    @property
    def windows(self) -> int:
        return self.changed.windows if self.changed else 0


def changed_windows(
    gold: DeltaTable, changes: pa.Table, operator: Operator, plan: PublishPlan, run_id: str
) -> GoldChange:
    """The rows that bring gold from the plan's old state to its new one.

    `changes` are rows of the changes table with `_commit_version`; of several rows of a window
    that of the later commit counts. Status and revision follow from the close frontiers.
    """
    schema = schema_of(gold)
    with windows_to_write(gold, changes, operator, plan, run_id) as connection:
        ((windows, known, start, end),) = connection.execute(_COUNTS).fetchall()
        replaced = spans_written(connection) if known else ()
        rows = arrow_of(connection.sql(_rows(operator, schema.names, replaced)), schema)
    changed = Published(windows=windows, start_ms=start, end_ms=end) if windows else None
    return GoldChange(rows, changed, replaced)


@contextmanager
def windows_to_write(
    gold: DeltaTable, changes: pa.Table, operator: Operator, plan: PublishPlan, run_id: str
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection in UTC with two tables: `before`, what gold holds in the spans of time with
    windows that changed or can close now, and `written`, the windows that are new, differ, or close
    now, in gold's columns.

    `_gone` is true in `written` for a window that goes from gold.
    """
    with duckdb_in_utc() as connection:
        connection.register("changes", changes)
        connection.execute(latest(operator, counts_at_close(plan.close_after_ms)))
        _touched(connection, gold, plan)
        connection.execute(_written(_joined(operator, schema_of(gold)), plan), {"run": run_id})
        yield connection


def counts_at_close(after_ms: int, relation: str = "changes") -> str:
    """The condition that a row of `changes` counts once gold is closed up to this frontier.

    What a run sealed that was not published is open again where the source is no longer idle:
    append mode must not show it, and the others have the stream's own value. The frontier that a
    publish reaches decides, for what a repair takes for known as well: what the publish passes over
    would be lost else."""
    ended = f"{relation}.window_end <= {time_literal(after_ms)}"
    return f"({relation}.cause <> '{SEAL}' OR {ended})"


def latest(operator: Operator, condition: str = "true") -> str:
    """Of the rows in `changes`, the last one of each row of gold, as the table `latest`.

    One by which the stream leaves a window out, or which is computed apart from it, says nothing
    of gold: a repair does.
    """
    others = ", ".join(f"'{cause}'" for cause in NOT_OF_GOLD)
    return f"""
        CREATE TEMP TABLE latest AS SELECT * FROM changes
        WHERE cause NOT IN ({others}) AND {condition}
        QUALIFY row_number() OVER (
            PARTITION BY {listed(operator.identity)} ORDER BY _commit_version DESC
        ) = 1
    """


def latest_pending(
    connection: duckdb.DuckDBPyConnection,
    changes: DeltaTable,
    state: GoldState,
    operator: Operator,
    after_ms: int,
) -> None:
    """The table `latest`: the newest value of each row in `changes` since the last publish, that
    the next one takes, up to this frontier."""
    connection.register("changes", changes_between(changes, state.changes, changes.version()))
    connection.execute(latest(operator, counts_at_close(after_ms)))


def open_windows(gold: DeltaTable, close_ms: int) -> int:
    """How many of gold's rows are provisional, whose close frontier this is; only files that can
    hold one are read."""
    newest = dataset_of(gold, open_dates(gold, close_ms))
    return int(newest.count_rows(filter=ds.field("status") == PROVISIONAL))


def open_dates(gold: DeltaTable, close_ms: int, closing_ms: int | None = None) -> str:
    """The predicate of gold's partitions that can hold a row which ends after the one frontier, and
    where another one is given, at or before that; by the statistics of its files."""
    files, days = pa.table(gold.get_add_actions(flatten=True)), set[date]()
    asked = ("partition.window_date", "min.window_end", "max.window_end")
    kept = [name for name in asked if name in files.schema.names]
    for file in files.select(kept).to_pylist():
        oldest, newest = file.get("min.window_end"), file.get("max.window_end")
        # Statistics are of milliseconds, cut off.
        is_open = newest is None or newest.astimezone(UTC) >= instant_of(close_ms)
        is_closing = (
            closing_ms is None or oldest is None or oldest.astimezone(UTC) <= instant_of(closing_ms)
        )
        if is_open and is_closing:
            days.add(date.fromisoformat(str(file["partition.window_date"])))
    return dates_predicate(tuple(sorted(days))) if days else "false"


def _touched(connection: duckdb.DuckDBPyConnection, gold: DeltaTable, plan: PublishPlan) -> None:
    """The table `before`, and the table `spans` of where it lies. Other files are left out here:
    DuckDB would open all of them."""
    before, after = (
        pa.scalar(instant_of(one), _TIME) for one in (plan.close_before_ms, plan.close_after_ms)
    )
    end = ds.field("window_end")
    closing = dataset_of(gold, open_dates(gold, plan.close_before_ms, plan.close_after_ms))
    # Arrow cannot compare texts of files that somebody's delete by delta-rs wrote.
    reader = closing.scanner(
        columns=["window_start", "status"], filter=(end > before) & (end <= after)
    ).to_reader()
    connection.register("closing", reader)
    connection.execute(
        f"""
        CREATE TEMP TABLE starts AS
        SELECT DISTINCT window_start, window_start::DATE AS window_date FROM (
            SELECT window_start FROM latest
            UNION ALL SELECT window_start FROM closing WHERE status = '{PROVISIONAL}'
        )
        """
    )
    spans = make_spans(connection)
    held = dataset_of(gold, dates_predicate(days_of(spans)) if spans else "false")
    connection.register("touched", held.scanner(filter=within_spans(spans)).to_reader())
    connection.execute("CREATE TEMP TABLE before AS SELECT * FROM touched")


def _joined(operator: Operator, schema: pa.Schema) -> str:
    """One row a window: its value, what gold says of it, and whether the value is another.

    The names that are no columns of gold begin with `_`, as no key or measure does.
    """
    taken = ", ".join(
        f'CASE WHEN n."rows" IS NULL THEN b."{name}" ELSE n."{name}" END AS "{name}"'
        for name in (*operator.identity, *operator.values)
    )
    same = same_value(operator.values, schema, "n", "b")
    goes = f'(n."rows" = 0 OR n."{FAILURE}" IS NOT NULL)'
    return f"""
        SELECT {taken},
            b."rows" IS NOT NULL AS _known, b.status AS _old_status, b.window_end AS _old_end,
            coalesce(b.revision, 0) AS _old_revision,
            n."rows" IS NOT NULL AND (b."rows" IS NULL OR {goes} OR NOT ({same})) AS _differs,
            n."rows" IS NOT NULL AND {goes} AS _gone
        FROM latest n FULL JOIN before b ON {same_row(operator, "n", "b")}
        WHERE b."rows" IS NOT NULL OR NOT {goes}
    """


def same_value(values: Iterable[str], schema: pa.Schema, new: str, old: str) -> str:
    """The condition that a row has the same values in the relations `new` and `old`."""
    return " AND ".join(
        same(f'{new}."{name}"', f'{old}."{name}"', pa.types.is_floating(schema.field(name).type))
        for name in values
    )


def same(new: str, old: str, floating: bool) -> str:
    """The condition that two values are the same, which Spark and DuckDB read alike: doubles within
    a relative 1e-9, as the order of a sum may change their last digits, all else exactly."""
    equal = f"{new} IS NOT DISTINCT FROM {old}"
    if not floating:
        return f"({equal})"
    # NaN and infinity are close to nothing but themselves: both engines would find NaN <= NaN.
    # A whole number has no absolute value of its type where it is the least of it.
    one, other = f"CAST({new} AS DOUBLE)", f"CAST({old} AS DOUBLE)"
    largest = f"greatest(abs({one}), abs({other}))"
    close = f"abs({one} - {other}) <= 1e-9 * {largest} AND {largest} < CAST('Infinity' AS DOUBLE)"
    return f"({equal} OR coalesce({close}, false))"


def _written(joined: str, plan: PublishPlan) -> str:
    before, after = time_literal(plan.close_before_ms), time_literal(plan.close_after_ms)
    return f"""
        CREATE TEMP TABLE written AS SELECT *,
            _known AND _differs AND _old_end <= {before} AS _corrects,
            CASE WHEN window_end > {after} THEN '{PROVISIONAL}'
                 WHEN _old_revision > 0 OR _corrects THEN 'corrected'
                 ELSE 'final' END AS status,
            _old_revision + _corrects::BIGINT AS revision,
            $run AS updated_by, window_start::DATE AS window_date
        FROM ({joined}) WHERE _differs OR status IS DISTINCT FROM _old_status
    """


def _rows(operator: Operator, columns: list[str], replaced: tuple[GoldSpan, ...]) -> str:
    """What is written, with the rows in replaced spans that stay as they are."""
    names = listed(columns)
    written = f"SELECT {names} FROM written WHERE NOT _gone"
    if replaced:
        same = same_row(operator, "b", "w")
        kept = f"SELECT {names} FROM before b ANTI JOIN written w ON {same}"
        written = f"{written} UNION ALL {kept} WHERE {spans_predicate(replaced)}"
    return f"SELECT * FROM ({written}) ORDER BY {listed(operator.identity)}"


def time_literal(milliseconds: int) -> str:
    """An instant as DuckDB's SQL has it."""
    return f"TIMESTAMPTZ '{instant_of(milliseconds).isoformat()}'"
