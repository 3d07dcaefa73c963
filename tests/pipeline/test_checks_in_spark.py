"""Spark says of a row's conditions what DuckDB says of their translations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.pipeline.test_checks import ROW, TRANSLATED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_spark_says_the_same(spark: SparkSession) -> None:
    told = ", ".join(f"({text})" for text in TRANSLATED)
    (row,) = spark.sql(f"SELECT {told} FROM ({ROW})").collect()
    assert dict(zip(TRANSLATED, row, strict=True)) == TRANSLATED
