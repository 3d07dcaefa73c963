"""Rules are asked of each row in their order, and none of them fails a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.judge.judging import pipeline_of
from tests.streaming.test_derive import COLUMNS, rows_of
from tidemark.errors import PipelineInvalid
from tidemark.pipeline.model import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def source_of(*rules: tuple[str, str, str], **derive: str) -> Source:
    """With rules of name, `reject` or `count`, and condition."""
    given = [{"name": name, act: sql} for name, act, sql in rules]
    return pipeline_of(COLUMNS, derive=derive, rules=given).source


def told(rows: DataFrame, source: Source) -> list[Any]:
    """For each row who counts it, or its reason and detail without the engine's words."""
    from tidemark.streaming.derive import derived, failure_details, ruled

    judged = ruled(derived(rows, source), source)
    counted = [(row["n"], row["_counted"]) for row in judged.where("_failed is null").collect()]
    failed = failure_details(judged.where("_failed is not null"), source)
    rejected = [(row["n"], row["_failed"]["reason"], row["_detail"]) for row in failed.collect()]
    return sorted([*counted, *rejected], key=lambda one: (one[0] is None, one[0]))


def test_the_first_rule_that_rejects_names_the_row_and_says_its_condition_and_values(
    spark: SparkSession,
) -> None:
    source = source_of(
        ("small", "reject", "n < 2"), ("odd", "reject", "n % 2 = 1 and s = 'a'"),
    )  # fmt: skip
    rows = rows_of(spark, (1, "a"), (2, "a"), (3, "a"), (5, "b"))
    assert told(rows, source) == [
        (1, "small", "n < 2 (n = 1)"),
        (2, []),
        (3, "odd", "n % 2 = 1 and s = 'a' (n = 3, s = 'a')"),
        (5, []),
    ]


def test_null_is_no_hit(spark: SparkSession) -> None:
    source = source_of(
        ("small", "reject", "n < 2"), ("is a", "count", "s = 'a'"), ("not a", "count", "s <> 'a'")
    )
    rows = rows_of(spark, (None, "a"), (3, None), (4, "b"))
    assert told(rows, source) == [(3, []), (4, ["not a"]), (None, ["is a"])]


def test_several_rules_count_a_row_and_all_it_is_counted_by_are_told(spark: SparkSession) -> None:
    source = source_of(
        ("a", "count", "s = 'a'"), ("twice", "count", "twice > 2"), ("b", "count", "s = 'b'"),
        twice="n * 2",
    )  # fmt: skip
    rows = rows_of(spark, (1, "a"), (2, "a"), (3, "b"), (4, "c"))
    assert told(rows, source) == [(1, ["a"]), (2, ["a", "twice"]), (3, ["twice", "b"]),
                                  (4, ["twice"])]  # fmt: skip


@pytest.mark.parametrize("act", ["reject", "count"])
def test_a_row_on_which_a_condition_fails_is_a_reject_with_the_engines_words(
    spark: SparkSession, act: str
) -> None:
    source = source_of(("share", act, "100 / n > 30"), ("day", act, "cast(s as date) is null"))
    rows = rows_of(spark, (0, "2026-01-01"), (4, "no day"), (5, "2026-01-01"))
    zero, no_day, good = told(rows, source)
    assert zero[:2] == (0, "expression")
    assert zero[2].startswith("rule share: 100 / n > 30 failed: [DIVIDE_BY_ZERO] Division by zero.")
    assert zero[2].endswith(" (n = 0)")
    assert no_day[:2] == (4, "expression")
    assert no_day[2].startswith("rule day: cast(s as date) is null failed: [CAST_INVALID_INPUT]")
    assert no_day[2].endswith(" (s = 'no day')")
    assert good == (5, [])


