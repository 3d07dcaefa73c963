"""Compute rows of a table again from bronze, and those that fail apart from the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException

from tidemark.errors import ExpressionFailed
from tidemark.operators.bronze_rows import BronzeRows
from tidemark.storage.delta.append import conformed
from tidemark.storage.delta.history import FAILURE
from tidemark.streaming.engine.quiet import quiet
from tidemark.streaming.expression_errors import said_of_expression
from tidemark.streaming.inputs import Inputs
from tidemark.streaming.operators.operator import StreamedOperator

# Each costs some queries over its own rows: so many take minutes, and more say that the expression
# is wrong and not the data.
MOST_FAILING = 100
_SHOWN = 600

# The rows that `Touched.closed` comes to.
Recompute = Callable[[pa.Table], pa.Table]


@dataclass(frozen=True)
class FailedRow:
    """One of `Touched.closed`, which a query cannot compute, and what the engine says."""

    closed: pa.Table
    said: str


def recomputed_singly(
    streamed: StreamedOperator,
    inputs: Inputs,
    in_bronze: BronzeRows,
    closed: pa.Table,
    failed_before: pa.Table,
    condition: str = "true",
) -> tuple[pa.Table, pa.Table]:
    """The rows, those that fail among them (`verdict_rows`), and those alone: all of `closed` at
    once where none fails, else in halves until each that fails is alone; and one by one what
    `failed_before`.

    ExpressionFailed where more than MOST_FAILING of `closed` do. Only reads, and gives the same for
    the same version of bronze.
    """

    def recompute(rows: pa.Table) -> pa.Table:
        return streamed.recompute(inputs, rows).toArrow()

    alone = [failed_before.slice(place, 1) for place in range(failed_before.num_rows)]
    with quiet():
        parts = list(_halved(recompute, closed) if closed.num_rows else ())
        parts += [part for one in alone for part in _parts(recompute, one)]
        rows = [part for part in parts if isinstance(part, pa.Table)]
        rows = rows or [recompute(closed.slice(0, 0))]
    failed = [part for part in parts if isinstance(part, FailedRow)]
    verdicts = verdict_rows(failed, in_bronze, rows[0].schema, condition)
    return pa.concat_tables([*rows, verdicts]), verdicts


def failing_among(compute: Callable[[pa.Table], None], closed: pa.Table) -> Sequence[FailedRow]:
    """Those that fail, where what the others come to is not wanted; as `recomputed_singly`."""

    def nothing(rows: pa.Table) -> pa.Table:
        compute(rows)
        return rows

    with quiet():
        found = list(_halved(nothing, closed) if closed.num_rows else ())
    return [part for part in found if isinstance(part, FailedRow)]


def _halved(recompute: Recompute, closed: pa.Table) -> Iterator[pa.Table | FailedRow]:
    # What fails on one row of bronze are windows beside each other.
    failed = []
    for part in _parts(recompute, closed.sort_by("window_start")):
        if isinstance(part, FailedRow):
            failed.append(part)
            if len(failed) > MOST_FAILING:
                raise _too_many(failed)
        yield part


def verdict_rows(
    failed: Sequence[FailedRow], rows: BronzeRows, schema: pa.Schema, condition: str = "true"
) -> pa.Table:
    """What failed as rows in these columns of `changes`: no measures, `rows` as bronze has them
    (those that fulfil the condition), and FAILURE."""
    if not failed:
        return schema.empty_table()
    closed = pa.concat_tables([one.closed for one in failed])
    values = {
        "window_end": rows.ends(closed),
        "rows": pa.array([rows.count_touched(one.closed, condition) for one in failed]),
        FAILURE: pa.array([one.said for one in failed]),
    }
    return conformed(with_columns(closed, values), schema)


def with_columns(rows: pa.Table, values: Mapping[str, Any]) -> pa.Table:
    """The rows with these columns, in place of their own of these names."""
    for name, value in values.items():
        rows = rows.drop_columns([name]) if name in rows.column_names else rows
        rows = rows.append_column(name, value)
    return rows


def _parts(recompute: Recompute, closed: pa.Table) -> Iterator[pa.Table | FailedRow]:
    try:
        yield recompute(closed)
        return
    except PySparkException as error:
        if (said := said_of_expression(error)) is None:
            raise
    if closed.num_rows == 1:
        yield FailedRow(closed, said[:_SHOWN])
        return
    half = closed.num_rows // 2
    yield from _parts(recompute, closed.slice(0, half))
    yield from _parts(recompute, closed.slice(half))


def _too_many(failed: Sequence[FailedRow]) -> ExpressionFailed:
    return ExpressionFailed(
        f"{failed[0].said}\nMore than {MOST_FAILING} windows fail like this before their measures "
        "can be evaluated, which are too many to set them aside one by one. What was committed "
        "before stays. Starting again does not help. Correct the expression in the pipeline's "
        "file: `tidemark validate` says whether its tables can follow."
    )
