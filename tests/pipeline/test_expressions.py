from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemark.pipeline.expressions.functions import AGGREGATES, REFUSED, spark_functions
from tidemark.pipeline.expressions.names import KnownName, Scope, spark_type
from tidemark.pipeline.expressions.sql import check_derived, check_measure, columns_read

TYPES = {
    "i": "int",
    "l": "long",
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


def measure_faults(text: str) -> list[tuple[int, str, str | None]]:
    return [(fault.offset, fault.message, fault.nearest) for fault in check_measure(text, SCOPE)]


@pytest.mark.parametrize(
    ("text", "offset", "message", "near"),
    [
        ("sum(ll)", 4, "`ll` is not a column", "l"),
        ("sum(st.z)", 4, "has no field `z`; known: x, y", None),
        ("sum(i.x)", 4, "has no field `x`: it is no struct", None),
        ("summ(i)", 0, "calls `summ`, which Spark does not have", "sum"),
        ("countif(b)", 0, "calls `countif`, which Spark does not have", "count_if"),
        ("i", 0, "is not an aggregate", None),
        ("42", 0, "is not an aggregate", None),
        ("upper(s)", 0, "is not an aggregate", None),
        ("sum(i) + l", 9, "`l` stands outside an aggregate", None),
        ("max(i) filter (where b) + l", 26, "`l` stands outside an aggregate", None),
        ("sum(max(i))", 8, "max stands inside another aggregate", None),
        ("sum(i) over ()", 4, "has OVER", None),
        ("row_number()", 0, "window function", None),
        ("count(distinct s)", 15, "has DISTINCT", None),
        ("first(i)", 0, "depends on the order of rows", None),
        ("collect_set(i)", 0, "depends on the order of rows", None),
        ("max_by(i, l)", 0, "among equal values", None),
        ("mode(i)", 0, "among equal values", None),
        ("percentile_approx(i, 0.5)", 0, "depends on the order of rows", None),
        ("bitmap_or_agg(bin)", 0, "is not among the aggregates", None),
        ("sum(rand())", 4, "gives another value each time", None),
        ("max(current_timestamp)", 4, "reads the clock", None),
        ("max(timestamp 'now')", 0, "reads the clock", None),
        ("max(unix_timestamp())", 4, "reads the clock", None),
        ("max(input_file_name())", 4, "depends on where it runs", None),
        ("sum(s)", 4, "sum needs a number, and has text (`s`)", None),
        ("avg(ts)", 4, "avg needs a number", None),
        ("count_if(i)", 9, "count_if needs a boolean, and has a number (`i`)", None),
        ("every(i)", 6, "every needs a boolean", None),
        ("max(m)", 4, "needs a type that has an order", None),
        ("count(*) filter (where i)", 23, "a condition needs a boolean", None),
        ("count_if(i > 'many')", 0, "compares a number with the text 'many'", None),
        ("count_if(i = b)", 9, "compares a number (`i`) with a boolean (`b`)", None),
        ("count_if(ts > 'soon')", 0, "which tells no day", None),
        ("max(if(b, i, arr))", 13, "chooses between a number (`i`) and an array", None),
        ("count(*); drop table x", 8, "has a `;`", None),
        ("select count(*)", 0, "is a query", None),
        ("count(*) as n", 12, "gives itself a name", None),
        ("(select max(i) from t)", 0, "is a query", None),
        ("count(*) + (select 1)", 0, "has a subquery", None),
        ("sum(i", 4, "cannot be read as SQL", None),
        ("sum('i)", 0, "a quote does not end", None),
        ("sum(i) sum(l)", 10, "cannot be read as SQL", None),
        ("sum(*)", 0, "which stands only in count(*)", None),
        ("*", 0, "is several columns", None),
        ("-- nothing", 0, "is empty", None),
        ("sum(:x)", 0, "a parameter", None),
        ("sum(explode(arr))", 4, "several rows of one", None),
    ],
)
def test_a_measure_is_refused_with_the_reason_and_its_place(
    text: str, offset: int, message: str, near: str | None
) -> None:
    faults = measure_faults(text)
    assert len(faults) == 1, faults
    assert (faults[0][0], faults[0][2]) == (offset, near)
    assert message in faults[0][1]


def test_each_fault_of_an_expression_is_told() -> None:
    assert [fault[0] for fault in measure_faults("sum(q) + summ(i) + max(w)")] == [4, 9, 23]


@pytest.mark.parametrize("text", ["SUM(I)", "sum(`i`)", "max(ST.X)", "Count(*)", "sum(/* c */ i)"])
def test_names_are_found_whatever_their_case_and_quotes(text: str) -> None:
    assert measure_faults(text) == []


def test_an_unknown_type_is_never_a_wrong_type() -> None:
    scope = {"x": KnownName("x", None)}
    for text in ("sum(x)", "count_if(x)", "max(x.y)", "sum(x[0] + 1)", "count_if(x > 'a')"):
        assert check_measure(text, scope) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("s like '%a%'", "BOOLEAN"),
        ("i + 1", "INT"),
        ("st.y", "STRING"),
        ("cast(s as date)", "DATE"),
        ("i / 2", "DOUBLE"),
        ("arr[0]", "INT"),
        ("null", None),
        ("hash(i)", None),
    ],
)
def test_a_derived_column_has_the_type_of_its_expression(text: str, found: str | None) -> None:
    faults, derived = check_derived(text, SCOPE)
    assert faults == []
    assert (derived.sql("spark") if derived else None) == found


