"""A row on which a derived column fails is told, with what failed; the others go on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.judge.judging import pipeline_of
from tidemark.errors import EngineChanged
from tidemark.pipeline.model import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = {"n": "long", "s": "string", "xs": "array<long>", "b": "binary"}
SCHEMA = "n long, s string, xs array<long>, b binary, at timestamp"
CODEGEN, FACTORY = "spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode"


def source_of(**derive: str) -> Source:
    return pipeline_of(COLUMNS, derive=derive).source


def rows_of(spark: SparkSession, *values: tuple[Any, ...]) -> DataFrame:
    """Rows of (n, s, xs, b), as far as these are given."""
    return spark.createDataFrame([(*row, *[None] * (5 - len(row))) for row in values], SCHEMA)


def told(rows: DataFrame, source: Source) -> list[Any]:
    """For each row its derived values, or the column that failed."""
    from tidemark.streaming.derive import derived

    return [
        row["_failed"]["column"] if row["_failed"] else tuple(row[name] for name in source.derive)
        for row in derived(rows, source).collect()
    ]


def details(rows: DataFrame, source: Source) -> list[str]:
    from tidemark.streaming.derive import derived, failure_details

    failed = derived(rows, source).where("_failed is not null")
    return [row["_detail"] for row in failure_details(failed, source).collect()]


@contextmanager
def set_to(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name) for name in conf}
    try:
        for name, value in conf.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, str(value))


def test_the_first_column_that_fails_is_told_and_the_other_rows_have_their_values(
    spark: SparkSession,
) -> None:
    source = source_of(q="100 / n", whole="cast(s as int) + q", third="element_at(xs, 3)")
    rows = rows_of(
        spark,
        (4, "1", [1, 2, 3]),
        (0, "1", [1, 2, 3]),
        (4, "one", [1, 2, 3]),
        (4, "1", [1]),
        (0, "one", [1]),
        (None, None, None),
    )
    assert told(rows, source) == [
        (25.0, 26.0, 3),
        "q",
        "whole",
        "third",
        "q",
        (None, None, None),
    ]


def test_a_row_that_fails_has_no_derived_value_and_keeps_its_own(spark: SparkSession) -> None:
    from tidemark.streaming.derive import derived

    source = source_of(twice="n * 2", q="100 / n")
    row = derived(rows_of(spark, (0, "text")), source).collect()[0]
    assert (row["n"], row["s"], row["twice"], row["q"]) == (0, "text", None, None)
    assert (row["_failed"]["column"], row["_failed"]["values"]) == ("q", "n = 0")


def test_without_derived_columns_no_row_fails(spark: SparkSession) -> None:
    from tidemark.streaming.derive import derived

    row = derived(rows_of(spark, (0,)), source_of()).collect()[0]
    assert row["_failed"] is None


@pytest.mark.parametrize(
    "conf",
    [
        {},
        {CODEGEN: "false"},
        {CODEGEN: "false", FACTORY: "NO_CODEGEN"},
        {"spark.sql.codegen.maxFields": "1"},
        {"spark.sql.codegen.hugeMethodLimit": "10"},
    ],
    ids=["generated", "projections", "interpreted", "many fields", "huge methods"],
)
def test_rows_are_told_alike_however_the_engine_evaluates(
    spark: SparkSession, conf: dict[str, str]
) -> None:
    same = "100 / n + cast(s as int)"
    source = source_of(
        one=same, other=same, sum=f"{same} + {same} + one", may=f"if(n = 0, 0, {same})"
    )
    rows = rows_of(spark, (1, "1"), (0, "1"), (1, "x"), (0, "x"), (2, None))
    with set_to(spark, conf):
        assert told(rows, source) == [
            (101.0, 101.0, 303.0, 101.0),
            "one",
            "one",
            "one",
            (None, None, None, None),
        ]


@pytest.mark.parametrize(
    "sql",
    [
        "1 / 0",
        "cast('x' as int) + n",
        "if(true, cast('x' as int), n)",
        "coalesce(1 / 0, n)",
        "case when n > 0 then 1 / 0 else 1 / 0 end",
    ],
)
def test_an_expression_that_fails_without_reading_a_column_fails_each_row(
    spark: SparkSession, sql: str
) -> None:
    assert told(rows_of(spark, (1,), (2,)), source_of(bad=sql)) == ["bad", "bad"]


def test_a_branch_that_a_row_does_not_take_does_not_fail_it(spark: SparkSession) -> None:
    source = source_of(q="if(n = 0, -1, 100 div n)", known="coalesce(n, 1 div 0)")
    assert told(rows_of(spark, (0,), (5,), (None,)), source) == [(-1, 0), (20, 5), "known"]


# By expression: the last `n` within the years 1 to 9999, and the first one that is not.
FAR = {
    "date_add(date '9999-12-31', cast(n as int))": (0, 1),
    "date_add(date '0001-01-01', cast(n as int))": (0, -1),
    "timestamp_millis(n)": (253_402_300_799_999, 253_402_300_800_000),
    "timestamp_micros(n)": (-62_135_596_800_000_000, -62_135_596_800_000_001),
    "array(null, date_add(date '9999-12-31', cast(n as int)))": (0, 1),
    "array(named_struct('a b', array(timestamp_millis(n)), 'c', n))": (0, 1_700_000_000_000_000),
    "map(timestamp_seconds(n), 1)": (0, 1_700_000_000_000),
    "map(1, timestamp_seconds(n))": (0, 1_700_000_000_000),
}


@pytest.mark.parametrize(("sql", "ends"), FAR.items(), ids=FAR)
def test_a_day_or_a_time_outside_the_calendar_is_a_failure(
    spark: SparkSession, sql: str, ends: tuple[int, int]
) -> None:
    from tidemark.streaming.derive import derived

    within, beyond = ends
    source = source_of(far=sql, text="cast(far as string)")
    rows = rows_of(spark, (within,), (beyond,), (None,) if "map(" not in sql else (within,))
    found = derived(rows, source).selectExpr("_failed.column", "far is null", "text is null")
    null = "map(" not in sql and "array(" not in sql
    assert [tuple(row) for row in found.collect()] == [
        (None, False, False),
        ("far", True, True),
        (None, null, null),
    ]
    (detail,) = details(rows, source)
    assert detail == (
        f"far: {sql} failed: its day or time lies outside the years 1 to 9999 (n = {beyond})"
    )


def test_an_expression_too_long_for_one_method_tells_its_rows(spark: SparkSession) -> None:
    parts = [f"cast(substring(s, {at % 5 + 1}, 1) as int) * {at}" for at in range(120)]
    source = source_of(long=" + ".join(parts))
    expected = sum((at % 5 + 1) * at for at in range(120))
    rows = rows_of(spark, (1, "12345"), (1, "1234x"), (1, None))
    assert told(rows, source) == [(expected,), "long", (None,)]


def test_what_reads_the_derived_rows_does_not_make_a_failure_escape(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    from tidemark.streaming.derive import derived

    rows = derived(rows_of(spark, (0, "a"), (1, "b"), (2, "c")), source_of(q="100 div n"))
    good = rows.where("_failed is null").where("q > 50").select((F.col("q") + 1).alias("more"))
    assert [row["more"] for row in good.collect()] == [101]
    assert rows.groupBy("q").count().count() == 3
    assert rows.where("_failed.column = 'q'").select("s").collect()[0]["s"] == "a"


def test_a_detail_has_column_expression_the_engines_words_and_the_values(
    spark: SparkSession,
) -> None:
    (detail,) = details(rows_of(spark, (0,)), source_of(quotient="100 / n"))
    assert detail.startswith("quotient: 100 / n failed: [DIVIDE_BY_ZERO] Division by zero.")
    assert detail.endswith(" (n = 0)")


def test_a_detail_shows_nulls_texts_bytes_and_derived_values_cut_where_they_are_long(
    spark: SparkSession,
) -> None:
    source = source_of(
        twice="n * 2", bad="element_at(xs, 9) + twice + length(concat(s, hex(b)))"
    )  # fmt: skip
    (detail,) = details(rows_of(spark, (3, "é" * 300, [1], b"\xff\x00")), source)
    assert detail.endswith(f" (s = '{'é' * 120}', xs = [1], b = FF00, twice = 6)")
    (detail,) = details(rows_of(spark, (None, None, [1], None)), source)
    assert detail.endswith(" (s = null, xs = [1], b = null, twice = null)")


def test_a_detail_of_an_expression_that_reads_nothing_shows_no_values(spark: SparkSession) -> None:
    (detail,) = details(rows_of(spark, (1,)), source_of(never="1 / 0"))
    assert "[DIVIDE_BY_ZERO]" in detail
    assert not detail.endswith(")")


def test_few_failures_are_asked_for_and_the_same_ones_in_any_order_of_rows(
    spark: SparkSession,
) -> None:
    source = source_of(whole="cast(s as int)", q="n / 0")
    rows = [(1, f"x{number}") for number in range(40)] + [(number, "1") for number in range(40)]
    forth = details(rows_of(spark, *rows).repartition(1), source)
    back = details(rows_of(spark, *reversed(rows)).repartition(3), source)
    assert sorted(forth) == sorted(back)
    said = [detail for detail in forth if "failed: [" in detail]
    assert 8 <= len(said) <= 16
    for detail in said:
        value = detail.rpartition("= ")[2].rstrip(")")
        assert "whole" not in detail or f"The value {value} " in detail


def test_all_rows_with_the_same_values_are_told_the_engines_words(spark: SparkSession) -> None:
    found = details(rows_of(spark, *[(0, str(number)) for number in range(50)]), source_of(q="1/n"))
    assert len(found) == 50
    assert len(set(found)) == 1
    assert "[DIVIDE_BY_ZERO]" in found[0]


def test_columns_may_be_named_as_the_parts_of_a_failure(spark: SparkSession) -> None:
    columns = {"column": "long", "kind": "string", "share": "long"}
    source = pipeline_of(columns, derive={"row": "column / share"}).source
    schema = "column long, kind string, share long, at timestamp"
    rows = spark.createDataFrame([(1, "k", 0, None)], schema)
    (detail,) = details(rows, source)
    assert detail.endswith("(column = 1, share = 0)")


def test_the_engine_has_all_that_trying_calls(spark: SparkSession) -> None:
    """Fails first where a new Spark moved something: mend `engine/tried.py`."""
    from tidemark.streaming.engine.tried import tried_in

    tried_in(spark)


def test_what_the_engine_has_moved_of_trying_is_named(spark: SparkSession) -> None:
    from tidemark.streaming.engine.known import Called
    from tidemark.streaming.engine.tried import CALLED, tried_in

    moved = Called(CALLED[0].owner + "Anew", CALLED[0].name, CALLED[0].parameters)
    with pytest.raises(EngineChanged) as raised:
        tried_in(spark, (*CALLED, moved))
    assert moved.summary in str(raised.value)
    assert "an expression that may fail" in str(raised.value)


def test_errors_of_the_engine_are_told_and_logged_as_before_once_details_were_asked_for(
    spark: SparkSession,
) -> None:
    from pyspark.errors import ArithmeticException
    from pyspark.logger import PySparkLogger

    details(rows_of(spark, (0,)), source_of(q="100 / n"))
    with pytest.raises(ArithmeticException, match="DIVIDE_BY_ZERO"):
        rows_of(spark, (0,)).selectExpr("100 / n").collect()
    assert not PySparkLogger.getLogger("SQLQueryContextLogger").disabled
