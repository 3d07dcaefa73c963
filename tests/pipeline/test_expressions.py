from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemark.pipeline.expressions.functions import (
    AGGREGATES,
    BY_ORDER,
    FROM_BRONZE,
    REFUSED,
    spark_functions,
)
from tidemark.pipeline.expressions.names import KnownName, Scope, spark_type
from tidemark.pipeline.expressions.sql import (
    check_derived,
    check_measure,
    columns_read,
    same_expression,
)

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


# Spark casts the text in each, by itself or as is written, and then takes the query's time for it.
TEXTS_OF_THE_CLOCK = (
    *("timestamp 'now'", "timestamp 'today UTC'", "date 'yesterday Europe/Vienna'"),
    *("cast('today+01:00' as date)", "cast(('now') as timestamp)", "cast(r'now' as timestamp)"),
    *("to_date(' Today ')", "try_to_timestamp('now')", "try_cast('now' as timestamp)"),
    *("datediff('today', dt)", "datediff(dt, 'today')", "timestampdiff(hour, ts, 'now')"),
    *("timestampadd(day, 1, 'now')", "date_add('today', 1)", "last_day('tomorrow')"),
    *("date_format('now', 'yyyy')", "year('now')", "hour('now')", "weekday('today')"),
    *("date_trunc('day', 'now')", "trunc('now', 'month')", "date_part('day', 'now')"),
    *("extract(day from 'now')", "months_between('now', ts)", "add_months('today', 1)"),
    *("next_day('today', 'MO')", "convert_timezone('UTC', 'now')", "'now' + interval 1 day"),
    *("coalesce(dt, 'today')", "nvl(ts, 'now')", "nvl2(b, ts, 'now')", "if(b, ts, 'now')"),
    *("case when b then ts else 'now' end", "case ts when 'now' then 1 end", "array(ts, 'now')"),
    *("map('a', ts, 'b', 'now')", "equal_null(ts, 'now')", "decode(ts, 'now', 1)"),
    *("ts > 'now'", "ts > ('now')", "dt in (dt, 'tomorrow')", "dt between 'yesterday' and dt"),
    *("cast(if(b, s, 'now') as timestamp)", "coalesce(ts, if(b, 'now', s))"),
    # sqlglot tells no type of what the text stands beside.
    *("date_trunc('day', ts) = 'today'", "transform(array(ts), x -> coalesce(x, 'now'))"),
)
TEXTS_ALONE = (
    *("'now'", "s = 'today'", "s in ('now', 'later')", "s <=> 'now'", "s like 'today%'"),
    *("if(b, 'now', 'later')", "case when dt > '2026-01-01' then 'today' else 'no' end"),
    *("case when b then 'now' else null end", "case s when 'now' then 1 end", "coalesce(s, 'now')"),
    *("coalesce(date_format(ts, 'yyyy'), 'today')", "coalesce(ts, case s when 'now' then ts end)"),
    *("nullif(upper(trim(s)), 'today')", "greatest(s, 'now')", "concat('now ', ts)", "s || 'now'"),
    *("upper('now')", "instr(s, 'now')", "replace(s, 'now', 'x')", "split(s, 'today')[0] = 'now'"),
    *("regexp_replace(s, 'now', 'x')", "format_string('today %s', ts)", "hash('now')"),
    *("struct('now' as a, ts)", "named_struct('now', ts)", "map('now', ts)", "array('now', s)"),
    *("m['now']", "cast('now' as string)", "to_date('2026-01-01')", "s = 'nowhere'"),
    *("timestamp 'epoch'", "cast(date_trunc('day', ts) as string) = 'today'"),
)


@pytest.mark.parametrize("text", TEXTS_OF_THE_CLOCK)
def test_a_text_that_spark_takes_for_a_time_of_the_clock_is_refused(text: str) -> None:
    faults, _ = check_derived(text, SCOPE)
    assert ["it reads the clock" in fault.message for fault in faults] == [True]


@pytest.mark.parametrize("text", TEXTS_ALONE)
def test_a_word_of_the_clock_that_stays_a_text_is_taken(text: str) -> None:
    assert check_derived(text, SCOPE)[0] == []


