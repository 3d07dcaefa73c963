"""Duplicates are those that a comparison of every row with every accepted row finds."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.streaming.duplicate_rows import (
    Row,
    accepted_of,
    brute_force,
    decide,
    unique_source,
    verdicts_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FEW, MANY = 2, 40
FILES = [f"file:///landing/{name}.json" for name in "abc"]


@st.composite
def batches(draw: st.DrawFn) -> list[list[Row]]:
    """Three batches of rows of many ids; the rows of one id stand apart from all others."""
    found: list[list[Row]] = [[], [], []]
    for number in range(draw(st.integers(20, 40))):
        key = None if number == 0 else f"id{number}"
        for batch in found:
            batch += draw(st.lists(_row(key), max_size=6))
    return [draw(st.permutations(batch)) for batch in found]


def _row(key: str | None) -> st.SearchStrategy[Row]:
    halves = st.integers(0, 60).map(lambda n: n / 2)
    return st.builds(Row, halves, st.sampled_from(FILES), st.sampled_from("pq"), st.just(key))


within = st.sampled_from([0.5, 1.0, 7.0, 10.5, 100.0])


def assert_batches_are_those_of_the_model(
    spark: SparkSession, generated: list[list[Row]], seconds: float
) -> None:
    source = unique_source(f"{seconds} seconds")
    before: list[Row] = []
    for rows in generated:
        found = verdicts_of(rows, decide(spark, rows, before, source))
        assert found == brute_force(rows, before, seconds)
        before += accepted_of(found)
    _assert_apart(before, seconds)


def assert_a_repeat_of_some_files_decides_as_before(
    spark: SparkSession, generated: list[list[Row]], seconds: float, read: set[str]
) -> None:
    source = unique_source(f"{seconds} seconds")
    rows, before = generated[0], accepted_of(brute_force(generated[1], [], seconds))
    first = brute_force(rows, before, seconds)
    of_other_files = [row for row in accepted_of(first) if row.file not in read]
    again = [row for row in rows if row.file in read]
    found = verdicts_of(again, decide(spark, again, before + of_other_files, source))
    assert found == [verdict for verdict in first if verdict[0].file in read]


def _assert_apart(accepted: list[Row], seconds: float) -> None:
    ordered = sorted((row.id, row.seconds) for row in accepted if row.id is not None)
    for (key, time), (next_key, next_time) in pairwise(ordered):
        assert key != next_key or next_time - time > seconds


@settings(max_examples=FEW, suppress_health_check=list(HealthCheck))
@given(generated=batches(), seconds=within)
def test_batch_by_batch_the_verdicts_are_those_of_the_model(
    spark: SparkSession, generated: list[list[Row]], seconds: float
) -> None:
    assert_batches_are_those_of_the_model(spark, generated, seconds)


@settings(max_examples=FEW, suppress_health_check=list(HealthCheck))
@given(generated=batches(), seconds=within, read=st.sets(st.sampled_from(FILES), min_size=1))
def test_a_repeat_that_reads_some_of_the_files_comes_to_the_same_verdicts(
    spark: SparkSession, generated: list[list[Row]], seconds: float, read: set[str]
) -> None:
    assert_a_repeat_of_some_files_decides_as_before(spark, generated, seconds, read)


@pytest.mark.long
@settings(max_examples=MANY, suppress_health_check=list(HealthCheck))
@given(generated=batches(), seconds=within, read=st.sets(st.sampled_from(FILES), min_size=1))
def test_many_batches_and_repeats_are_decided_as_the_model_does(
    spark: SparkSession, generated: list[list[Row]], seconds: float, read: set[str]
) -> None:
    assert_batches_are_those_of_the_model(spark, generated, seconds)
    assert_a_repeat_of_some_files_decides_as_before(spark, generated, seconds, read)
