"""What is accepted at load time, Spark's analyzer accepts; what is refused, it refuses, or a
rule of ours does that the documentation states."""

from __future__ import annotations

import itertools
import os
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.pipeline.test_aggregates import BY_THE_ENGINE, FROM_BRONZE_ALONE
from tests.pipeline.test_expressions import call_of
from tidemark.pipeline.expressions import functions
from tidemark.pipeline.expressions.functions import (
    AGGREGATES,
    FROM_BRONZE,
    function_refusal,
    spark_functions,
)
from tidemark.pipeline.expressions.names import KnownName, Scope, spark_type
from tidemark.pipeline.expressions.sql import check_condition, check_derived, check_measure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TYPES = {
    "i": "int",
    "l": "bigint",
    "d": "double",
    "dec": "decimal(10,2)",
    "s": "string",
    "b": "boolean",
    "ts": "timestamp",
    "dt": "date",
    "bin": "binary",
    "arr": "array<int>",
    "st": "struct<x:int,y:string>",
    "m": "map<string,int>",
}
SCOPE: Scope = {name: KnownName(name, spark_type(text)) for name, text in TYPES.items()}

GOOD_MEASURES = """count(*) | count(1) | sum(l) | sum(i) / count(*) | count_if(i >= 400) | min(ts)
max(m['k']) | avg(d) | approx_count_distinct(s) | bool_or(b) | every(b) | stddev(d) | median(i)
count(*) filter (where b) | sum(dec) filter (where s like 'x%' and i > 1) | max(st.x) | max(s)
sum(case when b then 1 else 0 end) | round(avg(i), 2) | coalesce(sum(l), 0) | max(arr[0])
sum(size(arr)) | count_if(s in ('a', 'b')) | max(date_trunc('hour', ts)) | max(st) | min(arr)
100 * count_if(b) / count(*) | covar_pop(i, d) | bit_xor(i) | try_sum(l) | percentile(i, 0.9)
max(transform(arr, x -> x + 1)) | count_if(exists(arr, x -> x > 3)) | sum(i % 2) | max(i <=> 1)
count_if(ts > '2024-01-01') | count_if(i = '500') | sum(cast(s as int)) | sum(s::int)
max(greatest(i, l)) | sum(unix_timestamp(ts)) | max(ts + interval 1 day) | any(b) | some(b)"""

# Spark accepts these (and the run then fails on the first row, or adds up what makes no sense).
OUR_RULES = re.compile(
    r"(needs a number|needs a boolean), and has (text|a date or timestamp)"
    r"|with the text '.*', which (is none|tells no day)|cast one of them, as in `try_cast"
)
# … and these too, whose values no table can keep.
UNKEPT = re.compile(
    r"no table (here )?can keep|so it has no type|that Spark does not support yet"
    r"|takes bytes for text|Spark takes them for one|is text with a collation"
)
# What a kind-by-kind check lets pass and Spark then refuses at the run's start. Not wrong, but
# a number that may only fall.
MOST_MISSED = 37

