"""Which dates of bronze a batch is compared with, and which files are read for that."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.streaming.duplicate_rows import FILE, JUDGED, unique_source
from tidemark.streaming.ingest.spark_rows import dates_within

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(*instant: int) -> int:
    return (datetime(*instant, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)  # type: ignore[misc,arg-type]


def of(*times: tuple[int, int], **within: float) -> list[tuple[date, date]]:
    return dates_within(times, timedelta(**within) // timedelta(microseconds=1))


def test_the_dates_reach_as_far_as_the_horizon_of_the_times_and_no_further() -> None:
    noon = micros(2026, 7, 10, 12), micros(2026, 7, 10, 13)
    assert of(noon, hours=10) == [(date(2026, 7, 10), date(2026, 7, 10))]
    assert of(noon, hours=11) == [(date(2026, 7, 10), date(2026, 7, 11))]
    assert of(noon, hours=12, microseconds=1) == [(date(2026, 7, 9), date(2026, 7, 11))]
    assert of(noon, days=7) == [(date(2026, 7, 3), date(2026, 7, 17))]


def test_what_lies_between_two_dates_far_apart_is_left_out() -> None:
    first, last = micros(2026, 1, 1, 12), micros(2026, 12, 31, 12)
    assert of((last, last), (first, first), days=1) == [
        (date(2025, 12, 31), date(2026, 1, 2)),
        (date(2026, 12, 30), date(2027, 1, 1)),
    ]


def test_ranges_that_meet_are_one() -> None:
    days = [(micros(2026, 7, n, 12),) * 2 for n in range(1, 31)]
    assert of(*days, hours=1) == [(date(2026, 7, 1), date(2026, 7, 30))]
    inside = (micros(2026, 7, 1), micros(2026, 7, 20)), (micros(2026, 7, 5), micros(2026, 7, 6))
    assert of(*inside, hours=1) == [(date(2026, 6, 30), date(2026, 7, 20))]


def test_very_many_ranges_are_joined_across_their_smallest_gaps() -> None:
    days = [(micros(2000 + n // 12, n % 12 + 1, 1, 12),) * 2 for n in range(240)]
    far = (micros(1980, 1, 1, 12),) * 2
    found = of(far, *days, hours=1)
    assert len(found) == 50
    assert found[0] == (date(1980, 1, 1), date(1980, 1, 1))
    assert all(before[1] < after[0] for before, after in pairwise(found))


def test_a_horizon_beyond_the_calendar_ends_with_it() -> None:
    time = (micros(2026, 7, 1),) * 2
    assert of(time, days=3_660_000) == [(date.min, date.max)]
    assert of() == []


@pytest.fixture(scope="module")
def bronze(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Sixty dates from 2026-05-01 on, a file each: the same id every day at noon, in batch 0."""
    from pyspark.sql import functions as F

    days = F.timestamp_millis(F.lit(micros(2026, 5, 1, 12) // 1000) + F.col("id") * 86_400_000)
    rows = spark.range(0, 60, 1, 1).select(
        days.alias("at"),
        F.lit("x").alias("id"),
        F.lit("file:///landing/history.json").alias("_file"),
        F.lit(0).alias("_batch"),
        F.to_date(days).alias("_event_date"),
    )
    place = str(tmp_path_factory.mktemp("dates") / "bronze")
    rows.write.format("delta").partitionBy("_event_date").save(place)
    return place


def dates_read(
    spark: SparkSession, bronze: str, times: Sequence[datetime], batch: int = 1, **taken: Any
) -> list[str]:
    """The dates of the files in the plan that looks for ids near a batch's rows; within a day."""
    from pyspark.sql import functions as F

    from tidemark.streaming.ingest import duplicates as d
    from tidemark.streaming.ingest.spark_rows import accepted_before

    source = unique_source("1 day")
    assert source.unique is not None
    judged = spark.createDataFrame(
        [("t", "f", n, at, "x", None) for n, at in enumerate(times)], JUDGED
    )
    spans = [((at - EPOCH) // timedelta(microseconds=1),) * 2 for at in times]
    dates = dates_within(spans, d.horizon_micros(source.unique))
    rows = spark.read.format("delta").load(bronze)
    before = accepted_before(rows, batch, F.col("_file").isin(taken.get("not_read", [])), dates)
    accepted = d.accepted_rows_of(before, source, source.unique, FILE)
    contested = d.contested_ids(judged, accepted, source, source.unique, FILE)
    found = {str(row.time) for r in contested.collect() for row in r["before"]}
    assert bool(found) == (batch != 0 or bool(taken))
    files = before.inputFiles()
    assert set(contested.inputFiles()) <= set(files)
    return sorted(file.split("_event_date=")[1].split("/")[0] for file in files)


@pytest.mark.long
def test_of_sixty_dates_a_batch_of_one_date_reads_those_within_its_horizon(
    spark: SparkSession, bronze: str
) -> None:
    noon = datetime(2026, 6, 1, 12, tzinfo=UTC)
    assert dates_read(spark, bronze, [noon]) == ["2026-05-31", "2026-06-01", "2026-06-02"]


def test_a_batch_of_two_dates_far_apart_does_not_read_what_lies_between(
    spark: SparkSession, bronze: str
) -> None:
    times = [datetime(2026, month, 20, 12, tzinfo=UTC) for month in (5, 6)]
    days = [f"2026-{month}-{day}" for month in ("05", "06") for day in (19, 20, 21)]
    assert dates_read(spark, bronze, times) == days


def test_rows_of_the_batch_itself_count_only_where_their_file_is_not_read_now(
    spark: SparkSession, bronze: str
) -> None:
    noon = [datetime(2026, 6, 1, 12, tzinfo=UTC)]
    assert dates_read(spark, bronze, noon, batch=0) == []
    not_read = ["file:///landing/history.json"]
    assert len(dates_read(spark, bronze, noon, batch=0, not_read=not_read)) == 3