def test_an_aggregate_derives_no_column() -> None:
    faults, derived = check_derived("max(i) > 3", SCOPE)
    assert [fault.message for fault in faults] == [
        "max is an aggregate; a derived column is computed from one row"
    ]
    assert derived is None


@pytest.mark.parametrize("name", AGGREGATES)
def test_each_aggregate_that_is_offered_is_known_as_one(name: str) -> None:
    boolean = name in ("count_if", "every", "some", "any", "bool_and", "bool_or")
    two = name.startswith(("covar", "regr"))
    arguments = "b" if boolean else "i, l" if two else "i, 0.5" if name == "percentile" else "i"
    assert measure_faults(f"{name}({arguments})") == []
    assert check_derived(f"{name}({arguments})", SCOPE)[0] != []


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_each_refused_function_is_refused_with_its_reason(name: str) -> None:
    for arguments in ("", "i", "i, l", "i, 1, 2"):
        faults = [f for f in check_derived(f"{name}({arguments})", SCOPE)[0] if name in f.message]
        if faults:
            assert any(REFUSED[name] in fault.message for fault in faults)
            return
    pytest.fail(f"{name} passed")


def test_every_name_that_is_refused_or_offered_is_one_of_sparks() -> None:
    assert set(REFUSED) | set(AGGREGATES) <= set(spark_functions())


WORDS = st.sampled_from(
    [
        *TYPES,
        *AGGREGATES,
        *REFUSED,
        "(",
        ")",
        "(",
        ")",
        ",",
        "+",
        "*",
        "'x'",
        "1",
        "and",
        "not",
        "case",
        "when",
        "end",
        "filter",
        "where",
        "over",
        "interval",
        "->",
        "[",
        "]",
        ".",
        "::",
        ";",
        "cast",
        "as",
        "int",
        "in",
        "like",
        "distinct",
        "select",
        "from",
        "'",
        "`",
        "--",
        "$",
        "{",
        "?",
        "exists",
        "between",
        "is",
        "null",
        "extract",
        "trim",
        "transform",
        "date_add",
        "dateadd",
    ]
)


@settings(max_examples=400, deadline=None)
@given(st.lists(WORDS, max_size=14).map(" ".join))
def test_whatever_is_written_is_judged_and_never_raises(text: str) -> None:
    for fault in [*check_measure(text, SCOPE), *check_derived(text, SCOPE)[0]]:
        assert 0 <= fault.offset <= len(text)
        assert fault.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(" * 900 + "i" + ")" * 900, "nested too deeply"),
        ("sum(" + "abs(" * 31 + "i" + ")" * 32, "nested too deeply"),
        ("sum(" + "case when b then " * 35 + "1" + " end" * 35 + ")", "nested too deeply"),
        ("sum(" + "- " * 900 + "i)", "nested too deeply"),
        ("sum(" + "i+" * 1500 + "i)", "is too long: 3,004 words and signs, at most 2,000"),
        ("sum(i" + " " * 20_000 + ")", "is too long: 20,006 characters, at most 20,000"),
    ],
)
def test_an_expression_too_large_to_read_is_refused(text: str, message: str) -> None:
    assert [message in fault.message for fault in check_measure(text, SCOPE)] == [True]


