"""Measures whose failure is a verdict on their row, and no end of the query.

A measure is evaluated when its aggregates are complete, so the engine's state is the same with and
without this, and a checkpoint that either has left goes on with the other.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from tidemark.pipeline.expressions.exact_sums import exact_sums
from tidemark.storage.delta.history import FAILURE
from tidemark.streaming.engine.tried import tried_in

_SHOWN = 240


def measured(
    grouped: GroupedData, measures: Mapping[str, str], rows: DataFrame, exact: bool
) -> DataFrame:
    """Each group of these rows with its measures, `rows`, and FAILURE.

    Sums of longs are exact where that is asked and the rows are no stream: its state has longs.

    A measure that cannot be evaluated (a division of one sum by another that is zero, say) is null
    then, and FAILURE names all of these with their SQL. What fails on an input row, or in an
    aggregate that overflows while it is put together, fails the query.
    """
    tried = tried_in(rows.sparkSession)
    # The state has the aggregates in the order in which they stand here: `rows` is the last.
    added = {name: _added(sql, rows, exact) for name, sql in measures.items()}
    columns = [tried(F.expr(sql), None).alias(name) for name, sql in added.items()]
    found = grouped.agg(*columns, F.count(F.lit(1)).alias("rows"))
    failures = [
        F.when(F.col(f"`{name}`").isNull(), F.lit(f"{name}: {sql[:_SHOWN]} failed"))
        for name, sql in measures.items()
    ]
    values = {name: F.col(f"`{name}`")["value"] for name in measures}
    failure = (
        F.nullif(F.concat_ws("; ", *failures), F.lit(""))
        if failures
        else F.lit(None).cast("string")
    )
    return found.withColumns({**values, FAILURE: failure})


def _added(sql: str, rows: DataFrame, exact: bool) -> str:
    if rows.isStreaming or not exact:
        return sql

    def is_long(summed: str) -> bool:
        return isinstance(rows.select(F.expr(summed)).schema[0].dataType, LongType)

    return exact_sums(sql, is_long)
