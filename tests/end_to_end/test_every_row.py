"""Whatever arrives, and in whatever batches and runs: gold, the tables and the ledger are right.

One property over random cases. A case that fails is printed as code.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.every_row import Landed
from tests.end_to_end.kept_queries import dropped_groups, kept_queries
from tests.end_to_end.random_cases import Case, random_case
from tests.kit.running import Place, succeed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Each case is a test, named after the number that makes it, so that one can be repeated alone.
SEED = int(os.environ.get("TIDEMARK_TEST_SEED", "20260701"))
FEW, MANY = 1, 200
NUMBERS = Random(SEED).sample(range(1_000_000), FEW + MANY)


@pytest.mark.parametrize("number", NUMBERS[:FEW])
def test_gold_ledger_and_late_counts_are_right_after_every_run(
    spark: SparkSession, number: int
) -> None:
    check_case(spark, random_case(number, most_runs=3))


@pytest.mark.long
@pytest.mark.parametrize("number", NUMBERS[FEW:])
def test_gold_ledger_and_late_counts_are_right_after_every_run_of_many_cases(
    spark: SparkSession, number: int
) -> None:
    check_case(spark, random_case(number, most_runs=7))


def check_case(spark: SparkSession, case: Case) -> None:
    with tempfile.TemporaryDirectory() as folder, kept_queries() as queries:
        landed = Landed(Place(Path(folder), case.content))
        for number, run in enumerate(case.runs):
            try:
                landed.run(number, run, lambda *run: succeed(spark, *run))
                if run.then_publish is not None:
                    landed.publish(run.then_publish)
                if not run.hold:
                    landed.check(number, dropped_groups(queries))
            except Exception:
                print(f"Run {number} of this case:\n{case.text}")
                raise