def test_beside_what_may_be_a_time_the_refusal_says_how_text_is_written() -> None:
    ((fault,), _) = check_derived("x = 'today'", {"x": KnownName("x", None)})
    assert fault.message.endswith(
        "where text is meant, write `cast(… as string)` of what stands beside it"
    )
    assert check_derived("cast(x as string) = 'today'", {"x": KnownName("x", None)})[0] == []


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
        ("first(i)", 0, "write `min_by(x, struct(t, x))`", None),
        ("percentile_approx(i, 0.5)", 0, "depends on the order of rows", None),
        ("bitmap_or_agg(bin)", 0, "is not among the aggregates", None),
        ("sum(rand())", 4, "gives another value each time", None),
        ("max(current_timestamp)", 4, "reads the clock", None),
        ("max(timestamp 'now')", 0, "reads the clock", None),
        ("max(datediff('today', dt))", 0, "'today' cannot be used: it reads the clock", None),
        ("count_if(dt < date 'today UTC')", 0, "'today UTC' cannot be used", None),
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
        ("count_if(ts > '2026-02-30')", 0, "which tells no day", None),
        ("count_if(dt in ('2026-13-1 10:00', dt))", 0, "which tells no day", None),
        ("max(if(b, i, arr))", 13, "chooses between a number (`i`) and an array", None),
        ("count(*); drop table x", 8, "has a `;`", None),
        ("select count(*)", 0, "is a query", None),
        ("count(*) as n", 12, "gives itself a name", None),
        ("(select max(i) from t)", 0, "is a query", None),
        ("count(*) + (select 1)", 0, "has a subquery", None),
        ("sum(i", 3, "has a bracket that nothing closes", None),
        ("max(map('a'))", 0, "cannot be read as SQL: a call lacks an argument", None),
        ("1 + percentile(i)", 15, "a call lacks an argument", None),
        ("percentile()", 0, "a call lacks an argument", None),
        ("max_by(s)", 7, "a call lacks an argument", None),
        ("min_by(distinct, ts)", 17, "a call lacks an argument", None),
        ("max(month())", 0, "a call lacks an argument", None),
        ("max(datediff(dt))", 0, "a call lacks an argument", None),
        ("max_by(, struct(ts, s))", 7, "has a comma with nothing before or after it", None),
        ("max_by(s, struct(ts, s)", 6, "has a bracket that nothing closes", None),
        ("cast(sum(i) as double", 4, "has a bracket that nothing closes", None),
        ("percentile(i, 0.5", 10, "has a bracket that nothing closes", None),
        ("sum('i)", 0, "a quote does not end", None),
        ("sum(i) sum(l)", 10, "cannot be read as SQL", None),
        ("sum(*)", 0, "which stands only in count(*)", None),
        ("1 + percentile(i, 0.5, l)", 4, "percentile has a third argument", None),
        ("percentile(i, array(0.5, 0.9), 2)", 0, "leave it out, and take a row for each", None),
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


def test_expressions_that_cannot_be_read_are_compared_by_their_texts() -> None:
    assert not same_expression("regexp_replace(s, , 'a')", "regexp_replace(s, 'b', 'a')")


def test_days_in_all_of_sparks_spellings_are_compared_with_times() -> None:
    days = ("2028-02-29", " 2026-1-1T10:00", "2026", "+2026-02", "0000-02-29", "12000-02-29")
    read = " or ".join(f"ts > '{day}'" for day in days)
    assert check_derived(read, SCOPE)[0] == []


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
        ("cast(null as string)", "STRING"),
        ("hash(i)", None),
    ],
)
def test_a_derived_column_has_the_type_of_its_expression(text: str, found: str | None) -> None:
    faults, derived = check_derived(text, SCOPE)
    assert faults == []
    assert (derived.sql("spark") if derived else None) == found