ONE_COLUMN = """not {0} | {0} and b | -{0} | {0} like 'x' | upper({0}) | length({0}) | abs({0})
round({0}) | year({0}) | hour({0}) | case when {0} then 1 end | if({0}, 1, 2) | {0} + 1 | {0} - 1
{0} % 2 | {0} / 2 | {0} * 2 | {0} + interval 1 day | {0} is null | isnull({0}) | {0}[0] | {0}['x']
{0} = 1 | {0} = 'x' | {0} > 1 | {0} > 'x' | {0} = true | {0} = 1.5 | {0} in (1, 2) | {0} in ('x')
{0} between 1 and 2 | {0} between 'a' and 'b' | coalesce({0}, 1) | coalesce({0}, 'x') | {0} = null
coalesce({0}, true) | substring({0}, 1, 2) | regexp_extract({0}, 'a', 0) | ceil({0}) | sqrt({0})
{0} <=> 1 | cast({0} as int) | cast({0} as string) | cast({0} as boolean) | cast({0} as timestamp)
cast({0} as date) | {0} = timestamp '2020-01-01 00:00:00' | nullif({0}, 1) | {0}.x | hash({0})
contains({0}, 'x') | case {0} when 1 then 2 end | case when b then {0} else 1 end | concat({0})
sum({0}) | avg({0}) | min({0}) | max({0}) | count_if({0}) | count(*) filter (where {0})
bool_or({0}) | stddev({0}) | approx_count_distinct({0}) | median({0}) | count({0})
skewness({0})"""
TWO_COLUMNS = "{0} = {1} | {0} < {1} | {0} + {1} | {0} - {1} | coalesce({0}, {1}) | {0} and {1}"
TWO_COLUMNS += " | {0} in ({1}) | case when b then {0} else {1} end | {0} % {1}"


def is_ours(message: str) -> bool:
    return bool(OUR_RULES.search(message) or UNKEPT.search(message))


def listed(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"[|\n](?!\|)", text) if part.strip()]


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    schema = ", ".join(f"{name} {text}" for name, text in TYPES.items())
    return spark.createDataFrame([], schema)


def analyses(rows: DataFrame, expression: str) -> bool:
    from pyspark.errors import PySparkException

    try:
        return rows.selectExpr(expression) is not None
    except PySparkException:
        return False


@pytest.mark.parametrize("expression", [*listed(GOOD_MEASURES), *FROM_BRONZE_ALONE, *BY_THE_ENGINE])
def test_a_good_measure_is_accepted_here_and_in_spark(rows: DataFrame, expression: str) -> None:
    assert check_measure(expression, SCOPE) == []
    assert analyses(rows, expression)


def test_a_condition_is_what_spark_types_as_a_boolean(rows: DataFrame) -> None:
    found = [one.format(f"`{name}`") for one in listed(ONE_COLUMN) for name in TYPES]
    found += [one.format(*pair) for one in listed(TWO_COLUMNS)
              for pair in itertools.permutations(TYPES, 2)]  # fmt: skip
    refused, missed = [], 0
    for expression in found:
        if check_derived(expression, SCOPE)[0] or not analyses(rows, expression):
            continue
        is_boolean = rows.selectExpr(expression).schema[0].dataType.simpleString() == "boolean"
        accepted = not check_condition(expression, SCOPE)
        if is_boolean and not accepted:
            refused.append(expression)
        missed += accepted and not is_boolean
    # Text that Spark casts by itself, and fails on where it says neither.
    mixed = ["coalesce(`s`, true)", "coalesce(s, b)", "case when b then s else b end"]
    assert refused == mixed
    # What only Spark tells, a run tells before it reads a row.
    assert missed <= 19


# Constants of which Spark makes null in each row, or by which it fails; and those that it takes.
NO_ROW = """
sha2(s, 999) | sha2(s, -1) | conv(s, 99, 2) | conv(s, -2, 10) | conv(s, 2, 37) | unhex('zz')
decode(bin, 'utf8') | encode(s, 'latin1') | to_utc_timestamp(ts, 'Europe/Viena')
from_utc_timestamp(ts, 'utc') | next_day(dt, 'foo') | parse_url('http://a/b', 'host')
try_parse_url('http://a/b', 'foo') | try_to_binary(s, 'foo') | element_at(arr, 0)
split_part(s, 'x', 0) | slice(arr, 0, 1) | array_insert(arr, 0, 1) | elt(0, s, s) | elt(3, s, s)
format_number(i, -1) | regexp_extract(s, '1') | regexp_extract(s, '(1)', 2)
regexp_extract_all(s, '1') | regexp_replace(s, '1', '$1') | regexp_replace(s, '1', '5 $')
date_trunc('foo', ts) | trunc(dt, 'day')
"""
A_ROW = """
sha2(s, 0) | sha2(s, 224) | conv(s, 2, -36) | unhex('abc') | decode(bin, 'UTF-8')
encode(s, 'Utf-16Le') | to_utc_timestamp(ts, 'PST') | to_utc_timestamp(ts, '+1:5')
to_utc_timestamp(ts, 'UT+1') | from_utc_timestamp(ts, 'Etc/GMT+1') | next_day(dt, 'tUe')
parse_url('http://a/b', 'HOST') | try_to_binary(s, 'UTF8') | element_at(arr, -1)
split_part(s, 'x', -1) | slice(arr, -1, 1) | array_insert(arr, -1, 1) | elt(2, s, s)
format_number(i, 0) | regexp_extract(s, '1', 0) | regexp_extract(s, '(1)')
regexp_extract(s, '(?<n>1)(?:2)?', 1) | regexp_replace(s, '(1)', '$1$0') | date_trunc('dd', ts)
regexp_replace(s, '(?<n>1)', '${n}') | regexp_replace(s, '1', '$0') | trunc(dt, 'Mon')
"""


