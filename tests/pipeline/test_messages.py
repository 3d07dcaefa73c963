"""What people read of a pipeline file that is wrong, as it is printed: one mistake is one line, and
the line says what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from sqlglot.dialects.spark import Spark

from tidemark.pipeline.expressions.names import KnownName, spark_type
from tidemark.pipeline.expressions.sql import check_derived, check_measure
from tidemark.pipeline.load import load_pipeline, pipeline_from_text
from tidemark.pipeline.model import KafkaSource, Pipeline
from tidemark.pipeline.problems import PipelineFileInvalid

FILE = """source:
  files: land/orders/*.json
  columns:
    at: timestamp not null
    carrier: string
    end: long
    amount: decimal(10,2)
  event_time: {column: at}
  derive:
    dear: amount > 100
watermark: {delay: 10 minutes}
tables:
  daily:
    window: {length: 1 day}
    group_by: [carrier, dear]
    measures:
      orders: count(*)
      total: sum(amount)
    checks:
      - fail: orders > 0
  hourly:
    window: {length: 1 hour}
    measures: {orders: count(*)}
"""
KAFKA = FILE.replace(
    "files: land/orders/*.json", "kafka: {topic: orders, connection: c, starting: X}"
)
DELTA = FILE.replace("files: land/orders/*.json", "delta: {table: t, starting: X}")


def said(text: str) -> str:
    """All that is printed of a file, but for how many problems it has."""
    try:
        pipeline_from_text("orders", text, "orders.yaml")
    except PipelineFileInvalid as error:
        head, *lines = str(error).split("\n")
        assert head == f"orders.yaml: {len(lines)} problem{'s' * (len(lines) > 1)}"
        return "\n".join(line.strip() for line in lines)
    return "good"


def with_measure(text: str) -> str:
    return FILE.replace("measures: {orders: count(*)}", f"measures: {text}")


def test_the_file_here_is_good() -> None:
    assert said(FILE) == "good"
    assert said(KAFKA.replace("X", "latest")) == said(DELTA.replace("X", "3")) == "good"


@pytest.mark.parametrize(
    ("wrong", "cut", "whole"),
    [
        (
            "{share: sum(amount) / nullif(count(*),0)}",
            "sum(amount) / nullif(count(*)",
            "sum(amount) / nullif(count(*), 0)",
        ),
        (
            "{n: count(*), m: max(greatest(end, 1, 2)), o: count(*)}",
            *("max(greatest(end", "max(greatest(end, 1, 2))"),
        ),
    ],
)
def test_an_expression_that_a_comma_cuts_off_is_to_be_put_in_quotes(
    wrong: str, cut: str, whole: str
) -> None:
    text = said(with_measure(wrong))
    assert "\n" not in text
    assert text.endswith(
        f"`{cut}` is cut off at a comma, as commas part what stands in {{…}}; put the expression "
        f'in quotes: "{whole}".'
    )
    name = wrong[wrong.index(cut) - 7 :].split(":")[0].strip("{, ").split(" ")[-1]
    assert said(with_measure(f'{{{name}: "{whole}"}}')) == "good"


@pytest.mark.parametrize("function", ["concat(carrier, carrier)", "coalesce(carrier, 1, 2)"])
def test_a_list_that_a_comma_cuts_is_told_in_the_same_way(function: str) -> None:
    text = said(FILE.replace("[carrier, dear]", f"[{function}, dear]"))
    first = function.split(",")[0]
    assert f"`{first}` is cut off at a comma, as commas part what stands in […]" in text


@pytest.mark.parametrize(
    "wrong",
    [
        "{n: count(*) filter (where carrier in ('a','b'))}",
        "{n: coalesce(max(carrier), 'x'), o: count(*)}",
        "\n      n: 'a' || carrier",
        "\n      n: `end` + 1",
        "\n      n: count(*) filter (where carrier = 'a: b')",
    ],
)
def test_what_yaml_cannot_read_in_an_expression_is_to_be_put_in_quotes(wrong: str) -> None:
    text = said(with_measure(wrong))
    assert "is not YAML: " in text
    assert text.endswith("; if this is an expression, put it in quotes.")


WORDS = sorted(
    {key.lower() for key in Spark.Tokenizer.KEYWORDS if key.isalpha() and key.isascii()} - {"null"}
)


@given(st.sampled_from(WORDS))
def test_a_column_that_is_a_word_of_sql_is_a_column_or_is_to_be_put_in_backticks(word: str) -> None:
    scope = {word: KnownName(word, spark_type("bigint"))}
    for faults, quoted in (
        (check_derived(f"{word} + 1", scope)[0], check_derived(f"`{word}` + 1", scope)[0]),
        (check_measure(f"max({word})", scope), check_measure(f"max(`{word}`)", scope)),
    ):
        assert quoted == []
        assert [fault.message for fault in faults] in (
            [],
            [f"`{word}` is a word of SQL; write the column in backticks: ``{word}``"],
        )


def test_a_word_of_sql_is_told_with_its_place() -> None:
    text = FILE.replace("    end: long", "    from: long")
    assert said(text.replace("sum(amount)", "sum(from)")) == (
        "line 18, column 18: tables.daily.measures.total: `sum(from)`: `from` is a word of SQL; "
        "write the column in backticks: ``from``."
    )


# Each key with another letter, and what it is taken for.
TYPOS = [
    *("source", "columns", "event_time", "column", "derive", "watermark", "delay", "tables"),
    *("window", "length", "group_by", "measures", "checks", "fail", "files"),
]


@pytest.mark.parametrize("key", TYPOS)
def test_one_wrong_key_is_one_line(key: str) -> None:
    wrong = f"{key[:2]}x{key[2:]}"
    text = said(FILE.replace(f"{key}:", f"{wrong}:", 1))
    assert "\n" not in text
    assert f"{wrong}: is not a known key; allowed: " in text
    assert text.endswith(f"Did you mean `{key}`?")


def test_what_is_wrong_below_a_wrong_key_is_told_at_its_place() -> None:
    text = said(
        FILE.replace("  columns:", "  colums:").replace("carrier: string", "carrier: strng")
    )
    assert [line.split(":")[0] for line in text.split("\n")] == [
        "line 3, column 3",
        "line 5, column 14",
    ]


def test_a_key_that_is_near_none_is_told_without_what_rests_on_it() -> None:
    assert said(FILE.replace("  columns:", "  what_a_row_has:")) == (
        "line 2, column 3: source.columns: is missing.\n"
        "line 3, column 3: source.what_a_row_has: is not a known key; allowed: files, format, "
        "when, explode, columns, event_time, unique, derive, rules, unknown_fields, nulls, checks."
    )


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        (
            "watermark: {delay: 10 minutes}",
            "watermark: 1 day",
            "watermark: `1 day`: should be a mapping with the keys delay, seal_after_idle, as in "
            "`watermark: {delay: 1 day}`.",
        ),
        (
            "event_time: {column: at}",
            "event_time: at",
            "source.event_time: `at`: should be a mapping with the keys column, format, zone, "
            "max_future, max_jump, accept_early_close, as in `event_time: {column: at}`.",
        ),
        (
            "window: {length: 1 hour}",
            "window: 1 hour",
            "tables.hourly.window: `1 hour`: should be a mapping with the keys length, slide, "
            "offset, session, as in `window: {length: 1 hour}`.",
        ),
        (
            "group_by: [carrier, dear]",
            "group_by: carrier",
            "tables.daily.group_by: `carrier`: should be a list: [carrier].",
        ),
    ],
)
def test_a_value_that_is_no_mapping_is_told_with_the_keys(
    right: str, wrong: str, told: str
) -> None:
    assert said(FILE.replace(right, wrong)).partition(": ")[2] == told


@pytest.mark.parametrize(
    ("right", "wrong", "place"),
    [
        ("- fail: orders > 0", "- {fail: orders > 0, where: ''}", "tables.daily.checks.0.where"),
        ("- fail: orders > 0", "- {fail: ''}", "tables.daily.checks.0.fail"),
        ("total: sum(amount)", "total: ''", "tables.daily.measures.total"),
        ("dear: amount > 100", "dear: ''", "source.derive.dear"),
        ("dear: amount > 100", "dear: 5", "source.derive.dear"),
    ],
)
def test_an_expression_that_is_empty_or_none_is_told_once(
    right: str, wrong: str, place: str
) -> None:
    (line,) = said(FILE.replace(right, wrong)).split("\n")
    assert f" {place}: " in line


@pytest.mark.parametrize("given", ["5", "true", "1.5", "[long]", "null"])
def test_a_column_that_is_no_type_is_told_how_one_is_written(given: str) -> None:
    (line,) = said(FILE.replace("at: timestamp not null", f"at: {given}")).split("\n")
    told = "should be a type, as in `at: long` or `at: {type: long, nullable: false}`."
    assert line.endswith(told)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("expression", "told"),
    [
        (
            "count_if(carrier > 5)",
            "compares text (`carrier`) with a number; cast one of them, as "
            "in `try_cast(carrier as int)`",
        ),
        (
            "count_if(end = carrier)",
            "compares text (`carrier`) with a number (`end`); cast one of them, as "
            "in `try_cast(carrier as bigint)`",
        ),
        ("count_if(carrier in (5, 6))", "compares text (`carrier`) with a number"),
        ("count_if(carrier between 1 and 2)", "compares text (`carrier`) with a number"),
        ("count_if(upper(carrier) < at)", "compares text with a date or timestamp (`at`)"),
        ("count_if(carrier = true)", "compares text (`carrier`) with a boolean"),
        ("count_if(case carrier when 5 then true end)", "compares text (`carrier`) with a number"),
        ("percentile(amount, 1.5)", "percentile needs a number from 0 to 1, and has 1.5"),
        ("percentile(amount, -0.5)", "percentile needs a number from 0 to 1, and has -0.5"),
        ("percentile(amount, 50)", "percentile needs a number from 0 to 1, and has 50"),
        (
            "percentile(amount, array(0.5, 7))[0]",
            "percentile needs a number from 0 to 1, and has 7",
        ),
        ("percentile(amount, end)", "percentile needs a constant, and has `end`"),
        ("max(date_trunc('HOURS', at))", "date_trunc takes one of MICROSECOND, "),
        (
            "max(date_trunc('foo', at))",
            "DD, WEEK, MONTH, MON, MM, QUARTER, YEAR, YYYY, YY, and has",
        ),
        ("max(date_trunc(carrier, at))", "and has 'CARRIER', which makes null of each row"),
        ("max(trunc(to_date(at), 'day'))", "trunc takes one of WEEK, "),
        ("max(sha2(carrier, 999))", "sha2 takes one of 0, 224, 256, 384, 512, and has '999'"),
        ("max(conv(carrier, 99, 2))", "conv takes a number from 2 to 36, and has '99'"),
        ("max(conv(carrier, 2, -37))", "or one from -36 to -2, and has '-37'"),
        ("max(hex(unhex('zz')))", "unhex takes hexadecimal digits, and has 'zz'"),
        ("max(to_utc_timestamp(at, 'Europe/Viena'))", "takes the name of a zone, as Europe/Vienna"),
        ("max(from_utc_timestamp(at, 'utc'))", "from_utc_timestamp takes the name of a zone"),
        ("max(convert_timezone('UTC', 'x/y', at))", "convert_timezone takes the name of a zone"),
        ("max(decode(encode(carrier, 'utf-8'), 'FOO'))", "decode takes one of utf-8, us-ascii"),
        ("max(encode(carrier, 'latin1'))", "encode takes one of utf-8, us-ascii"),
        ("max(next_day(to_date(at), 'foo'))", "next_day takes one of mo, tu"),
        ("max(parse_url(carrier, 'host'))", "parse_url takes one of HOST, "),
        ("max(element_at(split(carrier, ' '), 0))", "element_at takes a number that is not 0"),
        ("max(split_part(carrier, ' ', 0))", "split_part takes a number that is not 0"),
        ("max(slice(array(1, 2), 0, 1)[0])", "slice takes a number that is not 0"),
        ("max(elt(3, carrier, carrier))", "elt takes a number from 1 to 2, and has '3'"),
        ("max(format_number(amount, -1))", "format_number takes a number from 0 on, and has '-1'"),
        ("max(regexp_extract(carrier, 'x'))", "takes a group from 0 to 0 (1 unless it is told)"),
        ("max(regexp_extract(carrier, '(?<n>x)(?:y)', 2))", "takes a group from 0 to 1"),
        ("max(regexp_replace(carrier, 'a', '$1'))", "`$n` for a group, of which its pattern has 0"),
        ("max(regexp_replace(carrier, '(a)', '5 $'))", "and `\\\\$` for the sign, and has '5 $'"),
    ],
)
def test_what_a_row_or_every_row_would_fail_by_is_refused(expression: str, told: str) -> None:
    assert told in said(with_measure(f'{{x: "{expression}"}}'))


@pytest.mark.parametrize(
    "expression",
    [
        "count_if(try_cast(carrier as int) > 5)",
        "count_if(end = '5')",
        "count_if(at > '2026-01-01')",
        "count_if(to_date(carrier) < date '2026-01-01')",
        "count_if(carrier = 'x' or carrier > '5')",
        "percentile(amount, 0.5)",
        "percentile(amount, 1)",
        "percentile(amount, array(0, 0.5, 1))[1]",
        "max(date_trunc('dd', at))",
        "max(date_trunc('Week', at))",
        "max(date_trunc('MILLISECOND', at))",
        "max(trunc(to_date(at), 'mon'))",
        "max(sha2(carrier, 0))",
        "max(conv(carrier, 36, -16))",
        "max(conv(carrier, end, 2))",
        "max(hex(unhex(carrier)))",
        "max(hex(unhex('aF0')))",
        "max(to_utc_timestamp(at, 'PST'))",
        "max(to_utc_timestamp(at, '+02:00'))",
        "max(to_utc_timestamp(at, carrier))",
        "max(from_utc_timestamp(at, 'America/Argentina/Buenos_Aires'))",
        "max(decode(encode(carrier, 'UTF-16LE'), 'utf-8'))",
        "max(next_day(to_date(at), 'Mo'))",
        "max(parse_url(carrier, 'HOST'))",
        "max(element_at(map(0, end), 0))",
        "max(element_at(array(1, 2), -1))",
        "max(elt(2, carrier, carrier))",
        "max(regexp_extract(carrier, 'x', 0))",
        "max(regexp_extract(carrier, '(x)'))",
        r"max(regexp_extract(carrier, r'\\((x)\\Q(\\E[(]', 1))",
        "max(regexp_replace(carrier, '(a)', '$1$0'))",
        "max(regexp_replace(carrier, '(?<n>a)', '${n}'))",
        r"max(regexp_replace(carrier, 'a', r'\\$1'))",
    ],
)
def test_what_is_compared_with_its_like_is_good(expression: str) -> None:
    assert said(with_measure(f'{{x: "{expression}"}}')) == "good"


STARTING = "source.kafka.starting"


@pytest.mark.parametrize(
    ("starting", "offsets"),
    [
        ("{orders: {0: 120}}", {"orders": {0: 120}}),
        ('{orders: {"0": 120, 1: 0}}', {"orders": {0: 120, 1: 0}}),
        ("2026-07-01T00:00:00Z", "2026-07-01T00:00:00+00:00"),
        ("'2026-07-01T00:00:00Z'", "2026-07-01T00:00:00Z"),
        ("2026-07-01", "2026-07-01"),
        ("1970-01-01", "1970-01-01"),
    ],
)
def test_where_a_topic_begins_is_written_as_the_docs_have_it(
    tmp_path: Path, starting: str, offsets: object
) -> None:
    (tmp_path / "orders.yaml").write_text(KAFKA.replace("X", starting))
    pipeline = load_pipeline(tmp_path / "orders.yaml")
    assert isinstance(pipeline.source, KafkaSource)
    assert pipeline.source.kafka.starting == offsets
    assert Pipeline.model_validate_json(pipeline.model_dump_json()) == pipeline


@pytest.mark.parametrize(
    ("starting", "told"),
    [
        (
            "1969-12-31",
            ": `1969-12-31`: is before 1970, where Kafka's times "
            "begin; say `earliest` for all there is.",
        ),
        (
            "'1900-01-01T00:00:00Z'",
            ": `1900-01-01T00:00:00Z`: is before 1970, where Kafka's times "
            "begin; say `earliest` for all there is.",
        ),
        ("{orders: 120}", ".orders: `120`: should be a mapping of keys to values."),
        ("{orders: {0: -1}}", ".orders.0: `-1`: must be at least 0."),
        ("{orders: {0: x}}", ".orders.0: `x`: should be a whole number."),
        ("{orders: {a: 1}}", ".orders.a: `a`: should be a whole number."),
        ("{orders: {0: 120, 00: 5}}", ".orders.00: `00`: should be a whole number."),
        ("{orders: {'0': 120, '00': 5}}", ".orders.00: `00`: should be a whole number."),
        (
            "{orders: {4000000000: 1}}",
            ".orders.4000000000: `4000000000`: must be at most 2147483647.",
        ),
        (
            "{orders: {0: 9223372036854775808}}",
            ".orders.0: `9223372036854775808`: must be at most 9223372036854775807.",
        ),
        (
            "{or/ders: {0: 1}}",
            ".or/ders: `or/ders`: is no name of a topic: letters, digits, `.`, `_` and `-`, "
            "at most 249.",
        ),
    ],
)
def test_what_is_wrong_with_it_is_one_line_without_names_of_types(starting: str, told: str) -> None:
    assert said(KAFKA.replace("X", starting)).partition(STARTING)[2] == told


def test_two_kinds_of_sources_in_one_are_told_as_that() -> None:
    both = FILE.replace("files:", "kafka: {topic: orders, connection: c}\n  files:")
    assert "source.files: stands beside `kafka`; rows come from one of them." in said(both)
    other = FILE.replace("columns:", "delta: {table: t}\n  columns:")
    assert "source.delta: stands beside `files`; rows come from one of them." in said(other)


def test_a_pattern_of_topics_that_takes_time_without_end_is_refused() -> None:
    by_pattern = KAFKA.replace("topic: orders", "pattern: '(a+)+b'").replace(", starting: X", "")
    assert "source.kafka.pattern: `(a+)+b`: has `(a+)+`, a repetition over" in said(by_pattern)
    assert said(by_pattern.replace("(a+)+b", "(eu|us)[.]orders.*")) == "good"


@pytest.mark.parametrize("starting", ["5", "[1]", "true", "null", "1.5"])
def test_where_one_of_several_things_is_asked_for_all_are_told(starting: str) -> None:
    text = said(KAFKA.replace("X", starting))
    assert "\n" not in text
    assert (
        "should be text or a mapping of keys to values (Where the first run begins: earliest, "
        in text
    )
    text = said(DELTA.replace("X", "[1]"))
    assert "should be one of 'earliest', 'latest' or a whole number (Where the first" in text


@given(
    st.sampled_from([KAFKA, DELTA]),
    st.recursive(
        st.sampled_from(["5", "-1", "x", "true", "null", "2026-07-01", "1.5", "''"]),
        lambda inner: (
            st.lists(inner, max_size=2).map(lambda one: f"[{', '.join(one)}]")
            | st.tuples(st.sampled_from(["orders", "0", "a b"]), inner).map(
                lambda one: f"{{{one[0]}: {one[1]}}}"
            )
        ),
        max_leaves=4,
    ),
)
def test_no_name_of_a_type_is_ever_shown(file: str, value: str) -> None:
    text = said(file.replace("X", value))
    assert not [
        word for word in ("dict[", "function-", "constrained", "literal[", "tuple[") if word in text
    ]


# Each kind of thing that a file can hold; it need not be good.
ALL = """
keep: 30 days
source:
  files: land/orders/*.json
  columns: {at: timestamp not null, carrier: {type: string, description: x}}
  event_time: {column: at, zone: UTC, max_future: 1 hour}
  unique: {by: carrier, within: 1 day}
  derive: {dear: carrier > 'a'}
  checks: [{fail: {rejected_share: {at_most: 0.1}}}, {warn: {rows_per_run: {at_least: 1}}}]
watermark: {delay: 10 minutes, seal_after_idle: 1 hour}
tables:
  daily:
    window: {length: 1 day, slide: 1 hour}
    group_by: [carrier]
    measures: {orders: count(*)}
    renamed_from: {orders: n}
    checks: [{warn: {ExpectColumnMaxToBeBetween: {column: orders, max_value: 3}}}]
  visits: {window: {session: 1 hour}, group_by: [carrier], measures: {orders: count(*)}}
  both: {join: {with: clicks, 'on': [carrier], within: 1 hour}, measures: {orders: count(*)}}
  folded: {fold: {python: "x:Y", order_by: [at], emits: {n: long}}, group_by: [carrier]}
advanced:
  max_files_per_batch: 3
  state: {store: rocksdb, limits: {max_files: 3}}
  spark: {spark.sql.adaptive.enabled: "true"}
"""
JUNK = [None, 5, -1, 1.5, True, "x", "", [], [1], ["x"], {}, {"x": 1}, {"x": {"y": [1]}}, [[1]]]
Way = tuple[str | int, ...]


def ways(value: Any, way: Way = ()) -> Iterator[Way]:
    """To each value of a document, by keys and places."""
    if not isinstance(value, dict | list):
        return
    for key, one in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*way, key)
        yield from ways(one, (*way, key))


DOCUMENTS = [yaml.safe_load(text.replace("X", "latest")) for text in (ALL, KAFKA, DELTA)]


@given(
    st.sampled_from([(at, way) for at, one in enumerate(DOCUMENTS) for way in ways(one)]),
    st.sampled_from(JUNK),
)
def test_whatever_stands_anywhere_the_names_of_types_are_not_shown(
    place: tuple[int, Way], junk: Any
) -> None:
    document = deepcopy(DOCUMENTS[place[0]])
    *above, last = place[1]
    reduce(lambda value, key: value[key], above, document)[last] = junk
    text = said(yaml.safe_dump(document))
    assert not re.search(r"\w\[[a-z]+[],-]|function-|constrained|literal\[|Input should", text)


@pytest.mark.parametrize(
    ("columns", "key_format", "told"),
    [
        ("key: {type: long, field: _key.id}", "avro", "good"),
        ("_key: array<int>", "json", "good"),
        ("_key: string", "text", "good"),
        ("x: long", "avro", "key_format: no column is made of `_key`"),
        ("_key: long", "text", "_key is of type string, not long"),
        ("key: {type: long, field: _key.id}", "text", "declared without a field"),
        ("_key: {type: string, field: id}", "avro", "no column is made of `_key`"),
        ("_key: long\n    x: {type: string, field: _headers}", "avro", "without a field"),
        ("_key: long\n    _kafka_time: long", "avro", "_kafka_time is of type timestamp, not long"),
    ],
)
def test_columns_of_a_key_are_what_its_format_can_hold(
    columns: str, key_format: str, told: str
) -> None:
    text = KAFKA.replace(", starting: X", "").replace("    end: long\n", "    end: long\n    X\n")
    text = text.replace("  event_time:", f"  key_format: {key_format}\n  event_time:")
    assert told in said(text.replace("X", columns))
