"""Measures that collect, count distinct values or choose one: the same bytes in every order of the
rows, and what DuckDB makes of them."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from datetime import date
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.pipeline.test_expressions import SCOPE
from tidemark.pipeline.expressions.names import KnownName, spark_type
from tidemark.pipeline.expressions.sql import check_measure
from tidemark.storage.duckdb_in_utc import duckdb_in_utc

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = (
    "k int, d double, f float, s string, i int, l bigint, b boolean, dec decimal(10, 2), "
    "bin binary, ts timestamp, st struct<`a'b`: double, y: array<float>>"
)
# Of each, what DuckDB says; None where it has no such thing, or orders in another way.
MEASURES: dict[str, str | None] = {
    "count(distinct s)": "count(DISTINCT s)",
    "count(distinct d)": "count(DISTINCT d)",
    "count(distinct i, s)": "count(DISTINCT (i, s)) FILTER (i IS NOT NULL AND s IS NOT NULL)",
    "count(distinct s) filter (where b)": "count(DISTINCT s) FILTER (b)",
    "count(distinct struct(d, s))": None,
    "sum(distinct l)": "sum(DISTINCT l)::BIGINT",
    "try_sum(distinct i)": "sum(DISTINCT i)::BIGINT",
    "avg(distinct dec)": None,
    "count(distinct s) / count(*)": "count(DISTINCT s) / count(*)",
    "mode(i, true)": "mode(i ORDER BY i)",
    "mode(s, true)": "mode(s ORDER BY s)",
    "mode(d, true)": None,
    "mode(f, true)": None,
    "mode(dec, true) filter (where b)": "mode(dec ORDER BY dec) FILTER (b)",
    "mode(ts, true)": "mode(ts ORDER BY ts)",
    "mode(b, true)": "mode(b ORDER BY b)",
    "size(collect_set(d))": "count(DISTINCT d)",
    "size(collect_set(st))": None,
    "cardinality(collect_list(s) filter (where b))": "count(s) FILTER (b)",
    "slice(sort_array(collect_set(s)), 1, 2)": (
        "list_sort(list(DISTINCT s) FILTER (s IS NOT NULL))[1:2]"
    ),
    "slice(sort_array(collect_set(bin), false), 1, 2)": None,
    "slice(sort_array(collect_list(l), false), 1, 3)": "max(l, 3)",
    "slice(array_sort(collect_list(d)), 1, 5)": None,
    "slice(array_sort(array_agg(distinct f)), -2, 2)": None,
    "slice(sort_array(collect_list(struct(d, i))), 1, 4)": None,
    "slice(sort_array(collect_set(struct(d, s))), 1, 4)": None,
    "slice(sort_array(collect_list(st)), 1, 5)": None,
    "slice(sort_array(collect_list(array(d, 1D))), 1, 5)": None,
    "array_join(slice(sort_array(collect_list(d)), 1, 6), ',')": None,
    "array_join(slice(sort_array(collect_set(s)), 1, 9), ',')": (
        "list_sort(list(DISTINCT s) FILTER (s IS NOT NULL)).array_to_string(',')"
    ),
    "sort_array(collect_list(struct(ts, s)))[0].s": (
        "first(s ORDER BY ts NULLS FIRST, s NULLS FIRST)"
    ),
    "max_by(s, struct(i, s))": "last(s ORDER BY i NULLS FIRST, s NULLS FIRST)",
    "min_by(s, struct(i, s)) filter (where i is not null)": (
        "first(s ORDER BY i NULLS FIRST, s NULLS FIRST) FILTER (i IS NOT NULL)"
    ),
    "max_by(d, struct(i, d))": None,
    "max_by(f, f)": None,
    "min_by(st, struct(b, st))": None,
    "max_by(struct(d, s), struct(ts, s, d))": None,
}
SPECIAL = struct.unpack(">d", bytes.fromhex("7ff8000000000123"))[0]


def table() -> pa.Table:
    """Many small groups with ties: each value comes again, zeros of both signs and NaNs of several
    bits among them."""
    draw = Random(5)
    rows: list[dict[str, Any]] = []
    for group in range(150):
        for _ in range(draw.randint(1, 9)):
            number = draw.choice([0.0, -0.0, math.nan, SPECIAL, 1.0, None])
            inner = {"a'b": draw.choice([0.0, -0.0]), "y": [draw.choice([0.0, -0.0, math.nan])]}
            rows.append({
                "k": group, "d": number, "f": number, "s": draw.choice(["a", "A", "é", "", None]),
                "i": draw.choice([0, 1, 2, None]), "l": draw.choice([2**62, 5, -7]),
                "b": draw.choice([True, False, None]), "dec": draw.choice(["1.00", "2.50", None]),
                "bin": draw.choice([b"", b"a", b"\xff"]), "ts": draw.choice([0, 1, None]),
                "st": draw.choice([inner, None]),
            })  # fmt: skip
    fields = {
        "k": pa.int32(), "d": pa.float64(), "f": pa.float32(), "s": pa.string(), "i": pa.int32(),
        "l": pa.int64(), "b": pa.bool_(), "dec": pa.string(), "bin": pa.binary(),
        "ts": pa.int64(), "st": pa.struct([("a'b", pa.float64()), ("y", pa.list_(pa.float32()))]),
    }  # fmt: skip
    found = pa.Table.from_pylist(rows, pa.schema(fields.items()))
    of_time = found["ts"].cast(pa.timestamp("us", "UTC"))
    found = found.set_column(found.column_names.index("ts"), "ts", of_time)
    of_cents = found["dec"].cast(pa.decimal128(10, 2))
    return found.set_column(found.column_names.index("dec"), "dec", of_cents)


def bits(value: object) -> object:
    """A value by what it is, not by what it is equal to."""
    if isinstance(value, float):
        return struct.pack(">d", value).hex()
    if isinstance(value, dict):
        return {name: bits(part) for name, part in value.items()}
    return [bits(part) for part in value] if isinstance(value, list) else value


def measured_in(spark: SparkSession, rows: pa.Table, seed: int, measures: Sequence[str]) -> Any:
    """Each measure of each group, the rows of which lie in another order and in other parts."""
    from pyspark.sql import functions as F

    from tidemark.streaming.operators.measures import measured

    order = list(range(rows.num_rows))
    Random(seed).shuffle(order)
    frame = spark.createDataFrame(rows.take(order)).repartition(1 + seed % 4, F.rand(seed))
    named = {f"m{number}": text for number, text in enumerate(measures)}
    found = measured(frame.groupBy("k"), named, frame, exact=True).orderBy("k").toArrow()
    assert found["_failure"].null_count == found.num_rows
    return {text: found[name].to_pylist() for name, text in named.items()}


@pytest.mark.second
def test_each_allowed_form_gives_the_same_bytes_in_every_order_of_the_rows(
    spark: SparkSession,
) -> None:
    rows = table()
    scope = {**SCOPE, "f": KnownName("f", spark_type("float"))}
    assert [text for text in MEASURES if check_measure(text, scope)] == []
    first, *others = (measured_in(spark, rows, seed, list(MEASURES)) for seed in range(4))
    for text in MEASURES:
        assert all(bits(other[text]) == bits(first[text]) for other in others), text
    with duckdb_in_utc() as connection:
        connection.register("rows_found", rows)
        for text, sql in MEASURES.items():
            if sql is not None:
                asked = f"SELECT {sql} FROM rows_found GROUP BY k ORDER BY k"
                expected = [one for (one,) in connection.execute(asked).fetchall()]
                # Of no values Spark makes an empty list or text, DuckDB null.
                found = [one if one not in ([], "") else None for one in first[text]]
                expected = [one if one not in ([], "") else None for one in expected]
                is_share = any(isinstance(one, float) for one in found)
                assert found == (pytest.approx(expected) if is_share else expected), text


@pytest.mark.second
def test_what_is_refused_differs_with_the_order_of_rows_indeed(spark: SparkSession) -> None:
    rows = table()
    varying = ["max_by(s, i)", "mode(struct(i, s), true)", "collect_list(s)", "first(i)"]
    one, other = (measured_in(spark, rows, seed, varying) for seed in (1, 2))
    assert [text for text in varying if bits(one[text]) == bits(other[text])] == []
    # Here Spark takes each value for another one, so that the least is the answer.
    (wrong,) = measured_in(spark, rows, 1, ["mode(bin, true)"]).values()
    with duckdb_in_utc() as connection:
        connection.register("rows_found", rows)
        asked = "SELECT mode(bin ORDER BY bin), min(bin) FROM rows_found GROUP BY k ORDER BY k"
        found = connection.execute(asked).fetchall()
    assert wrong == [least for _, least in found] != [most for most, _ in found]


def test_a_measure_of_distinct_values_that_fails_is_a_verdict_on_its_row_alone(
    spark: SparkSession,
) -> None:
    from pyspark.sql import functions as F

    from tidemark.streaming.operators.measures import measured

    rows = spark.range(10).select(F.expr("id % 3 as k"), F.expr("if(id % 3 = 1, 0, id) as v"))
    asked = {"of": "10 div (count(distinct v) - 1)", "n": "sum(distinct v) + count(distinct k)"}
    found = measured(rows.groupBy("k"), asked, rows, exact=True).orderBy("k").collect()
    assert [(row["of"], row["n"]) for row in found] == [(3, 19), (None, 1), (5, 16)]
    failed = "of: 10 div (count(distinct v) - 1) failed"
    assert [row["_failure"] for row in found] == [None, failed, None]


def test_a_measure_whose_day_lies_outside_the_calendar_is_a_verdict_on_its_row_alone(
    spark: SparkSession,
) -> None:
    from tidemark.streaming.operators.measures import measured

    rows = spark.range(2).selectExpr("id as k", "date_add(date '9999-12-31', cast(id as int)) as v")
    asked = {"last": "max(v)", "all": "array(max(v))", "day": "day(max(v))"}
    found = measured(rows.groupBy("k"), asked, rows, exact=True).orderBy("k").collect()
    assert [(row["last"], row["all"], row["day"]) for row in found] == [
        (date.max, [date.max], 31),
        (None, None, 1),
    ]
    said = "failed: its day or time lies outside the years 1 to 9999"
    failed = f"last: max(v) {said}; all: array(max(v)) {said}"
    assert [row["_failure"] for row in found] == [None, failed]