def test_what_a_rule_rejects_the_rules_behind_it_are_not_asked_of(spark: SparkSession) -> None:
    guard = ("zero", "reject", "n = 0")
    share = ("share", "reject", "100 / n > 30")
    rows = rows_of(spark, (0,), (2,), (50,))
    assert told(rows, source_of(guard, share)) == [
        (0, "zero", "n = 0 (n = 0)"),
        (2, "share", "100 / n > 30 (n = 2)"),
        (50, []),
    ]
    reason = [one[1] for one in told(rows, source_of(share, guard))]
    assert reason == ["expression", "share", []]


def test_a_row_on_which_a_derived_column_fails_meets_no_rule(spark: SparkSession) -> None:
    source = source_of(("any", "reject", "true"), q="100 / n")
    zero, one = told(rows_of(spark, (0,), (1,)), source)
    assert zero[1] == "expression"
    assert zero[2].startswith("q: 100 / n failed")
    assert one == (1, "any", "true")


def test_a_rule_may_have_the_name_of_a_column_and_conditions_as_long_as_files_take(
    spark: SparkSession,
) -> None:
    long = " or ".join(f"n = {number}" for number in range(100, 300))
    source = source_of(("n", "reject", long), ("q", "count", "q = 3"), q="n + 1")
    (two, many) = told(rows_of(spark, (2,), (150,)), source)
    assert two == (2, ["q"])
    assert many == (150, "n", f"{long[:240]} … (n = 150)")


def test_many_rules_are_asked(spark: SparkSession) -> None:
    act = ("count", "reject")
    rules = [(f"rule {n}", act[n % 2], f"n = {n} or 100 / (n - {n} + 1) < 0") for n in range(30)]
    found = told(rows_of(spark, (1,), (4,), (40,)), source_of(*rules))
    assert [one[1] for one in found] == ["rule 1", "expression", []]


def test_the_origin_of_a_row_may_be_asked_for_and_is_told(spark: SparkSession) -> None:
    from tidemark.pipeline.load import pipeline_from_mapping
    from tidemark.streaming.derive import derived, failure_details, ruled

    content = {
        "source": {
            "kafka": {"topic": "t", "connection": "c"},
            "columns": {"at": "timestamp", "n": "long"},
            "event_time": {"column": "at"},
            "derive": {"share": "n / _partition"},
            "rules": [{"name": "first", "reject": "100 / _offset = n"}],
        },
        "watermark": {"delay": "1 minute"},
        "tables": {"t": {"window": {"length": "1 hour"}, "measures": {"c": "count(*)"}}},
    }
    source = pipeline_from_mapping("clicks", content).source
    schema = "n long, at timestamp, _topic string, _partition int, _offset long"
    given = [(n, None, "t", n, offset) for n, offset in ((0, 1), (1, 0), (2, 50), (3, 1))]
    judged = ruled(derived(spark.createDataFrame(given, schema), source), source)
    failed = failure_details(judged.where("_failed is not null"), source).orderBy("n").collect()
    by_zero, offset, first = (row["_detail"] for row in failed)
    assert by_zero.startswith("share: n / _partition failed: [DIVIDE_BY_ZERO]")
    assert by_zero.endswith(" (_partition = 0, n = 0)")
    assert offset.startswith("rule first: 100 / _offset = n failed: [DIVIDE_BY_ZERO]")
    assert first == "100 / _offset = n (_offset = 50, n = 2)"


def test_a_condition_that_only_spark_knows_to_be_none_is_refused_before_a_run(
    spark: SparkSession,
) -> None:
    from tidemark.streaming.planned_columns import plan_columns

    rules = [{"name": "odd", "reject": "from_json(s, 'a int').a"}]
    pipeline = pipeline_of(COLUMNS, rules=rules)
    with pytest.raises(
        PipelineInvalid, match=r"source\.rules\.odd: .* is of Spark's type int, and"
    ):
        plan_columns(spark, pipeline)
    good = [{"name": "good", "reject": "from_json(s, 'a boolean').a"}]
    plan_columns(spark, pipeline_of(COLUMNS, rules=good))
