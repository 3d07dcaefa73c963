"""Compare windows of gold with those computed from bronze, where it scales: in one Spark plan.

Both sides are put below each other and grouped by window and keys: null keys are keys, a key
that stands in gold twice is found, and there is one shuffle. Which values are the same is the rule
of every publish (`gold/row_values.py`).
"""

from __future__ import annotations

from datetime import UTC
from typing import Any

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.gold.row_values import same
from tidemark.operators.operator import Operator
from tidemark.recompute.differences import (
    DIFFERENT,
    DIFFERING,
    DUPLICATED,
    EQUAL,
    EXAMPLES,
    FAILING,
    ONLY_IN_BRONZE,
    ONLY_IN_GOLD,
    Differences,
    Example,
    plain,
)
from tidemark.storage.delta.history import FAILURE


def wide_session(spark: SparkSession) -> SparkSession:
    """A session for comparisons on the same engine: the platform's own is set for small runs."""
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "true")
    partitions = 4 * spark.sparkContext.defaultParallelism
    session.conf.set("spark.sql.adaptive.coalescePartitions.initialPartitionNum", partitions)
    return session


def compare_windows(gold: DataFrame, computed: DataFrame, operator: Operator) -> DataFrame:
    """One row for each window and key that either side has: `_kind`, and both sides' values.

    `_gold` and `_bronze` are structs of the operator's values, null where a side lacks
    the window; keys stand beside them.
    """
    both = _side(gold, operator, True).unionByName(_side(computed, operator, False))
    grouped = both.groupBy(*[F.col(f"`{name}`") for name in operator.identity]).agg(
        F.first(F.when(F.col("_in_gold"), F.col("_values")), ignorenulls=True).alias("_gold"),
        F.first(F.when(~F.col("_in_gold"), F.col("_values")), ignorenulls=True).alias("_bronze"),
        F.count_if("_in_gold").alias("_times"),
    )
    return grouped.withColumn("_kind", _kind(grouped.schema["_gold"].dataType))


def window_differences(compared: DataFrame, operator: Operator) -> Differences:
    """The counts, and examples of what differs: two passes where anything does, else one."""
    counted = compared.groupBy("_kind").agg(
        F.count(F.lit(1)).alias("windows"),
        F.sum("_times").alias("in_gold"),
        F.count("_bronze").alias("in_bronze"),
        F.sum("_bronze.rows").alias("rows"),
    )
    counts = {row["_kind"]: row for row in counted.collect()}
    return Differences(
        gold_windows=sum(row["in_gold"] for row in counts.values()),
        bronze_windows=sum(row["in_bronze"] for row in counts.values()),
        bronze_rows=sum(row["rows"] or 0 for row in counts.values()),
        **{kind: row["windows"] for kind, row in counts.items()},
        examples=_examples(compared, operator) if counts.keys() & {*DIFFERING} else {},
    )


def differing_values(compared: DataFrame, operator: Operator) -> DataFrame:
    """What gold has to become: bronze's values of the windows that differ, in gold's columns.

    A window that bronze has no row of comes with `rows` 0 and null measures; one that fails with
    FAILURE.
    """
    return compared.where(F.col("_kind").isin(*DIFFERING)).select(
        *[F.col(f"`{name}`") for name in operator.identity],
        *[_value(name) for name in (*operator.values, FAILURE)],
    )


def _value(name: str) -> Column:
    if name == "window_end":
        return F.coalesce("_bronze.window_end", "_gold.window_end").alias(name)
    if name == "rows":
        return F.coalesce("_bronze.rows", F.lit(0).cast("bigint")).alias(name)
    return F.col(f"_bronze.`{name}`").alias(name)


def _side(windows: DataFrame, operator: Operator, in_gold: bool) -> DataFrame:
    values = [F.col(f"`{name}`") for name in operator.values]
    fails = F.lit(None).cast("string") if in_gold else F.col(FAILURE)
    return windows.select(
        *[F.col(f"`{name}`") for name in operator.identity],
        F.struct(*values, fails.alias(FAILURE)).alias("_values"),
        F.lit(in_gold).alias("_in_gold"),
    )


def _kind(values: T.DataType) -> Column:
    assert isinstance(values, T.StructType)
    floating = T.DoubleType | T.FloatType
    same_values = " AND ".join(
        same(f"_gold.`{one.name}`", f"_bronze.`{one.name}`", isinstance(one.dataType, floating))
        for one in values.fields
    )
    return (
        F.when(F.col("_times") > 1, DUPLICATED)
        .when(F.col("_bronze").isNull(), ONLY_IN_GOLD)
        .when(F.col("_gold").isNull() & F.col(f"_bronze.{FAILURE}").isNotNull(), FAILING)
        .when(F.col("_gold").isNull(), ONLY_IN_BRONZE)
        .when(F.expr(same_values), EQUAL)
        .otherwise(DIFFERENT)
    )


def _examples(compared: DataFrame, operator: Operator) -> dict[str, list[Example]]:
    differing = compared.where(F.col("_kind").isin(*DIFFERING)).persist()
    try:
        found = {
            kind: _first(differing.where(F.col("_kind") == kind), operator) for kind in DIFFERING
        }
    finally:
        differing.unpersist()
    return {kind: examples for kind, examples in found.items() if examples}


def _first(windows: DataFrame, operator: Operator) -> list[Example]:
    order = [F.col(f"`{name}`") for name in operator.identity]
    return [_example(row, operator) for row in windows.orderBy(*order).limit(EXAMPLES).collect()]


def _example(row: Row, operator: Operator) -> Example:
    sides = [_plain_values(row[name]) for name in ("_gold", "_bronze")]
    if not any(values and values[FAILURE] for values in sides):
        sides = [values and {n: v for n, v in values.items() if n != FAILURE} for values in sides]
    gold, bronze = sides
    return Example(
        # Spark gives Python instants in the machine's own zone, without saying so.
        window_start=row["window_start"].astimezone(UTC),
        keys={name: plain(row[name]) for name in operator.identity if name != "window_start"},
        gold=gold,
        bronze=bronze,
    )


def _plain_values(values: Row | None) -> dict[str, Any] | None:
    return None if values is None else {n: plain(v) for n, v in values.asDict().items()}
