"""Checks of a pipeline file: what is taken, and what is told of the rest when it is loaded."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from decimal import Context, Decimal
from importlib.util import find_spec
from pathlib import Path
from random import Random

import duckdb
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML
from sqlglot import exp

from tests.pipeline.conftest import GOOD, Load, Problems
from tidemark.pipeline.expectations import EXPECTED, expectation_faults
from tidemark.pipeline.expressions.in_duckdb import columns_of, condition_in_duckdb, in_duckdb
from tidemark.pipeline.expressions.kinds import (
    BIGINT,
    DATE,
    DOUBLE,
    INT,
    TEXT,
    TIMESTAMP,
    UNKNOWN,
    Kind,
)
from tidemark.pipeline.load import pipeline_from_mapping

MEASURES = "    measures: {clicks: count(*), longest: max(took)}\n"
Told = Callable[[str], list[str]]


def with_checks(*checks: str) -> str:
    lines = "".join(f"      - {check}\n" for check in checks)
    return GOOD.replace(MEASURES, f"{MEASURES}    checks:\n{lines}")


@pytest.fixture
def told(problems: Problems) -> Told:
    """The problems of a table's checks, without their places."""

    def texts(*checks: str) -> list[str]:
        return [problem.text for problem in problems(text=with_checks(*checks))]

    return texts


def test_checks_are_rows_conditions_and_expectations(load: Load) -> None:
    table = load(
        with_checks(
            "fail: clicks > 0",
            "warn: {ExpectColumnMaxToBeBetween: {column: clicks, max_value: 100000}}",
            "fail: longest >= 0 or longest is null",
        )
    ).tables["page_10m"]
    first, second, third = table.checks
    assert (first.fail, first.warn) == ("clicks > 0", None)
    assert second.warn == {"ExpectColumnMaxToBeBetween": {"column": "clicks", "max_value": 100_000}}
    assert third.fail == "longest >= 0 or longest is null"


def test_a_pipeline_without_checks_has_none(load: Load) -> None:
    pipeline = load(GOOD)
    assert pipeline.tables["page_10m"].checks == pipeline.source.checks == ()


def test_the_checks_of_the_page_are_good() -> None:
    repository = Path(__file__).parents[2]
    page = (repository / "docs" / "checks.md").read_text("utf-8")
    yaml = YAML(typ="safe")
    shown = yaml.load(page.split("```yaml\n")[1].split("```")[0])
    content = yaml.load(repository / "include" / "pipelines" / "ad_impressions.yaml")
    content["source"]["checks"] = shown["source"]["checks"]
    content["tables"]["spot_10m"]["checks"] = shown["tables"]["spot_10m"]["checks"]
    pipeline = pipeline_from_mapping("ad_impressions", content)
    assert len(pipeline.source.checks) == 3
    assert pipeline.tables["spot_10m"].names_expectations


ROWS = {
    "clicks > 0": [],
    "clicks > 'many'": None,
    "clik > 0": ["Did you mean `clicks`?"],
    "clicks": ["is no condition: it should be true for a good row"],
    "sum(clicks) > 0": ["sum is an aggregate; a check is told by one row of gold"],
    "clicks > lag(clicks) over (order by window_start)": None,
    "clicks >": ["cannot be read as SQL"],
    "clicks > 0; drop table x": ["has a `;`"],
    "took > 0": ["`took`"],
    "PAGE like 'a%' and status <> 'final' and rows > 1": [],
    "window_end > window_start and window_date is not null": [],
    "xxhash64(page) <> 0": None,
    "clicks > '": ["a quote does not end"],
}


@pytest.mark.parametrize("text", list(ROWS))
def test_a_rows_condition_is_checked_by_names_and_types(told: Told, text: str) -> None:
    found, expected = told(f"fail: {json.dumps(text)}"), ROWS[text]
    if expected is None:
        assert found
    else:
        assert len(found) == len(expected)
        assert all(words in one for words, one in zip(expected, found, strict=True))


def test_a_function_that_duckdb_has_no_word_for_is_an_error(told: Told) -> None:
    (found,) = told("fail: soundex(page) <> 'C420'")
    assert "cannot be translated to DuckDB" in found


def test_the_place_of_a_fault_is_that_of_the_name_in_the_file(problems: Problems) -> None:
    (found,) = problems(text=with_checks("fail: clicks > 0", "warn: longest > clik"))
    assert found.field == "tables.page_10m.checks.1.warn"
    lines = with_checks("fail: clicks > 0", "warn: longest > clik").splitlines()
    assert found.line is not None
    assert found.column is not None
    assert lines[found.line - 1][found.column - 1 :] == "clik"


