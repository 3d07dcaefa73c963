"""What a query remembers, key by key, and what came, went or changed between two batches."""

from __future__ import annotations

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.errors import ConditionInvalid

CHANGE, VALUE, BEFORE, AFTER = "_change", "_value", "_before", "_after"
_OURS = frozenset({CHANGE, VALUE, BEFORE, AFTER})


def remembered(stored: DataFrame, where: str | None = None) -> DataFrame:
    """The columns of the key, and `_value`: what is held for it, as JSON with the engine's names.

    `where` is Spark SQL on the key's columns. Raises ConditionInvalid.
    """
    value = F.to_json("value", {"ignoreNullFields": "false"}).alias(VALUE)
    rows = stored.select("key.*", value)
    return rows if where is None else _filtered(rows, where)


def difference(before: DataFrame, after: DataFrame) -> DataFrame:
    """Of two results of `remembered`, the keys that are not the same in both: `_change` (added,
    removed, changed), the key's columns, `_before` and `_after`.

    States are compared, not what was written in between: a key that was written again with the
    same value is no difference, and any two batches that can be read can be compared.
    """
    keys = key_columns(after)
    one = before.select(F.struct(*map(_column, keys)).alias("one"), F.col(VALUE).alias(BEFORE))
    other = after.select(F.struct(*map(_column, keys)).alias("other"), F.col(VALUE).alias(AFTER))
    both = one.join(other, F.col("one").eqNullSafe(F.col("other")), "full_outer")
    change = (
        F.when(F.col("one").isNull(), "added")
        .when(F.col("other").isNull(), "removed")
        .otherwise("changed")
    )
    key = F.coalesce("one", "other").alias("key")
    differing = both.where(~F.col(BEFORE).eqNullSafe(F.col(AFTER)))
    return differing.select(change.alias(CHANGE), key, BEFORE, AFTER).select(
        CHANGE, "key.*", BEFORE, AFTER
    )


def key_columns(rows: DataFrame) -> list[str]:
    """The columns of the key."""
    return [name for name in rows.columns if name not in _OURS]


def ordered(rows: DataFrame) -> DataFrame:
    """By their keys."""
    return rows.orderBy(*map(_column, key_columns(rows)))


def _filtered(rows: DataFrame, where: str) -> DataFrame:
    try:
        return rows.where(where)
    except (AnalysisException, ParseException) as error:
        columns = ", ".join(f"{name} {rows.schema[name].dataType.simpleString()}"
                            for name in key_columns(rows))  # fmt: skip
        message = str(error).splitlines()[0]
        raise ConditionInvalid(
            f"`{where}` is no condition on the key, whose columns are {columns}. Nothing was read. "
            f"Spark says: {message}"
        ) from error


def _column(name: str) -> Column:
    return F.col(f"`{name}`")
