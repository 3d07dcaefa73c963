"""Whatever rows come, in whatever batches, held, ended and sealed: gold's sessions are bronze's.

One property over random cases; a case that fails is named by its number, and printed.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.kit.killed import killed
from tests.kit.running import run_warm, succeed
from tests.operators.contract.kinds import DAY, TABLE, KindPlace, Row, as_json
from tests.operators.contract.test_operator_kinds import check_gold, close_ms
from tests.operators.random_sessions import OneRun, random_sessions
from tests.streaming.audits import audit
from tidemark.ledger.rebuild import Ledgered, rebuilt_lines
from tidemark.pipeline.instants import instant_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.operators.random_sessions import Case

# So that a case can be repeated alone: TIDEMARK_TEST_SEED=… pytest -k NUMBER.
SEED = int(os.environ.get("TIDEMARK_TEST_SEED", "20260701"))
FEW, MANY, TOGETHER = 1, 200, 10
NUMBERS = Random(SEED).sample(range(1_000_000), FEW + MANY)
CHUNKS = [NUMBERS[first : first + TOGETHER] for first in range(FEW, FEW + MANY, TOGETHER)]


@pytest.mark.long
@pytest.mark.parametrize("number", NUMBERS[:FEW])
def test_gold_has_the_sessions_of_bronze_after_every_run(spark: SparkSession, number: int) -> None:
    check_case(spark, number)


@pytest.mark.long
@pytest.mark.parametrize("numbers", CHUNKS, ids=lambda numbers: f"{numbers[0]}-and-more")
def test_gold_has_the_sessions_of_bronze_after_every_run_of_many_cases(
    spark: SparkSession, numbers: list[int]
) -> None:
    failed = {}
    for number in numbers:
        try:
            check_case(spark, number)
        except AssertionError as error:
            failed[number] = error
    assert not failed


def check_case(spark: SparkSession, number: int) -> None:
    case, run_number = random_sessions(number), 0
    with tempfile.TemporaryDirectory() as folder:
        place, rows = case.at(Path(folder)), list[Row]()
        try:
            for run_number, run in enumerate(case.runs):
                rows += run.rows
                run_and_check(spark, place, run_number, run, rows)
            assert audit(spark, place).outcome == "equal"
        except BaseException:
            print(f"Run {run_number} of case {number}:\n{told(case)}")
            raise


def run_and_check(
    spark: SparkSession, place: KindPlace, number: int, run: OneRun, rows: list[Row]
) -> None:
    """`rows` are all that landed, with those of this run."""
    (place.root / "landing").mkdir(exist_ok=True)
    for file, landed in enumerate(run.files):
        place.land(f"{number}-{file}.json", as_json(landed))
    there = Path(place.places.gold(TABLE)).exists()
    closed_before, before = (close_ms(place), place.known()) if there else (0, {})
    if run.ends:
        with killed(*run.ends):
            run_warm(spark, place, f"ended-{number}", run.hold, run.scheduled)
    succeed(spark, place, f"run-{number}", run.hold, run.scheduled)
    if run.hold:
        assert place.known() == before
        return
    check_gold(place, rows)
    assert close_ms(place) >= closed_before
    for row in place.gold(TABLE).to_pylist():
        is_open = row["window_end"] > instant_of(close_ms(place))
        assert (row["status"] == "provisional") == is_open, row
        assert is_open or (row["status"] == "corrected") == (row["revision"] > 0), row
    lines = rebuilt_lines(Ledgered(place.pipeline, place.warehouse))
    assert [line for line in lines if line.difference] == []


def told(case: Case) -> str:
    """In minutes of the day."""
    lines = [f"{case.table.output_mode} {case.table.window} {case.watermark} {case.advanced}"]
    for number, run in enumerate(case.runs):
        held = " held" if run.hold else ""
        lines.append(f"run {number} at {run.scheduled:%H:%M}{held}, ends {run.ends}")
        lines += [
            f"  file {file}: {row['at'] - DAY} {row['key']} {row['amount']}"
            for file, rows in enumerate(run.files)
            for row in rows
        ]
    return "\n".join(lines)