def test_an_expression_that_is_long_and_deep_is_read() -> None:
    assert check_measure("sum(" + "abs(" * 25 + "i" + ")" * 26, SCOPE) == []
    assert check_measure("sum(" + "i+" * 500 + "i)", SCOPE) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("repeat(s, 1e9)", "repeat makes 1,000,000,000 of one value, at most 10,000"),
        ("repeat(s, 1000000000)", "repeat makes 1,000,000,000"),
        ("repeat(s, -(10001))", "repeat makes 10,001"),
        ("repeat(s, i)", "repeat needs a literal where it is told a length, or least(…, 10000)"),
        ("repeat(s, 100000 * 10000)", "repeat needs a literal"),
        ("repeat(s, cast(1e9 as int))", "repeat makes 1,000,000,000"),
        ("repeat(repeat(s, 1000), 1000)", "repeat makes 1,000,000 of one value"),
        ("upper(repeat(concat(s, space(200)), 100))", "space makes 20,000"),
        ("space(i)", "space needs a literal"),
        ("lpad(s, 2000000000, 'x')", "lpad or rpad makes 2,000,000,000"),
        ("rpad(s, i)", "lpad or rpad needs a literal"),
        ("array_repeat(i, 20000)", "array_repeat makes 20,000"),
        ("array_insert(arr, 2000000000, 1)", "array_insert makes 2,000,000,000"),
        ("sequence(1, 1e9)", "sequence needs a literal"),
        ("sequence(1, 1000000000)", "sequence makes 1,000,000,000"),
        ("sequence(0, 1000000, 10)", "sequence makes 100,001"),
        ("sequence(1, i)", "sequence needs a literal"),
        ("sequence(date '2020-01-01', dt, interval 1 day)", "sequence needs a literal"),
        (
            "sequence(date '1970-01-01', date '2026-01-01', interval 1 hour)",
            "sequence makes 490,897",
        ),
        ("sequence(to_date('1970-01-01'), to_date('2026-01-01'))", "sequence makes 20,455"),
        (
            "sequence(ts, timestamp '2026-01-01 00:00:00', interval 1 day)",
            "sequence needs a literal",
        ),
        ("format_string('%1000000000d', i)", "format_string makes 1,000,000,000"),
        ("printf(s, i)", "printf needs a literal"),
        ("format_number(d, 1000000)", "format_number makes 1,000,000"),
    ],
)
def test_a_length_that_would_take_all_memory_is_refused(text: str, message: str) -> None:
    faults, _ = check_derived(text, SCOPE)
    assert message in faults[0].message


@pytest.mark.parametrize(
    "text",
    [
        *("repeat(s, 10000)", "repeat(s, least(i, 5))", "lpad(s, 10, '0')", "space(3)"),
        "sequence(date '2026-01-01', date '2026-03-01', interval 1 month)",
        "sequence(to_date('2026-01-01'), to_date('2026-03-01'), interval '0-1' year to month)",
        "sequence(to_date('2026-01-01'), to_date('2026-03-01'))",
        "sequence(date '2026-03-01', date '2026-01-01', -interval 5 days)",
        *("sequence(-5, 5)", "sequence(5, -5, -2)", "array_repeat(i, 3)", "printf('%5d', i)"),
        *("format_number(d, 2)", "format_number(d, '#,###.#')", "repeat(repeat(s, 10), 10)"),
    ],
)
def test_a_length_that_is_known_to_be_small_is_taken(text: str) -> None:
    assert check_derived(text, SCOPE)[0] == []


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("100 / n", ("n",)),
        ("N + `s p`", ("n", "s p")),
        ("s.field + xs[n]", ("n", "s", "xs")),
        ("transform(xs, n2 -> n2 + n)", ("n", "xs")),
        ("'n' || 1", ()),
        ("n +", ()),
    ],
)
def test_the_columns_that_an_expression_reads_are_told_in_their_order(
    text: str, read: tuple[str, ...]
) -> None:
    assert columns_read(text, ["n", "s", "s p", "xs", "other"]) == read