EXPECTATIONS = {
    "ExpectColumnMaxToBeBetween: {column: clicks, max_value: 9}": None,
    "ExpectColumnMaxToBeBetween: {column: window_start, max_value: '2026-01-31 10:00:00Z'}": None,
    "ExpectColumnValuesToNotBeNull: {column: page, mostly: 0.9, notes: most have one}": None,
    "ExpectTableRowCountToBeBetween: {min_value: 1}": None,
    "ExpectColumnPairValuesAToBeGreaterThanB: {column_A: longest, column_B: clicks}": None,
    "ExpectCompoundColumnsToBeUnique: {column_list: [page, slow]}": None,
    "ExpectColumnValuesToMatchRegex: {column: page, regex: '^/[a-z]+$'}": None,
    "ExpectColumnMaxToBeBetwen: {column: clicks}": "Did you mean `ExpectColumnMaxToBeBetween`?",
    "ExpectColumnMaxToBeBetween: {colum: clicks, max_value: 9}": "Did you mean `column`?",
    "ExpectColumnMaxToBeBetween: {column: click, max_value: 9}": "Did you mean `clicks`?",
    "ExpectColumnMaxToBeBetween: {column: took, max_value: 9}": "`took` is not a column of gold",
    "ExpectColumnMaxToBeBetween: {column: [clicks], max_value: 9}": "is not a column of gold",
    "ExpectColumnMaxToBeBetween: {max_value: 9}": "is missing",
    "ExpectColumnMaxToBeBetween: {column: clicks}": "needs min_value or max_value",
    "ExpectColumnMaxToBeBetween: {column: clicks, max_value: [9]}": "needs a number for a bigint",
    "ExpectColumnMaxToBeBetween: {column: clicks, max_value: .nan}": "needs a number for a bigint",
    "ExpectColumnMaxToBeBetween: {column: clicks, max_value: '9'}": "needs a number for a bigint",
    "ExpectColumnMaxToBeBetween: {column: window_date, max_value: 2026-01-31}": "in quotes",
    "ExpectColumnMaxToBeBetween: {column: window_date, max_value: '2026-02-30'}": "there is not",
    "ExpectColumnMaxToBeBetween: {column: clicks, min_value: 1, severity: info}": "is not an arg",
    "ExpectColumnSumToBeBetween: {column: page, min_value: 1}": "`page` is text; it takes numbers",
    "ExpectCompoundColumnsToBeUnique: {column_list: [page, slo]}": "Did you mean `slow`?",
    "ExpectCompoundColumnsToBeUnique: {column_list: page}": "a list of two or more columns",
    "ExpectColumnValuesToNotBeNull: {column: page, mostly: 2}": "takes a share from 0 to 1",
    "ExpectColumnValuesToNotBeNull: {column: page, notes: {a: b}}": "takes text",
    "ExpectColumnValuesToBeInSet: {column: page, value_set: []}": "takes a list of values",
    "ExpectColumnValuesToBeInSet: {column: page, value_set: [null]}": "has None among them",
    "ExpectColumnValuesToBeInSet: {column: page, value_set: [3]}": "needs a value of the column",
    "ExpectTableRowCountToEqual: {value: true}": "takes a whole number",
    "ExpectColumnValuesToMatchRegex: {column: page, regex: '^(a+)+$'}": "takes time without end",
    "ExpectColumnValuesToMatchRegex: {column: page, regex: 'a(?=b)'}": "RE2 cannot read",
    "ExpectColumnValuesToMatchRegexList: {column: page, regex_list: ['a', '(a|b)*c']}": "stack",
    "ExpectColumnPairValuesToBeEqual: {column_A: page, column_B: clicks}": "in another way",
}


@pytest.mark.slow
@pytest.mark.parametrize("text", list(EXPECTATIONS))
def test_an_expectation_is_checked_by_its_name_its_arguments_and_its_columns_types(
    told: Told, text: str
) -> None:
    found, expected = told(f"warn: {{{text}}}"), EXPECTATIONS[text]
    if expected is None:
        assert found == []
    else:
        assert any(expected in one for one in found), found