NO_INTERVAL = "is an interval, which no table can keep"
NO_TYPE = "is null in each row, so it has no type"
NO_TYPE_WITHIN = "holds a part without a type"
NO_VARIANT = "is a variant, which no table can keep"
NO_ZONE = "is a timestamp without a zone"
NO_DATE = "times without a date, a type that Spark does not support yet"
NO_UTF8 = "takes bytes for text"
TWICE = "Spark takes them for one"
UNKEPT = {
    **dict.fromkeys(
        ("ts - ts", "dt - dt", "ts - dt", "ts - '2024-01-01'", "s - ts", "interval 1 day"),
        NO_INTERVAL,
    ),
    **dict.fromkeys(
        ("(dt - dt) * 2", "i * interval 1 day", "-(ts - ts)", "make_interval(1, 2)"), NO_INTERVAL
    ),
    **dict.fromkeys(
        ("make_dt_interval(1)", "make_ym_interval(1)", "cast(s as interval day)"), NO_INTERVAL
    ),
    **dict.fromkeys(
        (
            "if(b, ts - ts, null)",
            "array(ts - ts)",
            "struct(i, dt - dt)",
            "cast('1 day' as interval)",
        ),
        NO_INTERVAL,
    ),
    **dict.fromkeys(
        ("null", "if(b, null, null)", "nullif(null, 1)", "coalesce(null, null)"), NO_TYPE
    ),
    **dict.fromkeys(
        ("array()", "map()", "array(null)", "struct(i, null)", "map('a', null)", "array(array())"),
        NO_TYPE_WITHIN,
    ),
    **dict.fromkeys(("named_struct('a', null)", "if(b, array(), array())"), NO_TYPE_WITHIN),
    **dict.fromkeys(("parse_json(s)", "cast(s as variant)", "to_variant_object(st)"), NO_VARIANT),
    **dict.fromkeys(("try_parse_json(s)", "variant_get(parse_json(s), '$.a')"), NO_VARIANT),
    **dict.fromkeys(("to_timestamp_ntz(s)", "cast(ts as timestamp_ntz)"), NO_ZONE),
    **dict.fromkeys(
        ("timestamp_ntz '2024-01-01 00:00:00'", "convert_timezone('UTC', ts)"), NO_ZONE
    ),
    **dict.fromkeys(("make_time(1, 2, 3)", "to_time(s)", "time_trunc('hour', s)"), NO_DATE),
    "time '10:00:00'": "has a time without a date, a type that Spark does not support yet",
    **dict.fromkeys(
        ("cast(bin as string)", "string(bin)", "bin::string", "upper(bin)", "concat(bin, s)"),
        NO_UTF8,
    ),
    **dict.fromkeys(("bin || s", "concat_ws(',', bin)", "lpad(bin, 3, 'x')"), NO_UTF8),
    **dict.fromkeys(("struct(i, l as I)", "named_struct('a', 1, 'A', 2)", "struct(i, i)"), TWICE),
    "named_struct('s', 1, 'ſ', 2)": TWICE,
    "cast(struct(i, l) as struct<a:int,A:int>)": TWICE,
    "collate(s, 'UTF8_LCASE')": "is text with a collation",
}


@pytest.mark.parametrize("text", list(UNKEPT))
def test_what_no_table_can_keep_is_refused_as_a_column_and_as_a_measure(text: str) -> None:
    assert [UNKEPT[text] in one.message for one in check_derived(text, SCOPE)[0]] == [True]
    # Maps have no order.
    if not text.startswith("map"):
        assert [UNKEPT[text] in one.message for one in check_measure(f"max({text})", SCOPE)] == [
            True
        ]


@pytest.mark.parametrize(
    "text",
    ["max(ts) - min(ts)", "max(dt) - min(dt)", "sum(interval 1 day)", "-(max(ts) - min(ts))"],
)
def test_a_measure_that_is_an_interval_is_refused(text: str) -> None:
    assert [NO_INTERVAL in fault.message for fault in check_measure(text, SCOPE)] == [True]


@pytest.mark.parametrize(
    "text",
    [
        *("ts + interval 1 day", "dt - interval 1 month", "cast(ts - ts as bigint)", "dt - 1"),
        *("timestampdiff(SECOND, ts, ts)", "datediff(dt, dt)", "ts - ts > interval 5 minutes"),
        *("if(b, null, i)", "coalesce(null, s)", "coalesce(array(), arr)", "array(1, null)"),
        *("cast(null as int)", "cast(array() as array<int>)", "struct(i, cast(null as int))"),
        *("to_json(parse_json(s))", "variant_get(parse_json(s), '$.a', 'int')", "nullif(i, null)"),
        *("make_valid_utf8(cast(bin as string))", "hex(bin)", "concat(bin, bin)", "lpad(bin, 3)"),
        *("s + interval 1 day", "cast(s as int) + 1", "to_timestamp(s)", "size(array())"),
    ],
)
def test_what_tables_can_keep_is_taken(text: str) -> None:
    assert check_derived(text, SCOPE)[0] == []


@pytest.mark.parametrize(
    "text", ["upper(s) + 1", "1 - s", "s * 2", "s % i", "s / 2", "-s", "abs(s)", "s + s"]
)
def test_text_is_no_number_until_it_is_cast(text: str) -> None:
    assert ["needs a number, and has text" in one.message for one in check_derived(text, SCOPE)[0]]


