"""Validation where Spark is: by the job that publishes; and that all agree."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from tests.kit.running import Place, clicks, run_warm, succeed
from tests.kit.windows import at, window
from tests.quality.held import Held
from tidemark.gold.to_publish import to_publish
from tidemark.operators.kinds import operator_of
from tidemark.quality.conditions import judge_conditions
from tidemark.quality.planned_rows import ROWS, TablePublish, planned_rows
from tidemark.storage.duckdb_in_utc import arrow_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]


def below(one: int | None, other: int) -> bool | None:
    return None if one is None else one < other


def either(one: bool | None, other: bool | None) -> bool | None:
    """`or` of SQL: true wins over null, null over false."""
    return True if one or other else None if None in (one, other) else False


# Of a row: true, false, or None where nobody can tell; in Python, and as a pipeline file says it.
TOLD: dict[str, Callable[[Row], bool | None]] = {
    "total < 3": lambda row: below(row["total"], 3),
    "not total < 3": lambda row: None if row["total"] is None else row["total"] >= 3,
    "total < 3 or key = 'a'": lambda row: either(
        below(row["total"], 3), None if row["key"] is None else row["key"] == "a"
    ),
    "total is null or key is not null": lambda row: row["total"] is None or row["key"] is not None,
    "key <=> null": lambda row: row["key"] is None,
    "coalesce(total, 0) % 2 = 0": lambda row: (row["total"] or 0) % 2 == 0,
    "key in ('a', 'b')": lambda row: None if row["key"] is None else row["key"] in "ab",
    "case when total < 0 then false else true end": lambda row: not below(row["total"], 0),
    "window_start < timestamp '2026-07-01 10:30:00Z'": lambda row: (
        row["window_start"] < datetime(2026, 7, 1, 10, 30, tzinfo=UTC)
    ),
}


def publish_of(held: Held, *rows: Row) -> TablePublish:
    """What a run with these changed windows would publish."""
    pins = held.run(*rows).tables["per_10m"]
    tables, operator = held.place.warehouse, operator_of(held.place.pipeline, "per_10m")
    found = to_publish(operator, pins, tables.gold("per_10m"), tables.changes("per_10m", 1))
    return TablePublish("per_10m", operator, found.gold, found.plan, found.changes(), "run")


def test_duckdb_spark_and_python_find_the_same_rows_bad(
    spark: SparkSession, tmp_path: Path
) -> None:
    draw = Random(20260701)
    held = Held(tmp_path, [{"fail": text} for text in TOLD])
    starts = [(at(10, minute), key) for minute in (0, 20, 40) for key in ("a", "b", "c", None)]
    values = (None, -2, -1, 0, 2, 3, 5)
    rows = [window(start, key=key, total=draw.choice(values)) for start, key in starts]
    with planned_rows(publish_of(held, *rows)) as planned:
        by_duckdb = {one.check: one.unexpected for one in judge_conditions(planned)}
        found = planned.connection.sql(f"SELECT {planned.columns} FROM {ROWS}")
        frame = spark.createDataFrame(arrow_of(found, planned.schema))
    by_spark = {text: frame.where(f"NOT ({text})").count() for text in TOLD}
    by_python = {text: sum(told(row) is False for row in rows) for text, told in TOLD.items()}
    assert by_duckdb == by_spark == by_python
    assert any(by_python.values())


def day(minute: int, amount: int, key: str = "a") -> Row:
    return {"at": f"2026-01-01T10:{minute:02}:00Z", "key": key, "amount": amount}


def with_check(*checks: dict[str, Any]) -> dict[str, Any]:
    table = clicks()["tables"]["per_10m"] | {"checks": list(checks)}
    return clicks(tables={"per_10m": table})


def test_a_job_that_publishes_is_gated_and_the_next_good_one_publishes_both(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path, with_check({"fail": "amount >= 0"}, {"warn": "events > 1"}))
    place.land("1.json", [day(1, 5)])
    succeed(spark, place, "good")
    before = bytes_of(place)
    place.land("2.json", [day(2, -50), day(31, 1)])
    held = run_warm(spark, place, "bad")
    assert held.error is not None
    assert (held.error.type, held.held) == ("ChecksFailed", True)
    assert bytes_of(place) == before
    place.land("3.json", [day(3, 100)])
    result = succeed(spark, place, "next")
    assert list(result.seconds)[-2:] == ["validate", "publish"]
    rows = sorted((row["window_start"].minute, row["amount"]) for row in place.gold().to_pylist())
    assert rows == [(0, 55), (30, 1)]
    told = place.table(place.places.quality).to_pylist()
    assert {row["run"] for row in told} == {"good", "bad", "next"}
    failed = [row["run"] for row in told if not row["passed"] and row["severity"] == "fail"]
    assert failed == ["bad"]


def bytes_of(place: Place) -> dict[str, bytes]:
    folder = Path(place.places.gold("per_10m"))
    return {str(f): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}