@pytest.mark.parametrize(
    ("number", "kept"),
    [
        *(("12345678901234567.89", "1.2345678901234568e+16"), ("1e-400", "0.0")),
        *(("9007199254740993.0", "9007199254740992.0"), ("0.1234567890123456789", "0.12345678901")),
        *(("12345678901234567890123", None), ("12345678901234.56", None), ("1_000.50", None)),
        *(("1e3", None), (".5", None), ("+1.", None), ("-0.30000000000000004", None)),
        *(("1.2300000000000000000000", None), ("1e400", "needs a number")),
    ],
)
def test_a_number_that_the_file_would_make_another_one_is_refused(
    told: Told, number: str, kept: str | None
) -> None:
    bound = f"ExpectColumnMaxToBeBetween: {{column: clicks, max_value: {number}}}"
    found = told(f"fail: {{{bound}}}")
    assert bool(found) == (kept is not None), found
    assert kept is None or kept in found[0]


def test_an_expression_keeps_the_digits_that_an_expectation_does_not(told: Told) -> None:
    assert told("fail: clicks <= 12345678901234567.89") == []
    told_of = in_duckdb(
        row_condition("x > 12345678901234567.89"), columns_of({"x": Kind("decimal", 38, 2)})
    )
    assert "12345678901234567.89" in told_of


def test_a_check_looks_at_the_rows_for_which_its_where_is_true(told: Told, load: Load) -> None:
    check = "{fail: clicks > 0, where: status = 'final'}"
    assert load(with_checks(check)).tables["page_10m"].checks[0].where == "status = 'final'"
    (found,) = told("{fail: {ExpectTableRowCountToEqual: {value: 1}}, where: statu = 'final'}")
    assert "Did you mean `status`?" in found
    assert told("{fail: clicks > 0, where: __import__('os').system('true')}")
    assert told("{fail: clicks > 0, where: 3}")


OF_CODE = "__import__('os').system('touch /tmp/x')"


@pytest.mark.parametrize("argument", ["row_condition", "condition_parser"])
def test_no_argument_of_an_expectation_is_code(told: Told, argument: str) -> None:
    asked = {"ExpectColumnMaxToBeBetween": {"column": "clicks", "max_value": 9, argument: OF_CODE}}
    (found,) = told(f"fail: {json.dumps(asked)}")
    assert "would run as code" in found
    assert "`where: status = 'final'`" in found


def core_expectations() -> list[str]:
    """All that the installed Great Expectations has, by its schemas."""
    found = find_spec("great_expectations")
    assert found is not None
    folder = Path(str(found.origin)).parent / "expectations" / "core" / "schemas"
    return sorted(file.stem for file in folder.glob("*.json") if file.stem != "index")


def test_each_expectation_of_great_expectations_is_taken_or_refused_with_what_to_write() -> None:
    names = core_expectations()
    assert len(names) > 50
    assert set(EXPECTED) <= set(names)
    for name in set(names) - set(EXPECTED):
        (found,) = expectation_faults(name, {}, {})
        assert "is not taken" in found.message
        assert "write" in found.message or "Leave it out" in found.message


# What to write instead of an expectation that is refused, for a table with these columns.
INSTEAD = {
    "ExpectColumnValuesToMatchLikePattern: {column: page, like_pattern: '/a%'}",
    "ExpectColumnValuesToNotMatchLikePatternList: {column: page, like_pattern_list: ['/a%']}",
    "ExpectColumnValueZScoresToBeLessThan: {column: clicks, threshold: 3, double_sided: true}",
    "ExpectColumnQuantileValuesToBeBetween: {column: clicks, quantile_ranges: {}}",
    "ExpectColumnValuesToMatchStrftimeFormat: {column: page, strftime_format: '%Y'}",
    "ExpectColumnPairValuesToBeInSet: {column_A: clicks, column_B: rows, value_pairs_set: []}",
    "ExpectSelectColumnValuesToBeUniqueWithinRecord: {column_list: [clicks, rows]}",
    "ExpectMulticolumnSumToEqual: {column_list: [clicks, rows], sum_total: 3}",
    "ExpectTableRowCountToEqualOtherTable: {other_table_name: x}",
}


@pytest.mark.parametrize("text", sorted(INSTEAD))
def test_the_line_that_is_to_be_written_instead_is_good(told: Told, text: str) -> None:
    (found,) = told(f"warn: {{{text}}}")
    line = re.search("`(warn: [^`]*)`", found)
    assert line, found
    assert told(line[1]) == []


