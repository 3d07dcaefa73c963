"""Runs of the worked examples that the tests of several pages look at; nobody changes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.worked_modes import ADS, WORDS, Steps, run_example, run_tail
from tests.kit.running import Place
from tidemark.runs.results.result import RunResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Worked:
    """A worked example in all output modes: its place, its triggers, and the runs after them."""

    place: Place
    steps: Steps
    tail: list[RunResult]


@pytest.fixture(scope="session")
def impressions(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Worked:
    place, steps = run_example(spark, tmp_path_factory.mktemp("impressions"), ADS)
    return Worked(place, steps, run_tail(spark, place))


@pytest.fixture(scope="session")
def words(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Worked:
    return Worked(*run_example(spark, tmp_path_factory.mktemp("words"), WORDS), tail=[])
