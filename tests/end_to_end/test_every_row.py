"""Whatever arrives, and in whatever batches and runs: gold, the tables and the ledger are right.

One property over random cases. A case that fails is printed: the number that makes it,
and what it is.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.end_to_end.every_row import Landed
from tests.end_to_end.kept_queries import dropped_groups, kept_queries
from tests.end_to_end.random_cases import Case, random_case
from tests.runs import Place, succeed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# No shrinking: each try of it would run a case of half a minute again.
PHASES = (Phase.explicit, Phase.generate)
SEEDS = st.integers(0, 1_000_000)


@settings(max_examples=3, phases=PHASES)
@given(seed=SEEDS)
def test_gold_ledger_and_late_counts_are_right_after_every_run(
    spark: SparkSession, seed: int
) -> None:
    check_case(spark, random_case(seed, most_runs=3))


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