@pytest.mark.parametrize(
    "check",
    [
        "fail: {}",
        "fail: 3",
        "fail: ''",
        "fail: [clicks > 0]",
        "fail: {ExpectTableRowCountToEqual: 3}",
        "fail: {A: {}, B: {}}",
        "{fail: clicks > 0, warn: clicks > 1}",
        "{}",
        "stop: clicks > 0",
        "clicks > 0",
    ],
)
def test_what_is_no_check_is_told(told: Told, check: str) -> None:
    assert told(check)


SOURCE = "  derive: {slow"


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ("fail: {rejected_share: {at_most: 0.05}}", None),
        ("warn: {rows_per_run: {last_runs: 20, at_least: 0.5, at_most: 2}}", None),
        ("warn: {freshness: {at_most: 2 hours}}", None),
        ("fail: {rejected_share: {at_most: 5}}", "must be at most 1"),
        ("fail: {rejected_shares: {at_most: 0.5}}", "Did you mean `rejected_share`?"),
        ("warn: {rows_per_run: {last_runs: 20}}", "needs at_least or at_most"),
        ("warn: {freshness: {at_most: 2 months}}", "a month has no fixed length"),
        ("warn: {freshness: {at_most: 1 h}, rejected_share: {at_most: 1}}", "exactly one of"),
        ("warn: clicks > 0", "should be a mapping"),
    ],
)
def test_the_sources_checks_are_its_own(
    problems: Problems, check: str, expected: str | None
) -> None:
    text = GOOD.replace(SOURCE, f"  checks:\n    - {check}\n{SOURCE}")
    found = [problem.text for problem in problems(text=text)]
    if expected is None:
        assert found == []
    else:
        assert any(expected in one for one in found), found


