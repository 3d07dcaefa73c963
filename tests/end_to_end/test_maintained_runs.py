"""Maintenance between runs, at random places, changes nothing that a run comes to.

Retention is zero here: whatever no reader has to read any more goes at once, from tables and logs.
"""

from __future__ import annotations

import os
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.every_row import Landed, check_gold, check_rows_are_in_one_place, tables
from tests.end_to_end.kept_queries import dropped_groups, kept_queries
from tests.end_to_end.random_cases import Case, random_case
from tests.kit.running import Place, succeed
from tidemark.pipeline.settings.maintenance import Maintenance
from tidemark.pipeline.settings.settings import Settings
from tidemark.upkeep.maintenance import plan_table, readers
from tidemark.upkeep.maintenance.maintain import maintain_pipeline
from tidemark.upkeep.maintenance.plan import MaintenancePlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = int(os.environ.get("TIDEMARK_TEST_SEED", "20260701"))
FEW, MANY = 1, 60
NUMBERS = Random(SEED).sample(range(1_000_000), FEW + MANY)
NONE = timedelta(0)
# The runs are scheduled at times long gone, and their accounts are looked at.
YEARS = timedelta(days=36_500)
AT_ONCE = Maintenance.model_construct(
    retention=NONE, log_retention=NONE, ops_retention=YEARS, result_retention=NONE
)
LATER = Maintenance(ops_retention=YEARS)


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files are packed, and each maintenance leaves a checkpoint."""
    monkeypatch.setattr(plan_table, "_FEWEST", 2)
    monkeypatch.setattr(plan_table, "_MOST_AFTER_A_CHECKPOINT", 1)


def maintain(place: Place, keep: Maintenance = AT_ONCE) -> dict[str, MaintenancePlan]:
    settings: Settings = place.settings.model_copy(update={"maintenance": keep})
    now = datetime.now(UTC)
    plans = maintain_pipeline(place.pipeline, settings, "maintenance", now)
    return {plan.name: plan for plan in plans}


@pytest.mark.long
@pytest.mark.parametrize("number", NUMBERS[:FEW])
def test_what_runs_come_to_is_right_with_maintenance_in_between(
    spark: SparkSession, number: int
) -> None:
    check_case(spark, number, random_case(number, most_runs=4))


@pytest.mark.long
@pytest.mark.parametrize("number", NUMBERS[FEW:])
def test_what_runs_come_to_is_right_with_maintenance_in_between_in_many_cases(
    spark: SparkSession, number: int
) -> None:
    check_case(spark, number, random_case(number, most_runs=7))


@pytest.mark.long
@pytest.mark.parametrize("by_former_version", [False, True])
def test_held_batches_without_accepted_rows_are_no_loss_behind_maintenance(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    by_former_version: bool,
) -> None:
    """Their notes are in rejects alone, whose log maintenance keeps up to the last publish; that of
    a former version did not."""
    if by_former_version:
        monkeypatch.setattr(readers, "_of_rejects", lambda *_: ())
    place = Place(tmp_path)
    place.land("0.json", [{"at": "2026-07-01T10:00:00Z", "key": "a", "amount": 1}])
    succeed(spark, place, "first")
    for number in range(1, 5):
        place.land(f"{number}.json", ["no JSON"])
        succeed(spark, place, f"held-{number}", hold=True)
        maintain(place)
    entries = sorted(Path(place.places.rejects, "_delta_log").glob("*.json"))
    assert (len(entries) < 4) is by_former_version
    place.land("5.json", [{"at": "2026-07-01T10:01:00Z", "key": "a", "amount": 2}])
    succeed(spark, place, "last")
    assert place.gold().column("amount").to_pylist() == [3]
    assert place.rejects().num_rows == 4


def check_case(spark: SparkSession, number: int, case: Case) -> None:
    chance = Random(number)
    # Where old files and logs stay, all can be checked, batch by batch.
    keep = AT_ONCE if chance.random() < 0.7 else LATER
    with tempfile.TemporaryDirectory() as folder, kept_queries() as queries:
        landed = Landed(Place(Path(folder), case.content))

        def perhaps_maintain() -> None:
            if chance.random() < 0.8:
                maintain(landed.place, keep)

        for at, run in enumerate(case.runs):
            try:
                landed.run(at, run, lambda *run: succeed(spark, *run))
                perhaps_maintain()
                if run.then_publish is not None:
                    landed.publish(run.then_publish)
                    perhaps_maintain()
                if run.hold:
                    continue
                if keep is AT_ONCE:
                    check(landed, at)
                else:
                    landed.check(at, dropped_groups(queries))
            except Exception:
                print(f"Run {at} of case {number}:\n{case.text}")
                raise


def check(landed: Landed, number: int) -> None:
    """What can be told without the old entries of the logs."""
    check_rows_are_in_one_place(landed)
    for name, table in tables(landed).items():
        check_gold(landed, f"run-{number}", name, table)
    lines = landed.place.table(landed.place.places.ledger).to_pylist()
    assert [line for line in lines if line["balanced"] is False] == []
    ingested = [line for line in lines if line["kind"] == "ingest"]
    assert sum(line["read"] for line in ingested) == len(landed.lines)
    assert sum(line["accepted"] for line in ingested) == landed.place.bronze().num_rows
