"""Gold's publish and the audit hold values to be the same by one rule, in two engines."""

from __future__ import annotations

from itertools import product

import duckdb
from pyspark.sql import SparkSession

from tidemark.gold.row_values import same

VALUES = ["0", "-0", "1", "1.0000000001", "1.00001", "1e308", "-1e308", "1e-300"]
EDGES = ["NaN", "Infinity", "-Infinity"]


def cases() -> list[tuple[str, str]]:
    texts = [f"'{text}'" for text in (*VALUES, *EDGES)]
    return list(product([*texts, "NULL"], repeat=2))


def test_doubles_are_the_same_in_spark_where_they_are_in_duckdb(spark: SparkSession) -> None:
    rows = " UNION ALL ".join(
        f"SELECT {place} AS place, CAST({one} AS DOUBLE) AS a, CAST({other} AS DOUBLE) AS b"
        for place, (one, other) in enumerate(cases())
    )
    asked = f"SELECT {same('a', 'b', floating=True)} FROM ({rows}) ORDER BY place"
    by_duckdb = [found for (found,) in duckdb.connect().execute(asked).fetchall()]
    assert [row[0] for row in spark.sql(asked).collect()] == by_duckdb
    equal = {case for case, found in zip(cases(), by_duckdb, strict=True) if found}
    near = {("'1'", "'1.0000000001'"), ("'0'", "'-0'")}
    assert equal == {(one, one) for one, _ in cases()} | near | {(b, a) for a, b in near}


def test_of_what_is_no_double_nothing_near_is_the_same(spark: SparkSession) -> None:
    values = ("1.0000000000", "1.0000000001", "NULL")
    for one, other in product(values, repeat=2):
        asked = (
            f"SELECT {same('a', 'b', floating=False)} FROM (SELECT "
            f"CAST({one} AS DECIMAL(20, 10)) AS a, CAST({other} AS DECIMAL(20, 10)) AS b)"
        )
        assert spark.sql(asked).collect()[0][0] is (one == other)
        assert duckdb.connect().execute(asked).fetchall() == [(one == other,)]