@pytest.mark.slow
def test_a_file_with_an_expectation_is_loaded_without_importing_great_expectations() -> None:
    text = with_checks("fail: {ExpectColumnMaxToBeBetween: {column: clicks, max_value: 9}}")
    code = (
        "import sys\nfrom ruamel.yaml import YAML\n"
        "from tidemark.pipeline.load import pipeline_from_mapping\n"
        f"pipeline_from_mapping('clicks', YAML(typ='safe').load({text!r}))\n"
        "print(sorted({'great_expectations', 'pandas', 'duckdb'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_without_great_expectations_an_expectation_is_told_what_to_install() -> None:
    code = (
        "import sys\nsys.modules['great_expectations'] = None\n"
        "from tidemark.pipeline.expectations import expectation_faults\n"
        "(found,) = expectation_faults('ExpectColumnMaxToBeBetween', {}, {})\nprint(found.message)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "install the extra `quality`" in done.stdout


# Of a row of gold: what both engines say of each.
ROW = """
    SELECT 3L AS n, 'a,b' AS s, CAST(NULL AS INT) AS m, 1.5D AS x, 2.25BD AS price,
    timestamp '2026-01-01 10:10:00Z' AS t, date '2026-01-01' AS d,
    CAST(123456789012345.60BD AS DECIMAL(28, 2)) AS total, CAST(NULL AS DECIMAL(28, 2)) AS none,
    CAST(0.1BD AS DECIMAL(18, 8)) AS step, CAST(123456789012345.7000000001BD AS DECIMAL(30, 10))
    AS wide
"""
COLUMNS = columns_of(
    {
        "n": BIGINT,
        "s": TEXT,
        "m": INT,
        "x": DOUBLE,
        "f": Kind("float"),
        "price": Kind("decimal", 3, 2),
        "total": Kind("decimal", 28, 2),
        "none": Kind("decimal", 28, 2),
        "step": Kind("decimal", 18, 8),
        "wide": Kind("decimal", 30, 10),
        "t": TIMESTAMP,
        "d": DATE,
        "z": UNKNOWN,
    }
)
TRANSLATED = {
    "n > 0 and s like 'a%'": True,
    "n % 2 = 1 and -n % 2 = -1": True,
    "n / 2 = 1.5 and n div 2 = 1": True,
    "price * 2 = 4.5": True,
    "abs(-x) = 1.5": True,
    "m > 0": None,
    "coalesce(m, 0) = 0 and m <=> null and m is null": True,
    "not (m is not null)": True,
    "n between 1 and 2 or n in (3, 4)": True,
    "if(n > 2, s = 'a,b', false)": True,
    "case when n > 5 then false else s <> '' end": True,
    "nullif(n, 3) is null": True,
    "greatest(n, m) = 3 and least(n, m, 2) = 2": True,
    "s = 'a,b' and length(s) = 3": True,
    "startswith(s, 'a') and endswith(s, 'b') and contains(s, ',')": True,
    "t >= timestamp '2026-01-01 10:10:00Z'": True,
    "t - interval 10 minutes = timestamp '2026-01-01 10:00:00Z'": True,
    "d = date '2026-01-01'": True,
    # Doubled quotes are one, in Spark since its 4.0.
    """s <> 'it''s' and 'it''s' = "it's" and length('''') = 1""": True,
    "'b' not like 'a%' and not 'b' not like 'b%'": True,
    "'a''b' like 'a_b' and 'c' like \"c\"": True,
    # What means something else in both is written in other words.
    "t > '2026-01-01' and d = '2026-01-01' and t < '2026-01-01T10:10:00.5Z'": True,
    "t - d = interval 610 minutes and d - date '2025-12-31' = interval 1 day": True,
    "d + 1 = date '2026-01-02' and d + interval 1 month = date '2026-02-01'": True,
    "n / 0 > 1": None,
    "case n when 3 then true end": True,
    "case n in (3, 4) or s like 'a%' when false then false else true end": True,
    "case n > 5 when false then s is not null when true then s is null end": True,
    "case s = '' when m is null and n > 5 then true end": True,
    # DuckDB makes doubles of decimals that lie too far apart, or rounds one by the other's digits.
    "total % step = 0 and -total % step = 0": True,
    "(total + step) % wide = total + step": True,
    "coalesce(none + step, wide) = wide": True,
    "if(none - step > 0, none - step, wide) > total + step": True,
    # What nullif gives has the type of its first value, whatever that is compared as.
    "nullif(wide, x) > 123456789012345.70 and nullif(wide, x) - step < 123456789012345.61": True,
    "nullif(wide, 123456789012345.7000000001) is null": True,
}
REFUSED = {
    "dayofweek(d) = 5": "allowed are",
    "unix_timestamp(t) > 0": "allowed are",
    "s rlike '^a'": "allowed are",
    "pmod(n, 2) = 1": "allowed are",
    "s like 'a\\\\_%'": "a pattern with a backslash",
    "s like s": "a pattern has to be written out",
    "exists(array(n), y -> y > 1)": "allowed are",
    "round(x) = 2": "allowed are",
    # DuckDB rounds where Spark cuts, writes doubles otherwise, has one capital for `ß`.
    "cast(x as string) = '1.5'": "have a measure or a derived column that casts",
    "cast(1.5 as int) = 1": "have a measure or a derived column that casts",
    "try_cast('2026-01-31' as date) = d": "have a measure or a derived column that casts",
    "upper(s) = 'STRASSE'": "have a measure or a derived column that computes the rest",
    "lower(s) = s": "have a measure or a derived column that computes the rest",
    "hour(t) = 1": "have a measure or a derived column that computes the rest",
    "s = 3": "are compared in another way; have a measure or a derived column of one type",
    "n = '3'": "are compared in another way; have a measure or a derived column of one type",
    "s in ('a', 3)": "are compared in another way",
    "coalesce(s, n) = 3": "are compared in another way",
    "if(n > 1, s, 2) = 2": "are compared in another way",
    "greatest(s, n) = 3": "are compared in another way",
    "t > s": "are compared in another way",
    "(n > 1) = 'true'": "are compared in another way",
    "d = '2026-1-1'": "write the date '2026-1-1' as in '2026-01-31'",
    "t = '2026'": "write the timestamp '2026' as in",
    "d = date '2026-02-31'": "'2026-02-31' is a date that there is not: day is out of range",
    "t > timestamp '2026-13-45 10:00:00'": "is a timestamp that there is not: month must be",
    "t > timestamp '2026-01-31 24:00:00Z'": "is a timestamp that there is not: hour must be",
    "price / 3 = 0.75": "decimals are divided to another number of digits",
    "n like '3%'": "it needs text, and has a bigint",
    "length(n) = 1": "it needs text",
    "d + interval 1 hour > t": "a date and a part of a day",
    "t + interval '1 10:00:00' day to second > t": "write an interval as in",
    "n < 99999999999999999999": "it is larger than any bigint",
    "s * 2 > 1": "needs numbers, and has text",
    # What is chosen of floats is one, for Spark.
    "f + f > 1": "floats are added in single precision",
    "coalesce(f, null) + f > 1": "floats are added in single precision",
    "if(n > 1, f, f) * f > 1": "floats are added in single precision",
    "case when n > 1 then f end - greatest(f, -f) > 1": "floats are added in single precision",
}


def row_condition(text: str) -> exp.Expr:
    return sqlglot.parse_one(text, dialect="spark")


@pytest.mark.slow
@pytest.mark.parametrize("text", list(TRANSLATED))
def test_what_is_translated_means_in_duckdb_what_it_means_in_spark(text: str) -> None:
    """What Spark says is held to the same table by `test_checks_in_spark.py`."""
    row = row_condition(ROW).sql("duckdb")
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        told = connection.execute(f"SELECT {condition_in_duckdb(text, COLUMNS)} FROM ({row})")
        assert told.fetchone() == (TRANSLATED[text],)


def random_decimal(draw: Random) -> tuple[Kind, Decimal]:
    """A type and a value of it."""
    precision = draw.randint(1, 28)
    scale, most = draw.randint(0, precision), 10 ** draw.randint(0, precision)
    value = Decimal(draw.randint(1 - most, most - 1)).scaleb(-scale, WIDE)
    return Kind("decimal", precision, scale), value


# Python's remainder has the sign of what is divided, as Spark's.
WIDE = Context(prec=100)
OF_DECIMALS = {"+": WIDE.add, "-": WIDE.subtract, "*": WIDE.multiply, "%": WIDE.remainder}


@pytest.mark.slow
@pytest.mark.parametrize("sign", list(OF_DECIMALS))
@settings(max_examples=50)
@given(seed=st.integers(0, 10**6))
def test_what_two_decimals_come_to_is_exact(sign: str, seed: int) -> None:
    draw = Random(seed)
    one, other = random_decimal(draw), random_decimal(draw)
    scale = max(one[0].scale, other[0].scale)
    scale = one[0].scale + other[0].scale if sign == "*" else scale
    expected = OF_DECIMALS[sign](one[1], other[1]) if other[1] or sign != "%" else None
    unlike = WIDE.add(expected or Decimal(0), Decimal(1).scaleb(-scale))
    result = Kind("decimal", 38, scale)
    with suppress(ValueError):
        columns = columns_of({"a": one[0], "b": other[0], "c": result, "u": result})
        equal, differ = (
            condition_in_duckdb(f"a {sign} b {text}", columns) for text in ("<=> c", "<=> u")
        )
        values = ((*one, "a"), (*other, "b"), (result, expected, "c"), (result, unlike, "u"))
        listed = ", ".join(
            f"CAST({'NULL' if value is None else f'{value:f}'} AS "
            f"DECIMAL({kind.precision}, {kind.scale})) AS {name}"
            for kind, value, name in values
        )
        told = duckdb.execute(f"SELECT {equal}, {differ} FROM (SELECT {listed})").fetchone()
        assert told == (True, False)


@pytest.mark.parametrize("text", list(REFUSED))
def test_what_duckdb_would_take_in_another_way_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be translated to DuckDB") as refused:
        in_duckdb(row_condition(text), COLUMNS)
    assert REFUSED[text] in str(refused.value)


@pytest.mark.parametrize("text", ["z = '3'", "z > 3", "z / 2 = 1.5", "z like '3'"])
def test_a_type_that_is_not_known_yet_refuses_nothing(text: str) -> None:
    assert in_duckdb(row_condition(text), COLUMNS)


def test_a_long_chain_of_conditions_is_translated() -> None:
    text = "n > 0" + " and n <> 7" * 300 + " or s = 'a'" * 300
    assert condition_in_duckdb(text, COLUMNS).count("AND") == 300


def test_a_column_is_found_in_gold_whatever_the_case_of_its_letters() -> None:
    assert condition_in_duckdb("É > 0", columns_of({"é": BIGINT})) == '"é" > CAST(0 AS INT)'


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ("clicks = '3'", "bigint and text are compared in another way"),
        ("longest > page", "compares text (`page`) with a number (`longest`)"),
        ("page = 3", "compares text (`page`) with a number"),
        ("cast(clicks / 2 as string) = '1.0'", "have a measure or a derived column that casts"),
        ("window_end - window_start = interval 10 minutes", None),
        ("page = 'a\\\\x'", "has a backslash"),
        ("slow = (clicks > 1) in (true, slow)", "has two comparisons side by side"),
        ("slow = ((clicks > 1) in (true, slow))", None),
    ],
)
def test_a_check_is_refused_where_the_engines_differ(
    told: Told, check: str, expected: str | None
) -> None:
    found = told(f"fail: {json.dumps(check)}")
    assert bool(found) == (expected is not None), found
    assert expected is None or any(expected in one for one in found), found
