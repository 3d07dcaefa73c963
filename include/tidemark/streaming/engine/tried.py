"""The engine's own way to evaluate an expression whose failure is a null and no exception."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from tidemark.errors import EngineChanged
from tidemark.streaming.engine.known import Called, missing_in

_EXPRESSION = "org.apache.spark.sql.catalyst.expressions.Expression"
_UTILS = "org.apache.spark.sql.classic.ExpressionUtils"
CALLED = (
    Called("org.apache.spark.sql.catalyst.expressions.TryEval", "<init>", (_EXPRESSION,)),
    Called(_UTILS, "expression", ("org.apache.spark.sql.Column",)),
    Called(_UTILS, "column", (_EXPRESSION,)),
)

Tried = Callable[[Column, Column | None], Column]


def tried_in(spark: SparkSession, called: tuple[Called, ...] = CALLED) -> Tried:
    """`tried(column, when)`: struct<value> of the column; null where evaluating it raises, and
    where `when` is not true: there it is not evaluated (None: everywhere).

    EngineChanged where this Spark lacks what is called. Reads and writes nothing; milliseconds.
    """
    if missing := missing_in(spark, called):
        raise EngineChanged(
            f"Spark {spark.version} has moved what evaluates an expression that may fail in Spark "
            f"4.2: {'; '.join(missing)}. Nothing was written. Run with Spark 4.2."
        )
    jvm: Any = spark.sparkContext._jvm
    utils = jvm.org.apache.spark.sql.classic.ExpressionUtils
    try_eval = jvm.org.apache.spark.sql.catalyst.expressions.TryEval

    def tried(column: Column, when: Column | None) -> Column:
        value: Any = F.struct(column.alias("value"))
        guarded: Any = Column(utils.column(try_eval(utils.expression(value._jc))))
        known = _is_not_foreseen()
        return F.when(known if when is None else known & when, guarded)

    return tried


def _is_not_foreseen() -> Column:
    """True for every row, which the planner does not know.

    It hoists what stands in several places out of a projection, but not out of the branches of a
    condition; it folds what no column is read for, and raises what that raises, but not within a
    branch; and it copies no projection into another whose value it takes for one that changes.
    """
    return F.spark_partition_id() >= 0