PATTERNS = {
    "(": "a `(` is not closed",
    "a)": "a `)` closes nothing",
    "[a-z": "a `[` is not closed",
    "*a": "a `*` repeats nothing",
    "a**": "a `*` repeats nothing",
    "(?a": "`(?a` begins no kind of group",
    "a{x": "a `{` begins no repetition",
    "a{3,2}": "`{3,2}` ends before it begins",
    r"\\y": r"`\y` means nothing",
    r"\\p{L": r"`\p{` is not closed",
    "a\\\\": "it ends in the middle",
}
CALLS = ("s rlike '{}'", "regexp_replace(s, '{}', '')", "regexp_extract(s, '{}', 0) = ''")
CALLS += ("split(s, '{}')", "regexp(s, '{}')", "s rlike any ('a', '{}')", "regexp_count(s, '{}')")


@pytest.mark.parametrize("pattern", list(PATTERNS))
@pytest.mark.parametrize("call", CALLS)
def test_a_pattern_that_java_cannot_read_is_refused(call: str, pattern: str) -> None:
    (fault,) = check_derived(call.format(pattern), SCOPE)[0]
    assert "which Java cannot read" in fault.message
    assert PATTERNS[pattern] in fault.message


def test_a_name_is_found_as_sparks_resolver_finds_it() -> None:
    """The long s is the s of the resolver, but Spark looks names up in lower case first."""
    scope = {"é": KnownName("É", spark_type("int")), "s": KnownName("ſ", spark_type("int"))}
    assert check_measure("sum(é)", scope) == []
    assert check_measure("sum(ſ)", scope) == []
    assert ["is not a column" in fault.message for fault in check_measure("sum(s)", scope)] == [
        True
    ]


def test_an_aggregate_derives_no_column() -> None:
    faults, derived = check_derived("max(i) > 3", SCOPE)
    assert [fault.message for fault in faults] == [
        "max is an aggregate; a derived column is computed from one row"
    ]
    assert derived is None


def call_of(name: str) -> str:
    """An aggregate over columns of this test, in a form in which it may stand."""
    if name in ("count_if", "every", "some", "any", "bool_and", "bool_or"):
        return f"{name}(b)"
    if name in (*BY_ORDER, *FROM_BRONZE, "percentile"):
        of = {"percentile": "l, 0.5", "mode": "l, true"} | dict.fromkeys(
            BY_ORDER, "l, struct(i, l)"
        )
        call = f"{name}({of.get(name, 'l')})"
        return call if name in of else f"size({call})"
    return f"{name}(i, l)" if name.startswith(("covar", "regr")) else f"{name}(l)"


@pytest.mark.parametrize("name", AGGREGATES)
def test_each_aggregate_that_is_offered_is_known_as_one(name: str) -> None:
    assert measure_faults(call_of(name)) == []
    assert check_derived(call_of(name), SCOPE)[0] != []


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


NO_BRACKET = "has a bracket that nothing closes"
NO_ARGUMENT = "has a comma with nothing before or after it"
NO_AND, NO_THEN, NO_IS = "has BETWEEN without AND", "has WHEN without THEN", "has NULL or NOT NULL"


@pytest.mark.parametrize(
    ("text", "offset", "message"),
    [
        ("substring(s, 1, 2", 9, NO_BRACKET),
        ("trim(s", 4, NO_BRACKET),
        ("cast(s as int", 4, NO_BRACKET),
        ("upper(substring(s, 1, 2)", 5, NO_BRACKET),
        ("concat(s, , 'a')", 10, NO_ARGUMENT),
        ("concat(, s)", 7, NO_ARGUMENT),
        ("array(i, l,)", 11, NO_ARGUMENT),
        ("regexp_replace(s, , 'a')", 18, NO_ARGUMENT),
        ("i between 1  5", 0, NO_AND),
        ("b and i between 1 5 and l > 2", 0, NO_AND),
        ("case when b  1 else 2 end", 0, NO_THEN),
        ("case when b  1 when not b then 2 end", 0, NO_THEN),
        ("s not null", 0, NO_IS),
        ("s is null or l not null", 0, NO_IS),
        ("s isnull", 0, NO_IS),
        ("s notnull", 0, NO_IS),
    ],
)
def test_what_sqlglot_reads_and_spark_does_not_is_refused(
    text: str, offset: int, message: str
) -> None:
    faults, _ = check_derived(text, SCOPE)
    assert [(fault.offset, message in fault.message) for fault in faults] == [(offset, True)]


