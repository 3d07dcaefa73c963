"""Which measure took Java's stack, and on which row of bronze."""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.errors import StackExhausted
from tidemark.pipeline.expressions.sql import columns_read
from tidemark.pipeline.settings.storage_options import spark_uri
from tidemark.sources.kinds import row_origin
from tidemark.streaming.exhausted import exhausted, found_exhausting
from tidemark.streaming.run.aggregate import Aggregate


def with_measure(spark: SparkSession, plan: Aggregate, failure: StackExhausted) -> StackExhausted:
    """The failure of a table's query with the measure and the row, where one of the last batch of
    bronze exhausts the stack by itself; else as it is. Only reads."""
    rows = spark.read.format("delta").load(spark_uri(plan.bronze.uri))
    last = rows.agg(F.max("_batch")).collect()[0][0]
    before = "tables." + plan.table_name + ".measures."
    asked = {
        before + name: partial(_measured, sql=sql) for name, sql in plan.table.measures.items()
    }
    read = {
        before + name: columns_read(sql, rows.columns) for name, sql in plan.table.measures.items()
    }
    place = [one.name for one in row_origin(plan.pipeline)]
    found = found_exhausting(rows.where(F.col("_batch") == last), asked, place, read)
    if found is None:
        return failure
    return exhausted(
        f"The query {plan.table_name} failed. It was {found}. What was committed before stays; the "
        "next run repeats the batch that failed."
    )


def _measured(rows: DataFrame, sql: str) -> DataFrame:
    return rows.agg(F.expr(sql))
