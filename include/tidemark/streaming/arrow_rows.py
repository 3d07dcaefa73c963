"""Arrow's rows as a DataFrame. The one door for them.

PySpark sends each chunk of a table as a batch of its own, and the JVM takes two empty batches in
sequence for the end: `createDataFrame` gives the rows before them, without an error (found with
Spark 4.2.0, PythonSQLUtils.readArrowStreamFromFile; tests/streaming/test_arrow_rows.py).
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

# Of how many bytes Spark still puts the rows into its plan.
_MOST_IN_PLAN = "spark.sql.execution.arrow.localRelationThreshold"


def frame_beside_plan(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """All of the rows, of which the plan does not hold any: the optimizer computes on those that it
    holds, row by row and by itself, which took half of a second for 100,000."""
    before = str(spark.conf.get(_MOST_IN_PLAN))
    spark.conf.set(_MOST_IN_PLAN, "0")
    try:
        return frame_of(spark, rows)
    finally:
        spark.conf.set(_MOST_IN_PLAN, before)


def frame_of(spark: SparkSession, rows: pa.Table, schema: StructType | None = None) -> DataFrame:
    """All of the rows, in Spark's types of theirs or in those of `schema`."""
    if not rows.num_rows:
        # Of no row PySpark makes no column whose type has parts (ArrowInvalid).
        return spark.createDataFrame([], schema or from_arrow_schema(rows.schema))
    whole = rows.combine_chunks()
    return spark.createDataFrame(whole) if schema is None else spark.createDataFrame(whole, schema)
