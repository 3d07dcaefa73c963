"""Measures whose failure is a verdict on their row, and no end of the query.

A measure is evaluated when its aggregates are complete, so the engine's state is the same with and
without this, and a checkpoint that either has left goes on with the other.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, GroupedData, SparkSession
from pyspark.sql import functions as F

from tidemark.storage.delta.history import FAILURE
from tidemark.streaming.engine.tried import tried_in

_SHOWN = 240


def measured(grouped: GroupedData, measures: Mapping[str, str], spark: SparkSession) -> DataFrame:
    """Each group with its measures, `rows`, and FAILURE.

    A measure that cannot be evaluated (a division of one sum by another that is zero, say) is null
    then, and FAILURE names all of these with their SQL. What fails on an input row, or in an
    aggregate that overflows while it is put together, fails the query.
    """
    tried = tried_in(spark)
    # The state has the aggregates in the order in which they stand here: `rows` is the last.
    columns = [tried(F.expr(sql), None).alias(name) for name, sql in measures.items()]
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
