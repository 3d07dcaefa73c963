"""Whatever arrives, and in whatever batches and runs: gold, the tables and the ledger are right.

One property over random cases. A case that fails is printed: the number that makes it,
and what it is.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.end_to_end.every_row import Landed
from tests.end_to_end.random_cases import Case, random_case
from tests.runs import Place, succeed
from tidemark.streaming import aggregate
from tidemark.streaming.queries import Running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# No shrinking: each try of it would run a case of half a minute again.
PHASES = (Phase.explicit, Phase.generate)


SEEDS = st.integers(0, 1_000_000)


@settings(max_examples=5, phases=PHASES)
@given(seed=SEEDS)
def test_gold_ledger_and_late_counts_are_right_after_every_run(
    spark: SparkSession, seed: int
) -> None:
    check_case(spark, random_case(seed, most_runs=4))


@pytest.mark.long
@settings(max_examples=200, phases=PHASES)
@given(seed=SEEDS)
def test_gold_ledger_and_late_counts_are_right_after_every_run_of_many_cases(
    spark: SparkSession, seed: int
) -> None:
    check_case(spark, random_case(seed, most_runs=7))


def check_case(spark: SparkSession, case: Case) -> None:
    with tempfile.TemporaryDirectory() as folder, kept_queries() as queries:
        landed = Landed(Place(Path(folder), case.content))
        for number, run in enumerate(case.runs):
            try:
                landed.run(number, run, lambda *run: succeed(spark, *run))
                if not run.hold:
                    landed.check(number, dropped_groups(queries))
            except Exception:
                print(f"Run {number} of this case:\n{case.text}")
                raise


@contextmanager
def kept_queries() -> Iterator[list[Running]]:
    """The queries of all tables that are started meanwhile, for what they say of themselves."""
    queries: list[Running] = []
    original = aggregate.start_query

    def start(writer: Any, write: Any) -> Running:
        queries.append(original(writer, write))
        return queries[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aggregate, "start_query", start)
        yield queries


def dropped_groups(queries: list[Running]) -> dict[tuple[str, int], int]:
    """The engine's `numRowsDroppedByWatermark`, by table and batch."""
    return {
        (running.query.name.rpartition(".")[2], progress["batchId"]): operator[
            "numRowsDroppedByWatermark"
        ]
        for running in queries
        for progress in running.query.recentProgress
        for operator in progress["stateOperators"]
    }
