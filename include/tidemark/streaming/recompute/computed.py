"""The windows of a table's next generation: by one batch query over bronze, and caught up.

They are computed while runs of the pipeline go on. What those have added to bronze meanwhile is
caught up under the lease: only what the new rows touch is computed again. Where something else
took rows out of bronze meanwhile, everything is. Where gold already holds all windows, and few rows
are to be left out (`RowsLeftOut`), only what these are in is computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyarrow.dataset import Dataset
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemark.gold.failing import failing_rows, other_rows, same_rows
from tidemark.operators.bronze_rows import BronzeRows
from tidemark.operators.lookups import is_lookup
from tidemark.operators.operator import BRONZE, Operator, listed, same_row
from tidemark.operators.other_inputs import ReadAt, lookup_numbers, other_places, reading
from tidemark.operators.row_range import RowRange
from tidemark.operators.touched import NEVER_MS, BatchRead
from tidemark.recompute.audit_range import audited_range
from tidemark.runs.run import Run, TableRun
from tidemark.storage.delta.append import conformed
from tidemark.storage.delta.appended import commit_actions
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.notes import RetentionNote, WidenedNote, note_of
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.duckdb_in_utc import answer
from tidemark.streaming.expression_errors import said_of_expression
from tidemark.streaming.inputs import Inputs, counted_rows, input_at, not_counting, others_at
from tidemark.streaming.operators.kinds import streamed_operator
from tidemark.streaming.recompute.compare import wide_session
from tidemark.streaming.recompute.widening import widened
from tidemark.streaming.recompute.windows_of import with_all_columns
from tidemark.streaming.run.recomputed_singly import recomputed_singly


@dataclass(frozen=True)
class RowsLeftOut:
    """Rows of bronze that are left out, as if it did not have them: those that fulfil a condition
    in Spark's SQL. `rows` are these, in bronze's columns; None where they are too many to hold."""

    condition: str
    rows: pa.Table | None = None


@dataclass(frozen=True)
class Computed:
    """All that bronze gives at the version `bronze`, open and closed, but what was frozen then:
    identity, values and FAILURE. `excluded` are those of `rows` that fail the query as a whole,
    `others` the versions of other inputs, by their names, `left_out` rows that do not count.
    """

    rows: pa.Table
    excluded: pa.Table
    bronze: int
    others: Mapping[str, int] = field(default_factory=dict)
    left_out: RowsLeftOut | None = None


def reading_at(operator: Operator, run: Run, others: Mapping[str, int]) -> Operator:
    """The operator with its other inputs at these versions."""
    return reading(operator, run.warehouse, _at(others))


def compute(
    spark: SparkSession,
    run: Run,
    operator: Operator,
    frozen_before_ms: int | None,
    failing: pa.Table | None = None,
    left_out: RowsLeftOut | None = None,
) -> Computed:
    """By bronze as it is now; ExpressionFailed where more than a few fail the query.

    `failing`: the identities of some that are known to fail, and are computed one by one.
    """
    bronze, others = run.warehouse.bronze.existing(), _versions(operator, run)
    operator = reading_at(operator, run, others)
    inputs = _inputs(spark, run, operator, bronze.version(), others, left_out)
    streamed = streamed_operator(operator)
    rows = range_of(operator, bronze, NEVER_MS, frozen_before_ms)
    if rows is None:
        nothing = streamed.plan(inputs).limit(0).toArrow()
        return Computed(nothing, nothing, bronze.version(), others, left_out)
    try:
        found = streamed.starting_in(inputs, rows).toArrow()
        return Computed(found, found.slice(0, 0), bronze.version(), others, left_out)
    except PySparkException as error:
        if said_of_expression(error) is None:
            raise
    every = _identities(inputs, operator, rows)
    known = every.slice(0, 0) if failing is None else same_rows(every, failing, operator)
    in_bronze = operator.rows_in(bronze)
    apart = _apart(inputs, in_bronze, other_rows(every, known, operator), known)
    return replace(apart, others=others, left_out=left_out)


def computed_from_gold(
    spark: SparkSession,
    table: TableRun,
    operator: Operator,
    frozen_before_ms: int | None,
    left_out: RowsLeftOut,
) -> Computed | None:
    """All windows of a table whose gold stands for all of bronze: only what the rows that are left
    out are in is computed, and the rest is as gold has it.

    None where gold does not tell it: a window fails, another input is newer than gold, or bronze
    was changed by hand, which was accepted, and gold has not followed.
    """
    run, others = table.run, _versions(operator, table.run)
    if left_out.rows is None or any(table.state.inputs[name] != at for name, at in others.items()):
        return None
    if failing_rows(table.changes.existing(), operator, table.generation).num_rows:
        return None
    operator, bronze = reading_at(operator, run, others), run.warehouse.bronze.existing()
    in_bronze = operator.rows_in(bronze)
    gold = dataset_of(table.gold.existing())
    if not _holds_all_of(bronze, gold, operator, table.state.close_ms, frozen_before_ms):
        return None
    touched = in_bronze.holding(left_out.rows)
    inputs = _inputs(spark, run, operator, bronze.version(), others, left_out)
    found = _apart(inputs, in_bronze, touched)
    if found.excluded.num_rows:
        return None
    names = [name for name in found.rows.column_names if name in gold.schema.names]
    known = conformed(gold.to_table(names), found.rows.schema)
    rows = pa.concat_tables([_without(known, touched, found.rows, in_bronze), found.rows])
    return Computed(rows, found.excluded, bronze.version(), others, left_out)


def _holds_all_of(
    bronze: DeltaTable,
    gold: Dataset,
    operator: Operator,
    close_ms: int,
    frozen_before_ms: int | None,
) -> bool:
    """Does gold count what bronze has? True where the kind does not tell."""
    rows = range_of(operator, bronze, close_ms, frozen_before_ms)
    in_bronze = counted_in(bronze, operator, rows)
    if rows is None or in_bronze is None:
        return True
    shown = rows.of(gold.to_table(["window_start", "window_end", "rows"]))
    return bool((pc.sum(shown.column("rows")).as_py() or 0) == in_bronze)


def counted_in(bronze: DeltaTable, operator: Operator, rows: RowRange | None) -> int | None:
    """How many rows of bronze are in a stretch of a table's, each as often as it is in one; None
    where rows of the kind do not count them."""
    if not operator.traits.counts_rows:
        return None
    return 0 if rows is None else operator.rows_in(bronze).count_starting(rows, "true")


def once_gone(computed: Computed, bronze: int) -> Computed | None:
    """What holds of it once bronze, at this version, has none of the rows that it leaves out.

    None where something fails the query: its verdict counts rows of bronze as that was, with those.
    """
    if computed.excluded.num_rows:
        return None
    return replace(computed, bronze=bronze, left_out=None)


def caught_up(
    spark: SparkSession,
    run: Run,
    operator: Operator,
    frozen_before_ms: int | None,
    before: Computed,
) -> Computed:
    """The table by bronze as it is now, where only what came since `before` is computed."""
    place = run.warehouse.bronze
    bronze, others = place.existing(), _versions(operator, run)
    if (bronze.version(), others) == (before.bronze, before.others):
        return before
    if any(is_lookup(name) and at != before.others[name] for name, at in others.items()):
        return compute(spark, run, operator, frozen_before_ms, before.excluded, before.left_out)
    read = {
        name: (before.others[name] + 1, version)
        for name, version in others.items()
        if not is_lookup(name)
    }
    since = BatchRead(None, before.bronze + 1, bronze.version(), 0, others=read)
    places = {BRONZE: place, **other_places(operator, run.warehouse)}
    spans = {BRONZE: (since.first, since.last), **read}
    if any(_lost_rows(places[name], *span) for name, span in spans.items()):
        return compute(spark, run, operator, frozen_before_ms, before.excluded, before.left_out)
    operator = reading_at(operator, run, others)
    in_bronze = operator.rows_in(bronze)
    touched = in_bronze.touched(place, [since], frozen_before_ms, NEVER_MS).closed
    if not touched.num_rows:
        return replace(before, bronze=bronze.version(), others=others)
    found = _apart(
        _inputs(spark, run, operator, bronze.version(), others, before.left_out),
        in_bronze,
        other_rows(touched, before.excluded, operator),
        same_rows(touched, before.excluded, operator),
    )
    rows = _without(before.rows, touched, found.rows, in_bronze)
    excluded = other_rows(before.excluded, touched, operator)
    return Computed(
        pa.concat_tables([rows, found.rows]),
        pa.concat_tables([excluded, found.excluded]),
        found.bronze,
        others,
        before.left_out,
    )


def shown(
    computed: Computed, run: Run, operator: Operator, close_ms: int, frozen_before_ms: int | None
) -> pa.Table:
    """The rows that gold can show where it is closed up to this frontier."""
    bronze = run.warehouse.bronze.at_version(computed.bronze)
    rows = range_of(operator, bronze, close_ms, frozen_before_ms)
    if rows is None:
        return computed.rows.slice(0, 0)
    return rows.of(computed.rows)


def range_of(
    operator: Operator, bronze: DeltaTable, close_ms: int, frozen_before_ms: int | None
) -> RowRange | None:
    """All rows that gold can show of bronze's, without frozen ones."""
    dates = [date.fromisoformat(part["_event_date"]) for part in bronze.partitions()]
    return audited_range(operator, None, None, dates, close_ms, frozen_before_ms)