@pytest.mark.parametrize(
    "text",
    [
        *("substring(s, 1, (2))", "arr[0] + (i)", "trim(both from s)", "s in ('(', ',', ')')"),
        *("i between 1 and 5 and b", "not i between 1 and 5 or b and not b", "isnull(s)"),
        *("case i when 1 then 2 when 3 then 4 end", "decode(i, 1, 'a', 'b')", "nvl2(s, i, l)"),
        *("s is not null", "s is null and isnotnull(s)", "b is not true", "if(b, 1, 2)"),
        *("i is not distinct from l", "cast(null as int) is null", "(b and b) is null"),
        "case when b then i else if(b, 1, 2) end",
    ],
)
def test_what_has_all_of_its_words_is_read(text: str) -> None:
    assert check_derived(text, SCOPE)[0] == []


def test_columns_and_fields_may_have_the_names_of_words() -> None:
    words = {name: KnownName(name, spark_type("int")) for name in ("end", "isnull")}
    words["w"] = KnownName("w", spark_type("struct<end: int, when: int, between: int, and: int>"))
    read = "w.end + w.when + w.between + w.and + end + isnull"
    assert check_derived(read, words)[0] == []
    assert check_derived("case when end > 1 then w.end end", words)[0] == []


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


@pytest.mark.slow
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


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("to_date( s )", "TO_DATE(s)", True),
        ("concat(s, 'a', \"b\")", "CONCAT(s, \"a\", 'b')", True),
        ("rlike(s, r'\\d')", "RLIKE(s, '\\\\d')", True),
        ("date_trunc('DAY', t)", "date_trunc('day', t)", True),
        ("t + INTERVAL '1' DAY", "t + interval 1 day", True),
        ("concat(s, 'a')", "concat(s, 'A')", False),
        # Spark reads other texts with the format than without, and fails on others.
        ("to_date(s)", "to_date(s, 'yyyy-MM-dd')", False),
        ("to_timestamp(s)", "to_timestamp(s, 'yyyy-MM-dd HH:mm:ss')", False),
        ("unix_timestamp(s)", "unix_timestamp(s, 'yyyy-MM-dd HH:mm:ss')", False),
        # sqlglot has no place for these arguments.
        ("percentile(x, 0.5)", "percentile(x, 0.5, w)", False),
        ("percentile(x, 0.5, v)", "percentile(x, 0.5, w)", False),
        ("percentile(x, 0.5, 2)", "percentile(x, 0.5, 3)", False),
        ("percentile(x, 0.5, W)", "PERCENTILE(x, 0.5, `w`)", True),
        ("to_char(x, '999')", "to_char(x, '000')", False),
        ("to_char(t, 'HH:mm')", "to_char(t, 'hh:mm')", False),
        ("to_char(t, 'yyyy-MM')", "to_char(t, 'yyyy-mm')", False),
        ("concat(to_char(t, 'HH'), 'hh')", "concat(to_char(t, 'hh'), 'hh')", False),
        ("to_char( x , '999' )", "TO_CHAR(x, '999')", True),
        ("t + interval 5 minutes", "t + INTERVAL '5' MINUTES", True),
        ("nvl(X, 1L)", "NVL(X, 1L)", True),
        # sqlglot writes the argument alone.
        ("cast(parse_json(s) as string)", "cast(s as string)", False),
        ("count(distinct to_json(parse_json(s)))", "count(distinct s)", False),
        ("cast(parse_json( s ) as string)", "CAST(PARSE_JSON(s) AS STRING)", True),
        # What sqlglot leaves out is at another place.
        (
            "concat(to_char(x, '000'), '-', to_char(y, '00000'))",
            "concat(to_char(x, '00000'), '-', to_char(y, '000'))",
            False,
        ),
        (
            "datediff(to_date(a, 'yyyy-MM-dd'), to_date(b))",
            "datediff(to_date(a), to_date(b, 'yyyy-MM-dd'))",
            False,
        ),
        # The one is the quotient of two logarithms, which is less than 3 for 1000.
        ("log10(x)", "log(10, x)", False),
        ("log10(x) / log(10, y)", "log(10, x) / log10(y)", False),
        ("log10( x )", "LOG10(x)", True),
        ("log2(x)", "log(2, x)", True),
        ("ucase(s) != 'a' -- b", "upper(s) <> 'a'", True),
    ],
)
def test_expressions_of_one_spelling_hold_the_same_texts(one: str, other: str, same: bool) -> None:
    assert same_expression(one, other) is same
    assert same_expression(other, one) is same
