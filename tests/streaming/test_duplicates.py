"""Which rows are duplicates, and of which row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.streaming.duplicate_rows import (
    FILE,
    Row,
    Verdicts,
    brute_force,
    decide,
    unique_source,
    verdicts_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEVEN = unique_source("7 seconds")
A, B, C = "file:///landing/a.json", "file:///landing/b.json", "file:///landing/c.json"


def row(seconds: float, file: str = A, text: str = "line", key: str | None = "x") -> Row:
    return Row(seconds, file, text, key)


def decided(spark: SparkSession, rows: list[Row], before: list[Row] | None = None) -> Verdicts:
    """The verdicts, which are also those of the model."""
    found = verdicts_of(rows, decide(spark, rows, before or [], SEVEN))
    assert found == brute_force(rows, before or [], 7)
    return found


def test_a_row_is_compared_with_accepted_rows_only(spark: SparkSession) -> None:
    assert decided(spark, [row(10), row(5), row(0)]) == [
        (row(0), None),
        (row(10), None),
        (row(5), (A, 0)),
    ]


def test_at_the_horizon_a_row_is_a_duplicate_and_a_microsecond_beyond_it_is_not(
    spark: SparkSession,
) -> None:
    rows = [row(0), row(7), row(100), row(107.000001), row(193, key="y"), row(200, key="y")]
    before = [row(300), row(400)]
    rows += [row(307), row(292.999999), row(393), row(407.000001)]
    found = dict(decided(spark, rows, before))
    assert {r.seconds for r, reference in found.items() if reference is not None} == {
        *(7, 200, 307, 393)
    }


def test_rows_of_other_batches_count_whether_they_lie_earlier_or_later(
    spark: SparkSession,
) -> None:
    before = [row(0, B), row(20, C)]
    assert decided(spark, [row(5), row(13), row(10), row(15, key="other")], before) == [
        (row(10), None),
        (row(13), (A, 10)),
        (row(15, key="other"), None),
        (row(5), (B, 0)),
    ]


def test_ties_break_by_file_then_text_and_of_equal_lines_one_is_accepted(
    spark: SparkSession,
) -> None:
    rows = [row(0, B, "a"), row(0, A, "b"), row(0, A, "a"), row(0, A, "a")]
    assert decided(spark, rows) == sorted(
        [
            (row(0, A, "a"), None),
            (row(0, A, "a"), (A, 0)),
            (row(0, A, "b"), (A, 0)),
            (row(0, B, "a"), (A, 0)),
        ],
        key=repr,
    )


def test_the_row_named_is_the_nearest_then_the_earlier_then_the_first_file(
    spark: SparkSession,
) -> None:
    # Of bronze from before the pipeline had `unique`, rows may lie as near as they like.
    before = [row(0, B), row(4, C), row(4, B), row(20, A), row(26, A)]
    found = dict(decided(spark, [row(1), row(2), row(3), row(23)], before))
    assert found == {row(1): (B, 0), row(2): (B, 0), row(3): (B, 4), row(23): (A, 20)}


def test_null_ids_repeat_nothing(spark: SparkSession) -> None:
    rows = [row(0, key=None), row(0, key=None), row(1, key=None)]
    assert all(reference is None for _, reference in decided(spark, rows, [row(0, key=None)]))


def test_a_row_that_is_rejected_for_another_reason_stays_and_repeats_nothing(
    spark: SparkSession,
) -> None:
    from pyspark.sql import functions as F

    from tidemark.streaming.ingest import duplicates as d

    assert SEVEN.unique is not None
    judged = spark.createDataFrame(
        [
            ("first", A, 0, row(0).at, "x", "future", "too early"),
            ("second", A, 1, row(1).at, "x", None, None),
        ],
        "_value string, _file string, _position long, at timestamp, id string, _reason string, "
        "_detail string",
    )
    nothing = d.accepted_rows_of(judged.where(F.lit(False)), SEVEN, SEVEN.unique, FILE)
    contested = d.contested_ids(judged, nothing, SEVEN, SEVEN.unique, FILE)
    assert contested.count() == 0
    found = d.find_duplicates(judged, contested, SEVEN, SEVEN.unique, FILE)
    rows = d.reject_duplicates(judged, found, SEVEN.unique, FILE).orderBy("_position").collect()
    assert [(r["_reason"], r["_detail"], r["_repeats"]) for r in rows] == [
        ("future", "too early", None),
        (None, None, None),
    ]


def test_the_detail_names_the_id_the_row_and_the_horizon(spark: SparkSession) -> None:
    source = unique_source("7 days")
    long = "i" * 500
    rows = [row(180), row(180.25), row(200.5, B), row(0, key=long), row(0, B, key=long)]
    details = [verdict["detail"] for verdict in decide(spark, rows, [], source)]
    assert details == [
        None,
        f"id x repeats the row of {A} at 2026-07-01T00:03:00Z, within 7 days",
        f"id x repeats the row of {A} at 2026-07-01T00:03:00Z, within 7 days",
        None,
        f"id {'i' * 120} repeats the row of {A} at 2026-07-01T00:00:00Z, within 7 days",
    ]
    fraction = decide(spark, [row(0.25, B), row(0.25, C)], [], source)[1]["detail"]
    assert f"{B} at 2026-07-01T00:00:00.25Z" in fraction


def test_a_horizon_longer_than_the_calendar_is_the_whole_calendar(spark: SparkSession) -> None:
    source = unique_source(f"{10**8} days")
    rows = [row(0), row(10**9), row(-(10**9))]
    references = [verdict["_repeats"] for verdict in decide(spark, rows, [], source)]
    assert [reference is None for reference in references] == [False, False, True]


def test_the_id_may_be_named_in_any_case(spark: SparkSession) -> None:
    source = unique_source("7 seconds", by="ID")
    reasons = [verdict["reason"] for verdict in decide(spark, [row(0), row(1)], [], source)]
    assert reasons == [None, "duplicate"]


def test_ids_that_stand_once_are_not_contested(spark: SparkSession) -> None:
    from tidemark.streaming.ingest import duplicates as d

    assert SEVEN.unique is not None
    judged = spark.createDataFrame(
        [("t", A, n, row(n * 100).at, key, None) for n, key in enumerate("xyzz")],
        "_value string, _file string, _position bigint, at timestamp, id string, _reason string",
    )
    # x is in bronze as well, but beyond the horizon; y within it.
    bronze = spark.createDataFrame(
        [(B, row(50).at, "x"), (B, row(107).at, "y"), (B, row(100).at, "w")],
        "_file string, at timestamp, id string",
    )
    accepted = d.accepted_rows_of(bronze, SEVEN, SEVEN.unique, FILE)
    found = d.contested_ids(judged, accepted, SEVEN, SEVEN.unique, FILE).collect()
    assert {r["id"]: [b["origin"]["file"] for b in r["before"]] for r in found} == {
        "y": [B],
        "z": [],
    }
