"""Rows of Arrow come to Spark whole, however they are chunked."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from tests.kit.running import REPOSITORY
from tidemark.streaming.arrow_rows import frame_of

ROWS = pa.table({"a": pa.array([1, 2], pa.int64()), "b": ["x", None]})
NONE = ROWS.schema.empty_table()
SCHEMA = T.StructType([T.StructField("a", T.LongType()), T.StructField("b", T.StringType())])
# Columns that are not chunked alike give an empty batch more.
UNLIKE = pa.table([ROWS["a"], pa.chunked_array([pa.array([], pa.string()), *ROWS["b"].chunks])],
                  names=["a", "b"])  # fmt: skip


@pytest.mark.parametrize(
    "tables",
    [[NONE], [NONE, NONE, ROWS], [ROWS, NONE, NONE, NONE, ROWS, NONE], [NONE, UNLIKE, ROWS]],
)
def test_no_row_is_lost_however_the_table_is_chunked(
    spark: SparkSession, tables: list[pa.Table]
) -> None:
    rows = pa.concat_tables(tables)
    expected = [tuple(row.values()) for row in rows.to_pylist()]
    for frame in (frame_of(spark, rows), frame_of(spark, rows, SCHEMA)):
        assert sorted(map(tuple, frame.collect()), key=str) == sorted(expected, key=str)


def test_a_table_without_rows_keeps_the_types_of_its_columns(spark: SparkSession) -> None:
    times = pa.timestamp("us", "UTC")
    kinds = {"a": pa.list_(times), "b": pa.struct([("K", pa.string()), ("t", times)]), "c": times}
    rows = pa.schema(list(kinds.items())).empty_table()
    found = frame_of(spark, rows)
    assert found.schema.simpleString() == (
        "struct<a:array<timestamp>,b:struct<K:string,t:timestamp>,c:timestamp>"
    )
    assert found.collect() == []


def test_the_engine_stops_at_two_empty_chunks(spark: SparkSession) -> None:
    """Where this fails the engine was mended, and `frame_of` may go."""
    rows = pa.concat_tables([ROWS, NONE, NONE, ROWS])
    assert (rows.num_rows, spark.createDataFrame(rows).count()) == (4, 2)


def test_nothing_else_makes_a_data_frame_of_rows() -> None:
    places = {
        path.name
        for folder in ("include", "jobs", "dags")
        for path in (REPOSITORY / folder).rglob("*.py")
        if re.search(r"createDataFrame(?!\(\[\])", path.read_text())
    }
    assert places == {"arrow_rows.py"}