def test_constants_are_judged_as_spark_judges_them(rows: DataFrame, spark: SparkSession) -> None:
    from pyspark.errors import PySparkException

    values = {"s": "'1'", "bin": "cast('1' as binary)", "ts": "timestamp '2026-01-02 03:04:05'"}
    values |= {"dt": "date '2026-01-02'", "arr": "array(1, 2)", "i": "1"}
    row = spark.range(1).selectExpr(*(f"{value} as {name}" for name, value in values.items()))

    def value_of(expression: str) -> object:
        try:
            return row.selectExpr(expression).first()[0]
        except PySparkException:
            return None

    assert [one for one in listed(NO_ROW) if value_of(one) is not None] == []
    assert [one for one in listed(A_ROW) if value_of(one) is None] == []
    assert [one for one in listed(NO_ROW) if len(check_derived(one, SCOPE)[0]) != 1] == []
    assert [(one, found) for one in listed(A_ROW) if (found := check_derived(one, SCOPE)[0])] == []


def combinations() -> Iterator[str]:
    for template, column in itertools.product(listed(ONE_COLUMN), TYPES):
        yield template.format(column)
    for template, pair in itertools.product(listed(TWO_COLUMNS), itertools.product(TYPES, TYPES)):
        yield template.format(*pair)


@pytest.mark.long
def test_types_are_judged_as_spark_judges_them(rows: DataFrame) -> None:
    aggregate = re.compile(rf"({'|'.join(AGGREGATES)})\(")
    too_strict, missed = [], []
    for expression in combinations():
        measure = aggregate.match(expression)
        faults = (
            check_measure(expression, SCOPE) if measure else check_derived(expression, SCOPE)[0]
        )
        accepted = analyses(rows, expression)
        if accepted and any(not is_ours(fault.message) for fault in faults):
            too_strict.append((expression, faults[0].message))
        if not accepted and not faults:
            missed.append(expression)
    assert too_strict == []
    assert len(missed) <= MOST_MISSED, missed


def builtin_functions(spark: SparkSession) -> dict[str, Any]:
    jvm: Any = spark._jvm
    registry = jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.builtin()
    found = {}
    names = registry.listFunction().iterator()
    while names.hasNext():
        name = names.next()
        if name.funcName()[0].isalpha():
            found[name.funcName()] = registry.lookupFunction(name).get()
    return found


