"""Checks of a pipeline file: what is taken, and what is told of the rest when it is loaded."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
import sqlglot
from ruamel.yaml import YAML
from sqlglot import exp

from tests.pipeline.conftest import GOOD, Load, Problems
from tidemark.pipeline.expressions.in_duckdb import condition_in_duckdb, in_duckdb
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
    "ExpectColumnValuesToNotBeNull: {column: page, mostly: 0.9}": None,
    "ExpectTableRowCountToBeBetween: {min_value: 1}": None,
    "ExpectColumnPairValuesAToBeGreaterThanB: {column_A: longest, column_B: clicks}": None,
    "ExpectCompoundColumnsToBeUnique: {column_list: [page, slow]}": None,
    "ExpectColumnMaxToBeBetwen: {column: clicks}": "Did you mean `ExpectColumnMaxToBeBetween`?",
    "ExpectColumnMaxToBeBetween: {colum: clicks, max_value: 9}": "Did you mean `column`?",
    "ExpectColumnMaxToBeBetween: {column: click}": "Did you mean `clicks`?",
    "ExpectColumnMaxToBeBetween: {column: took}": "`took` is not a column of gold",
    "ExpectColumnMaxToBeBetween: {max_value: 9}": "is missing",
    "ExpectColumnMaxToBeBetween: {column: clicks, max_value: [9]}": "does not fit the expectation",
    "ExpectColumnMaxToBeBetween: {column: clicks, severity: info}": "is not an argument of it",
    "ExpectCompoundColumnsToBeUnique: {column_list: [page, slo]}": "Did you mean `slow`?",
    "ExpectColumnValuesToNotBeNull: {column: page, mostly: 2}": "does not fit the expectation",
}


@pytest.mark.parametrize("text", list(EXPECTATIONS))
def test_an_expectation_is_checked_by_the_schema_of_great_expectations(
    told: Told, text: str
) -> None:
    found, expected = told(f"warn: {{{text}}}"), EXPECTATIONS[text]
    if expected is None:
        assert found == []
    else:
        assert any(expected in one for one in found)


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
        ("fail: {rejected_share: {at_most: 5}}", "less than or equal to 1"),
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
        "(found,) = expectation_faults('ExpectColumnMaxToBeBetween', {}, ())\nprint(found.message)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "install the extra `quality`" in done.stdout


# Of a row of gold: what both engines say of each.
ROW = """
    SELECT 3L AS n, 'a,b' AS s, CAST(NULL AS INT) AS m, 1.5D AS x, 2.25BD AS price,
    timestamp '2026-01-01 10:10:00Z' AS t, date '2026-01-01' AS d
"""
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
    "lower(upper(s)) = s and length(s) = 3": True,
    "startswith(s, 'a') and endswith(s, 'b') and contains(s, ',')": True,
    "t >= timestamp '2026-01-01 10:10:00Z'": True,
    "t - interval 10 minutes = timestamp '2026-01-01 10:00:00Z'": True,
    "hour(t) = 10 and minute(t) = 10": True,
    "cast(t as date) = d and d = date '2026-01-01'": True,
    "cast(n as string) = '3'": True,
    # Doubled quotes are one, in Spark since its 4.0.
    """s <> 'it''s' and 'it''s' = "it's" and length('''') = 1""": True,
    "'a''b' like 'a_b' and 'c' like \"c\"": True,
}
REFUSED = [
    "dayofweek(d) = 5",
    "unix_timestamp(t) > 0",
    "s rlike '^a'",
    "pmod(n, 2) = 1",
    "s like 'a\\\\_%'",
    "exists(array(n), y -> y > 1)",
    "round(x) = 2",
]


def row_condition(text: str) -> exp.Expr:
    return sqlglot.parse_one(text, dialect="spark")


@pytest.mark.parametrize("text", list(TRANSLATED))
def test_what_is_translated_means_in_duckdb_what_it_means_in_spark(text: str) -> None:
    """What Spark says is held to the same table by `test_checks_in_spark.py`."""
    row = row_condition(ROW).sql("duckdb")
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        told = connection.execute(f"SELECT {condition_in_duckdb(text)} FROM ({row})")
        assert told.fetchone() == (TRANSLATED[text],)


@pytest.mark.parametrize("text", REFUSED)
def test_what_duckdb_would_take_in_another_way_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be translated to DuckDB"):
        in_duckdb(row_condition(text))
