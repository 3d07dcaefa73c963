"""Runs that several tests look at, and a history that several go on from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.generations import ThreeRuns, run_three_times
from tests.end_to_end.test_losses import MODES as MODES_OF_LOSSES
from tests.end_to_end.test_losses import History, run_history
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


@pytest.fixture(scope="session", params=MODES_OF_LOSSES)
def history(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> History:
    return run_history(spark, tmp_path_factory.mktemp("losses"), request.param)


@pytest.fixture(scope="session")
def three_runs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> ThreeRuns:
    """Runs that every test of generations begins with, once in each output mode and on each store:
    each test has the same folder as they left it."""
    places: dict[tuple[str, str], Place] = {}

    def again(mode: str, store: str = "memory") -> Place:
        if (mode, store) not in places:
            root = tmp_path_factory.mktemp(f"{mode}-{store}")
            places[mode, store] = run_three_times(spark, root, mode, store)
            places[mode, store].keep()
        return places[mode, store].again()

    return again
