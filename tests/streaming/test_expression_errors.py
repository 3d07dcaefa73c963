"""Errors that an expression made are told from what may pass, on what the engine really raises."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FAILING = {
    "100 / (id - id)": "[DIVIDE_BY_ZERO]",
    "cast('x' || id as int)": "[CAST_INVALID_INPUT]",
    "id + 9223372036854775807": "[ARITHMETIC_OVERFLOW]",
    "element_at(array(1), cast(id + 5 as int))": "[INVALID_ARRAY_INDEX_IN_ELEMENT_AT]",
    "to_timestamp('2026-13-01' || id, 'yyyy-MM-dd')": "[CANNOT_PARSE_TIMESTAMP]",
    "nothing + 1": "[UNRESOLVED_COLUMN",
}


def told(rows: DataFrame, to: Path) -> str | None:
    """What writing rows to files comes to, where an expression made it fail."""
    from tidemark.streaming.expression_errors import expression_failure

    with pytest.raises(Exception, match=r".") as raised:
        rows.write.parquet(str(to))
    failure = expression_failure(raised.value, "The test failed.")
    assert failure is None or not failure.retry_can_help
    return failure and str(failure)


@pytest.mark.parametrize(("sql", "words"), FAILING.items(), ids=FAILING)
def test_an_expression_that_fails_in_a_task_is_told_first_and_no_retry_helps(
    spark: SparkSession, tmp_path: Path, sql: str, words: str
) -> None:
    from tidemark.streaming.expression_errors import expression_failure

    rows = spark.range(1, 3)
    if "UNRESOLVED" in words:
        with pytest.raises(Exception, match="UNRESOLVED") as raised:
            rows.selectExpr(sql)
        failure = str(expression_failure(raised.value, "The test failed."))
    else:
        failure = str(told(rows.selectExpr(f"{sql} as x"), tmp_path / "out"))
    assert failure.startswith(words)
    assert "\nThe test failed. Starting again does not help." in failure


def test_what_is_not_there_is_no_failure_of_an_expression(
    spark: SparkSession, tmp_path: Path
) -> None:
    from tidemark.streaming.expression_errors import expression_failure

    with pytest.raises(Exception, match="PATH_NOT_FOUND") as raised:
        spark.read.parquet(str(tmp_path / "nowhere"))
    assert expression_failure(raised.value, "") is None
    (tmp_path / "file").touch()
    assert told(spark.range(1), tmp_path / "file" / "below") is None
    assert expression_failure(ValueError("another"), "") is None
