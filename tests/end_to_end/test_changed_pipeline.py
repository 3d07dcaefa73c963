"""A pipeline file that changed between runs: what fits is taken on, the rest is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.runs import Place, clicks, run_warm, succeed

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def with_columns(**columns: str) -> dict[str, Any]:
    source = clicks()["source"]
    return clicks(source=source | {"columns": source["columns"] | columns})


def row(amount: int, **more: Any) -> dict[str, Any]:
    return {"at": "2026-03-01T10:00:00Z", "key": "a", "amount": amount} | more


def test_a_column_whose_type_changed_is_refused_before_a_row_moves(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path)
    place.land("1.json", [row(1)])
    succeed(spark, place, "first")
    place.content = with_columns(amount="double")
    place.land("2.json", [row(2)])
    error = run_warm(spark, place, "second").error
    assert error is not None
    assert error.type == "TableMismatch"
    assert "amount: the table has long, the pipeline double" in error.message
    assert not error.retry_can_help
    assert [row["amount"] for row in place.bronze().to_pylist()] == [1]


def test_a_new_column_is_null_in_the_rows_before_it(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.land("1.json", [row(1)])
    succeed(spark, place, "first")
    place.content = with_columns(page="string")
    place.land("2.json", [row(2, page="/")])
    succeed(spark, place, "second")
    pages = {row["amount"]: row["page"] for row in place.bronze().to_pylist()}
    assert pages == {1: None, 2: "/"}
    assert [row["amount"] for row in place.gold().to_pylist()] == [3]


def test_a_new_measure_is_refused_with_its_name(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.land("1.json", [row(1)])
    succeed(spark, place, "first")
    tables = clicks()["tables"]
    tables["per_10m"]["measures"]["largest"] = "max(amount)"
    place.content = clicks(tables=tables)
    error = run_warm(spark, place, "second").error
    assert error is not None
    assert error.type == "TableMismatch"
    assert "largest: long, not in the table" in error.message
