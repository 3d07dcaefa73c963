"""Spark says of a row's conditions what DuckDB says of their translations."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

from tests.pipeline.test_checks import ROW, TRANSLATED
from tidemark.pipeline.expressions.in_duckdb import columns_of, condition_in_duckdb
from tidemark.storage.arrow_kinds import kinds_of
from tidemark.storage.duckdb_in_utc import duckdb_in_utc

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARROW = pa.schema(
    [
        *(("n", pa.int64()), ("y", pa.int8()), ("h", pa.int16()), ("i", pa.int32())),
        *(("l", pa.int64()), ("f", pa.float32()), ("x", pa.float64())),
        *(("price", pa.decimal128(10, 2)), ("sum", pa.decimal128(20, 2))),
        *(("mean", pa.decimal128(14, 6)), ("s", pa.string()), ("b", pa.bool_())),
        *(("t", pa.timestamp("us", "UTC")), ("d", pa.date32()), ("bin", pa.binary())),
    ]
)
SCHEMA = """n bigint, y tinyint, h smallint, i int, l bigint, f float, x double,
    price decimal(10,2), sum decimal(20,2), mean decimal(14,6), s string, b boolean, t timestamp,
    d date, bin binary"""
NUMBERS = [
    (1, 1, 1, 1, 1.0, 1.0, "1.00", "1.00", "1.000000"),
    (127, 32_767, 2_147_483, 9_007_199_254_740_993, 0.1, 0.1, "0.10", "0.10", "0.100000"),
    (-128, -32_768, -7, -7, -1.5, -1.5, "-1.50", "-1.50", "-1.500000"),
    (0, 0, 0, 0, -0.0, -0.0, "0.00", "0.00", "0.000000"),
    (2, 3, 5, 7, 2.675, 2.675, "2.67", "90071992547409.93", "2.675000"),
    (3, 3, 3, 3, 1e10, 1e10, "99999999.99", "123456789012345678.91", "99999999.999999"),
    (None, None, None, None, None, None, None, None, None),
    (9, 9, 9, 9, math.nan, math.nan, "9.99", "9.99", "9.999999"),
    (5, 5, 5, 5, math.inf, 0.30000000000000004, "0.30", "0.30", "0.300000"),
]
TEXTS = ["a,b", "straße", "ÄÖÜ ﬁ ΐ", "İstanbul", "", None, "3", "0.10", "e\u0301\U0001f926"]
TIMES = [
    datetime(2026, 1, 1, 10, 10, tzinfo=UTC),
    datetime(2026, 1, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(2024, 2, 29, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC),
    None,
    datetime(2026, 3, 29, 1, 30, 0, 120_000, tzinfo=UTC),
    datetime(2026, 10, 25, 1, 30, tzinfo=UTC),
    datetime(2026, 1, 1, tzinfo=UTC),
    datetime(2262, 4, 12, tzinfo=UTC),
]


def rows() -> list[dict[str, Any]]:
    made = []
    for n, (numbers, text, time) in enumerate(zip(NUMBERS, TEXTS, TIMES, strict=True)):
        y, h, i, ll, f, x, *decimals = numbers
        exact = [None if one is None else Decimal(one) for one in decimals]
        day = None if time is None else date(time.year, time.month, time.day)
        flag = None if n == 3 else n % 2 == 0
        raw = None if text is None else text.encode()
        values = (n, y, h, i, ll, f, x, *exact, text, flag, time, day, raw)
        made.append(dict(zip(ARROW.names, values, strict=True)))
    return made


NUMERIC = ["y", "h", "i", "l", "f", "x", "price", "sum", "mean"]
LITERALS = ["0", "1", "0.1", "1.5", "2.675", "1e10", "9007199254740992", "'0.1'", "0.30", "-7"]
OTHERS = ["s", "b", "t", "d", "bin", "null", "'a,b'", "date '2026-01-01'", "interval 1 day"]
MORE = """length(s) = 3 | length(s) + length(bin) > 3 | length(bin) = 3 | s like '_%'
s like 'stra%e' | startswith(s, 'a') | endswith(s, '') | contains(s, ',') | s between 'a' and 'b'
s not like 'a%' | not s not like '_' | s not in ('3', '')
s in ('3', '') | t > '2026-01-01' | t = '2026-01-01' | t >= '2026-01-01 10:10:00' | d = '2026-01-01'
d in ('2026-01-01', '2024-02-29') | t between d and '2026-12-31' | d < t | t = d
d > '2026-1-1' | t > '2026' | t > 'x' | d = '2026-01-01 00:00:00'
t = '2026-01-01T10:10:00+00:00' | t - d = interval 10 hours | t - t = interval 0 seconds
d - date '2025-12-31' = interval 1 day | t - timestamp '2026-01-01 00:00:00' > interval 30 days
d + 1 = date '2026-01-02' | d - 1 < d | d + interval 1 month = date '2026-02-28'
t + interval 1 month > timestamp '2026-02-28 23:59:59Z' | d + interval 1 day = date '2026-01-02'
d + interval 2 weeks > d | t + interval 90 minutes > t | d + interval 1 year = date '2025-02-28'
t - interval 1 day = d | d + interval 1 hour > t
case when b then 1 when i > 3 then 1.5 end = 1 | case i when 1 then true when 3.0 then false end
case s when 'a,b' then i else x end = 1 | if(b, i, price) = 1 | if(b, s, 'x') = 'x'
if(b, d, t) = t | coalesce(x, i, 0) = 0 | coalesce(price, 0) = 0 | coalesce(s, '') = ''
coalesce(s, 0) = 0 | nullif(i, 1) = 3 | nullif(s, '') is null | greatest(i, x, price) = x
least(y, h, null) = y | greatest(s, 'b') = 'b' | greatest(d, t) = t | b and i > 0 | b or s = ''
not b | b = true | b <=> null | b is true | b is not false | i is null | x is not null
b > false | i in (1, 3.0, null) | i not in (1, 2) | x in (0.1, 2.675) | y + 1 = 128
y * y > 100 | h + y < 0 | i div 2 = -3 | -i = 7 | abs(i) = 7 | i % 3 = -1 | x % 1 = 0.5
l div 3 = 2 | price % 0.3 = 0.1 | i / 2 = 1.5 | l / 3 > 2 | x / 2 = 0.05 | price / 2 = 0.5
price / x > 1 | price * price = 1 | sum * sum > 0 | price + sum = 2 | mean * price > 1
price - 0.1 = 0 | f * 2 = 0.2 | f * f > 0.01 | f + x = 0.2 | f = 0.1 | f = x | -f > 0
abs(f) = 1.5 | f in (0.1, 1) | i + price = 2 | i - 0.1 = 0.9 | l * price > 0 | 100 * i / l = 100
(i + l) / 2 = 1 | 1 - x = 0 | x = x | x > 1e9 | x <=> f | i <=> y | price <=> sum | -x < 0
0.1 + 0.2 = 0.3 | 0.1 + x = 0.2 | x * 0.1 > 0 | 1e0 / 3 = x | 9223372036854775807 > l
99999999999999999999 > l | price between 0 and 1.5 | x between f and 2 | s = 'A,B'
s <> 'straße' | s > 'a' | bin = bin | s = 3 | s > 1.5 | '1' = 1 | i = '3' | x > '0.1'
b = 'true'
nullif(sum, x) > 123456789012345678.90 | nullif(sum, f) + 0.01 = 123456789012345678.92
coalesce(f, f) * f > 0.0100000005 | least(f, f) + x = 0.2 | coalesce(f, i) * f > 0.0100000005"""

# Conditions and numbers made of others: `{c}` and `{n}` stand where words, commas or comparisons
# part them from what is around them.
COMPOUND = 150
CONDITIONS = ["b", "i > 3", "s = ''", "s is null", "s not like 'a%'", "i in (1, 3)", "x <=> f"]
OF_OTHERS = """({c}) and ({c}) | ({c}) or ({c}) | not ({c}) | ({c}) = ({c}) | ({c}) <=> ({c})
({c}) is not null | ({c}) is true | ({c}) in ({c}, {c}) | ({c}) between ({c}) and ({c})
case {c} when {c} then {c} else {c} end | case {n} when {n} then {c} when {n} then {c} end
case when {c} then {c} end | if({c}, {c}, {c}) | coalesce({c}, {c}) | nullif({c}, {c})
greatest({c}, {c}) | {n} = {n} | {n} < {n} | {n} <=> {n} | {n} between {n} and {n}
{n} not in ({n}, {n})"""
VALUES = ["i", "1 + y", "l % 5", "price", "x", "2"]
OF_VALUES = """({n}) + ({n}) | ({n}) - ({n}) | 2 * ({n}) | -({n}) | ({n}) % 3 | ({n}) div 4
abs({n}) | coalesce({n}, {n}) | least({n}, {n}) | if({c}, {n}, {n}) | nullif({n}, {n})
case {c} when {c} then {n} else {n} end | case {n} when {n} then {n} end"""


def listed(text: str) -> list[str]:
    return [one.strip() for one in text.replace("\n", " | ").split(" | ")]


def compound(seed: int, around: str = "{}", depth: int = 3) -> str:
    """The condition of a number: the same number gives the same one, each part of it so."""
    draw = Random(seed)

    def made(part: str, left: int) -> str:
        simple, others = (CONDITIONS, OF_OTHERS) if part == "c" else (VALUES, OF_VALUES)
        if not left or draw.random() < 0.2:
            return draw.choice(simple)
        text = draw.choice(listed(others))
        return re.sub(r"\{(.)\}", lambda found: around.format(made(found[1], left - 1)), text)

    return made("c", depth)


# What Spark compiles in one piece.
AT_ONCE = 40


def questions() -> Iterator[str]:
    for one, other in itertools.product(NUMERIC, [*NUMERIC, *LITERALS, "s", "d"]):
        yield from (f"{one} = {other}", f"{one} > {other}")
    for one, other in itertools.product(OTHERS, repeat=2):
        yield from (f"{one} = {other}", f"{one} < {other}")
    yield from listed(MORE)
    yield from (compound(seed) for seed in range(COMPOUND))


def test_spark_says_the_same(spark: SparkSession) -> None:
    told = ", ".join(f"({text})" for text in TRANSLATED if "/ 0" not in text)
    (row,) = spark.sql(f"SELECT {told} FROM ({ROW})").collect()
    expected = {text: told for text, told in TRANSLATED.items() if "/ 0" not in text}
    assert dict(zip(expected, row, strict=True)) == expected


@pytest.mark.slow
def test_a_condition_means_the_same_with_brackets_around_its_parts() -> None:
    differ, asked = [], 0
    with duckdb_in_utc() as connection:
        connection.register("gold", pa.Table.from_pylist(rows(), ARROW))
        for seed in range(COMPOUND):
            told = []
            for text in (compound(seed), compound(seed, around="({})")):
                with suppress(ValueError):
                    sql = condition_in_duckdb(text, columns_of(kinds_of(ARROW)))
                    told.append(answers_of_duckdb(connection, sql))
            asked += bool(told)
            if told and told != [told[0]] * 2:
                differ.append((compound(seed), told))
    assert asked > COMPOUND / 2
    assert differ == []


def test_a_condition_is_refused_or_duckdb_answers_as_spark(spark: SparkSession) -> None:
    """Over each row; where Spark raises, DuckDB raises too, or gives null."""
    found = rows()
    frame = spark.createDataFrame([tuple(row.values()) for row in found], SCHEMA).cache()
    kinds = kinds_of(ARROW)
    asked = translated(kinds)
    assert len(asked) > 400
    answers: dict[str, list[Any]] = {}
    texts = list(asked)
    for start in range(0, len(texts), AT_ONCE):
        answers |= answers_of_spark(frame, texts[start : start + AT_ONCE])
    differ = []
    with duckdb_in_utc() as connection:
        connection.register("gold", pa.Table.from_pylist(found, ARROW))
        for text, sql in asked.items():
            told_of = answers_of_duckdb(connection, sql)
            for number, expected in enumerate(answers[text]):
                told = told_of[number]
                if expected == "raises" and told in ("raises", None):
                    continue
                if told != expected:
                    differ.append((text, found[number], told, expected))
    assert differ == []


def translated(kinds: Any) -> dict[str, str]:
    asked = {}
    for text in dict.fromkeys(questions()):
        with suppress(ValueError):
            asked[text] = condition_in_duckdb(text, columns_of(kinds))
    return asked


def answers_of_spark(frame: Any, texts: list[str]) -> dict[str, list[Any]]:
    """By halves where one of several raises, so that few queries are asked."""
    from pyspark.errors import AnalysisException, PySparkException

    try:
        told = frame.selectExpr("n", *(f"({text}) AS c{n}" for n, text in enumerate(texts)))
        answers = [row[1:] for row in sorted(told.collect(), key=lambda row: row["n"])]
        return {text: [row[n] for row in answers] for n, text in enumerate(texts)}
    except AnalysisException:
        # `validate` refuses by types what Spark does.
        if len(texts) == 1:
            return {texts[0]: []}
    except PySparkException:
        if len(texts) == 1:
            return {texts[0]: each_row_of_spark(frame, texts[0])}
    half = len(texts) // 2
    return answers_of_spark(frame, texts[:half]) | answers_of_spark(frame, texts[half:])


def each_row_of_spark(frame: Any, text: str) -> list[Any]:
    from pyspark.errors import PySparkException

    answers: list[Any] = []
    for number in range(len(NUMBERS)):
        try:
            (row,) = frame.where(f"n = {number}").selectExpr(text).collect()
            answers.append(row[0])
        except PySparkException:
            answers.append("raises")
    return answers


def answers_of_duckdb(connection: duckdb.DuckDBPyConnection, sql: str) -> list[Any]:
    """For each row; one by one where one of them raises."""
    try:
        return [
            one for (one,) in connection.execute(f"SELECT {sql} FROM gold ORDER BY n").fetchall()
        ]
    except duckdb.Error:
        return [answer_of_duckdb(connection, sql, number) for number in range(len(NUMBERS))]


def answer_of_duckdb(connection: duckdb.DuckDBPyConnection, sql: str, number: int) -> Any:
    try:
        told = connection.execute(f"SELECT {sql} FROM gold WHERE n = {number}").fetchone()
    except duckdb.Error:
        return "raises"
    assert told is not None
    return told[0]
