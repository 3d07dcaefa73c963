"""Rows that do not fail have the values that Spark gives for each alone; the others are those for
which Spark alone raises, with the same column first."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.judge.judging import pipeline_of
from tidemark.pipeline.model import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = {
    "n": "long", "i": "int", "x": "double", "d": "decimal(10,2)", "s": "string",
    "t": "string", "xs": "array<long>", "k": "map<string,long>",
}  # fmt: skip
SCHEMA = f"{', '.join(f'{name} {kind}' for name, kind in COLUMNS.items())}, at timestamp"
LONG = st.sampled_from([0, 1, -1, 2, 7, 2**31, 2**63 - 1, -(2**63)])
TEXT = st.sampled_from(["", "0", "12", " 7 ", "1.5", "abc", "2026-03-01", "2026-13-01", "é"])
ROW = st.tuples(
    LONG | st.none(),
    st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31)]) | st.none(),
    st.sampled_from([0.0, -0.0, 1.5, 1e300, math.inf, math.nan]) | st.none(),
    st.sampled_from([Decimal("0.00"), Decimal("1.25"), Decimal("99999999.99")]) | st.none(),
    TEXT | st.none(),
    TEXT | st.none(),
    st.lists(LONG | st.none(), max_size=3) | st.none(),
    st.dictionaries(st.sampled_from(["", "12", "abc"]), LONG | st.none(), max_size=2) | st.none(),
    st.just(datetime(2026, 3, 1, tzinfo=UTC)),
)
NUMBERS = st.sampled_from(["n", "i", "d", "x", "0", "1", "3", "xs[1]", "k['12']", "size(xs)"])
WHOLE = st.sampled_from(["n", "i", "0", "1", "3", "xs[1]", "k['12']", "size(xs)"])
TEXTS = st.sampled_from(["s", "t", "'12'", "'x'", "cast(n as string)", "concat(s, t)"])


def _of(template: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(lambda chosen: template.format(*chosen))


def _larger(number: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        _of("({0} / {1})", number, number),
        _of("({0} * {1})", number, number),
        _of("({0} + {0})", number),
        _of("({0} % {1})", number, number),
        _of("({0} div {1})", WHOLE, WHOLE),
        _of("(- {0})", number),
        _of("cast({0} as int)", number),
        _of("cast({0} as decimal(6,1))", number),
        _of("cast({0} as tinyint)", number),
        _of("cast({0} as bigint)", TEXTS),
        _of("element_at(xs, cast({0} as int))", NUMBERS),
        _of("if({0} > 1, {1}, {2})", number, number, number),
        _of("case when {0} = 0 then 0 else {1} / {0} end", number, number),
        _of("coalesce({0}, {1})", number, number),
        _of("nullif({0}, {1})", number, number),
        _of("pmod({0}, {1})", NUMBERS, NUMBERS),
        _of("aggregate(xs, 0L, (a, b) -> a + b)"),
        _of("size(transform(xs, e -> {0} div e))", WHOLE),
        _of("hour(to_timestamp({0}))", TEXTS),
        _of("year(cast({0} as date))", TEXTS),
        _of("month(make_date(i, cast({0} as int), 1))", NUMBERS),
        _of("length(repeat(s, 3)) / length({0})", TEXTS),
    )


EXPRESSION = st.recursive(NUMBERS, _larger, max_leaves=4)


def _source(expressions: list[str]) -> Source:
    source = pipeline_of(COLUMNS).source
    first = dict(zip(("one", "two", "three"), expressions, strict=False))
    # One that reads another, and one that stands twice.
    read = {"read": "one + 1", "again": expressions[0]}
    return source.model_copy(update={"derive": {**first, **read}})


def _alone(row: DataFrame, source: Source) -> Any:
    """The row's derived values as Spark gives them, or the first column that it raises for."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    for name, sql in source.derive.items():
        row = row.withColumn(name, F.expr(sql))
    try:
        return _comparable(row.select(*source.derive).collect()[0])
    except PySparkException:
        pass
    for name in source.derive:
        try:
            row.select(name).collect()
        except PySparkException:
            return name
    raise AssertionError("together they fail, each alone does not")


def _comparable(values: Any) -> list[str]:
    # NaN is no NaN, and -0.0 is 0.0, to Python.
    return [repr(value) for value in values]


@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(
    expressions=st.lists(EXPRESSION, min_size=1, max_size=3),
    rows=st.lists(ROW, min_size=4, max_size=6),
)
def test_rows_fail_and_have_values_as_each_has_alone(
    spark: SparkSession, expressions: list[str], rows: list[Any]
) -> None:
    from tidemark.streaming.derive import derived

    source = _source(expressions)
    found = [
        row["_failed"]["column"]
        if row["_failed"]
        else _comparable(row[name] for name in source.derive)
        for row in derived(spark.createDataFrame(rows, SCHEMA), source).collect()
    ]
    assert found == [_alone(spark.createDataFrame([row], SCHEMA), source) for row in rows]
