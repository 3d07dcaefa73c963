"""What a sum of longs comes to goes by its rows, and not by their order."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

LARGEST = 2**63 - 1
MEASURES = {
    "total": "sum(size)",
    "tried": "try_sum(size)",
    "once": "sum(DISTINCT size)",
    "some": "sum(size) FILTER (WHERE size <> 0)",
    "share": "sum(size) / count(size)",
    "whole": "sum(cast(size as decimal(38, 0)))",
}


def measured_in(spark: SparkSession, sizes: tuple[int, ...], exact: bool = True) -> Row:
    from tidemark.streaming.operators.measures import measured

    rows = spark.createDataFrame([(size,) for size in sizes], "size bigint").coalesce(1)
    (found,) = measured(rows.groupBy(), MEASURES, rows, exact).collect()
    return found


def test_a_sum_that_fits_is_found_in_every_order(spark: SparkSession) -> None:
    for sizes in permutations((LARGEST, 1, -5)):
        found = measured_in(spark, sizes)
        total = sum(sizes)
        assert (found["total"], found["tried"], found["once"]) == (total, total, total), sizes
        assert (found["some"], found["whole"], found["_failure"]) == (total, total, None)
        assert found["share"] == pytest.approx(total / 3)


def test_a_sum_that_exceeds_a_long_fails_in_every_order(spark: SparkSession) -> None:
    for sizes in permutations((LARGEST, 7, -5)):
        found = measured_in(spark, sizes)
        assert (found["total"], found["tried"], found["whole"]) == (None, None, sum(sizes))
        assert "total: sum(size) failed" in found["_failure"]
        assert "tried" not in found["_failure"]


def test_a_batch_that_fails_as_a_stream_does_adds_in_longs(spark: SparkSession) -> None:
    from pyspark.errors import ArithmeticException

    with pytest.raises(ArithmeticException, match="overflow"):
        measured_in(spark, (LARGEST, 1, -5), exact=False)


def test_columns_have_the_types_that_a_stream_gives_them(spark: SparkSession) -> None:
    from tidemark.streaming.operators.measures import measured

    rows = spark.createDataFrame([], "size bigint, price double, cents decimal(10, 2), few int")
    measures = MEASURES | {"a": "sum(price)", "b": "sum(cents)", "c": "sum(few)", "d": "1 + sum(1)"}
    added, plain = (measured(rows.groupBy(), measures, rows, exact) for exact in (True, False))
    assert added.schema == plain.schema