def _lost_rows(place: TablePlace, first: int, last: int) -> bool:
    """Did a commit take rows away, and not only dates that nothing needs any more?"""
    for version in range(first, last + 1):
        actions = commit_actions(place, version)
        removed = any("remove" in one and one["remove"]["dataChange"] for one in actions)
        notes = [note_of(one["commitInfo"]) for one in actions if "commitInfo" in one]
        if removed and not any(isinstance(one, RetentionNote | WidenedNote) for one in notes):
            return True
    return False


def _versions(operator: Operator, run: Run) -> dict[str, int]:
    """Of its other inputs, as they are now."""
    places = other_places(operator, run.warehouse)
    of_tables = {name: place.existing().version() for name, place in places.items()}
    return of_tables | lookup_numbers(operator, run.warehouse)


def _at(others: Mapping[str, int]) -> ReadAt:
    return {name: (version, "true") for name, version in others.items()}


def _inputs(
    spark: SparkSession,
    run: Run,
    operator: Operator,
    version: int,
    others: Mapping[str, int],
    left_out: RowsLeftOut | None,
) -> Inputs:
    session = wide_session(spark)
    rows = input_at(session, run.warehouse.bronze, run.pipeline, version)
    if left_out is not None:
        rows = not_counting(rows, left_out.condition)
    beside = others_at(session, operator, run.warehouse, run.pipeline, _at(others))
    wide = with_all_columns(session, widened(session, rows, run.pipeline), run.pipeline)
    return {BRONZE: counted_rows(wide, operator), **beside}