def test_the_list_of_functions_is_that_of_spark(spark: SparkSession) -> None:
    """With TIDEMARK_REGENERATE=1 in the environment the file is written anew first."""
    groups = {"agg_funcs": "aggregate", "window_funcs": "window", "generator_funcs": "generator"}
    in_spark = {
        name: groups.get(info.getGroup(), "scalar")
        for name, info in builtin_functions(spark).items()
    }
    file = Path(functions.__file__).with_name("spark_functions.txt")
    if os.environ.get("TIDEMARK_REGENERATE"):
        head = [line for line in file.read_text("utf-8").splitlines() if line.startswith("#")]
        for kind in sorted(set(in_spark.values())):
            names = " ".join(sorted(name for name in in_spark if in_spark[name] == kind))
            head += ["", f"{kind}:", textwrap.fill(names, 96)]
        file.write_text("\n".join(head) + "\n", "utf-8")
        spark_functions.cache_clear()
    assert spark_functions() == in_spark
    shown = {row[0] for row in spark.sql("SHOW FUNCTIONS").collect()}
    assert set(spark_functions()) <= shown


def test_the_examples_of_sparks_own_documentation_are_accepted(spark: SparkSession) -> None:
    """`X '1F'` with a space and `>>>` are the ones of Spark's syntax that sqlglot cannot read.
    Those with a path of Windows hold for another way of writing texts (escapedStringLiterals), and
    one shows what becomes of a text that is not hexadecimal."""
    unread = re.compile(r"\bX '|>>>| AS |SystemDrive|unhex\('--")
    refused = []
    count = 0
    for name, info in builtin_functions(spark).items():
        if spark_functions()[name] != "scalar" or function_refusal(name):
            continue
        for example in re.findall(r"> SELECT (.*?);\s*$", info.getExamples(), re.MULTILINE):
            if "VALUES" in example or unread.search(example) or example == "unix_timestamp()":
                continue
            count += 1
            faults, _ = check_derived(example, {})
            refused += [(example, one.message) for one in faults if not is_ours(one.message)]
    assert count > 700
    assert refused == []


def test_what_spark_calls_nondeterministic_is_refused(rows: DataFrame) -> None:
    calls = "rand() randn() uuid() shuffle(arr) monotonically_increasing_id() random()"
    calls += (
        " spark_partition_id() randstr(5) uniform(1,9) current_timestamp() now() current_date()"
    )
    for call in calls.split():
        plan: Any = rows.selectExpr(call)._jdf.queryExecution().analyzed()
        expression = plan.expressions().head()
        stable = expression.deterministic() and "current" not in expression.sql().lower()
        assert not stable or call == "now()", call
        assert check_derived(call, SCOPE)[0] != []


def test_texts_that_are_refused_for_the_clock_move_with_it_in_spark(spark: SparkSession) -> None:
    moving = ["datediff('today', current_date())", "datediff(date 'yesterday', current_date())"]
    assert list(spark.range(1).selectExpr(*moving).collect()[0]) == [0, -1]
    for text in ("datediff('today', dt)", "datediff(date 'yesterday', dt)"):
        assert check_derived(text, SCOPE)[0] != []


def test_each_aggregate_that_is_offered_runs_in_a_stream(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Two batches, so that partial results go through the state store; in the first all `i` are
    equal, which is where corr ends a run."""
    from pyspark.sql import functions as F

    for number in range(2):
        lines = [f'{{"i": {number}, "l": {n}, "b": true, "ts": "2024-01-01"}}' for n in range(3)]
        folder = tmp_path / "in"
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.json").write_text("\n".join(lines))
    measures = [F.expr(call_of(name)).alias(name) for name in AGGREGATES if name not in FROM_BRONZE]
    measures += [F.expr("count(*) filter (where b)").alias("f"), F.expr("sum(l) / count(*)")]
    stream = spark.readStream.schema("i int, l bigint, b boolean, ts timestamp")
    rows = (
        stream.option("maxFilesPerTrigger", 1).json(f"{tmp_path}/in").withWatermark("ts", "1 day")
    )
    query = (
        rows.groupBy(F.window("ts", "1 hour"))
        .agg(*measures)
        .writeStream.format("memory")
        .queryName("aggregates")
        .outputMode("update")
        .option("checkpointLocation", f"{tmp_path}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert [row["count"] for row in spark.table("aggregates").collect()][-1] == 6