def _identities(inputs: Inputs, operator: Operator, rows: RowRange) -> pa.Table:
    """Which rows there are, by the same plan without a measure that could fail."""
    table = operator.table.model_copy(update={"measures": {}})
    found = streamed_operator(replace(operator, table=table)).starting_in(inputs, rows)
    return found.select(*[f"`{name}`" for name in operator.located]).toArrow()


def _apart(
    inputs: Inputs,
    in_bronze: BronzeRows,
    closed: pa.Table,
    failed_before: pa.Table | None = None,
) -> Computed:
    """These rows, and those that fail apart from the others."""
    streamed = streamed_operator(in_bronze.operator)
    before = closed.slice(0, 0) if failed_before is None else failed_before
    rows, failed = recomputed_singly(streamed, inputs, in_bronze, closed, before)
    return Computed(rows, failed, in_bronze.bronze.version())


def _without(rows: pa.Table, touched: pa.Table, found: pa.Table, in_bronze: BronzeRows) -> pa.Table:
    """What stays of rows: neither touched, nor computed again, nor covered by what was."""
    covered = in_bronze.covered(touched)
    same = same_row(in_bronze.operator, "k", "t")
    gone = f"EXISTS (SELECT 1 FROM touched t WHERE {same})"
    if covered is not None:
        gone, touched = f"{gone} OR ({covered.condition})", covered.touched
    sql = f"""
        SELECT {listed(rows.column_names, "k")} FROM known k
        ANTI JOIN found f ON {same_row(in_bronze.operator, "k", "f")}
        WHERE NOT ({gone})
    """
    return answer(sql, rows.schema, known=rows, found=found, touched=touched)
