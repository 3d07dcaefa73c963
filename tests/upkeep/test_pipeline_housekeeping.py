"""A pipeline that is housekept after each run, and one that never is: their tables are the same."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.kit.running import SCHEDULED, Place, clicks, sorted_rows, succeed
from tests.upkeep.made import UNLOAD
from tests.upkeep.stores import NOW, builds, names
from tidemark.checkpoint.housekeeping.plan import FileKind
from tidemark.ledger.ledger import STREAM, check_balance
from tidemark.ledger.rebuild import Ledgered, rebuilt_lines
from tidemark.pipeline.settings.kept_batches import KEPT_BY_ENGINE
from tidemark.upkeep.pipeline_housekeeping import housekeep_pipeline
from tidemark.upkeep.record import Kept

KEEP = 2
ADVANCED = {"keep_batches": KEEP, "spark": {KEPT_BY_ENGINE: "1"}}


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session whose queries write snapshots. The engine keeps its 100 batches in it, so that the
    pipeline that is not housekept loses nothing."""
    session = spark.newSession()
    for name, value in UNLOAD.items():
        session.conf.set(name, value)
    return session


def rows(number: int) -> list[dict[str, Any]]:
    """Half an hour of new events, and one that is late for all but the first run."""
    stamps = [f"2026-07-01T{8 + number:02}:{minute:02}:00Z" for minute in (0, 10, 20)]
    late = "2026-07-01T08:05:00Z"
    return [{"at": at, "key": "k", "amount": number} for at in (*stamps, late)]


def run(spark: SparkSession, place: Place, number: int) -> None:
    place.land(f"{number}.json", rows(number))
    succeed(spark, place, f"run-{number}", scheduled=SCHEDULED + timedelta(hours=8 + number))


def housekeep(place: Place, run_id: str) -> dict[str, Kept]:
    kept = housekeep_pipeline(place.pipeline, place.settings, run_id, NOW)
    return {one.checkpoint.table: one for one in kept}


@pytest.mark.long
def test_a_pipeline_that_is_housekept_gives_what_one_gives_that_is_not(
    session: SparkSession, tmp_path: Path
) -> None:
    content = clicks(advanced=ADVANCED)
    kept, twin = Place(tmp_path / "kept", content), Place(tmp_path / "twin", content)
    told: list[dict[str, Kept]] = []
    for number in range(6):
        run(session, kept, number)
        run(session, twin, number)
        told.append(housekeep(kept, f"run-{number}"))
    checkpoint = Path(kept.places.query_checkpoint("per_10m", 1))
    assert all(one.possible for one in builds(checkpoint, KEEP).values())
    assert len(names(checkpoint)) < len(names(Path(twin.places.query_checkpoint("per_10m", 1))))
    state = [of(one["per_10m"], FileKind.STATE) for one in told]
    assert any(share.going for share in state), state
    for number in (6, 7):
        run(session, kept, number)
        run(session, twin, number)
    for table in ("gold", "changes"):
        found, wanted = (getattr(place, table)() for place in (kept, twin))
        differing = ["updated_by", "run"]
        assert sorted_rows(found, differing) == sorted_rows(wanted, differing)
    assert kept.gold().num_rows > 6

    # The offsets of old batches are gone, and the ledger that is built anew knows them all.
    housekeep(kept, "last")
    assert not (checkpoint / "offsets" / "0").exists()
    lines = [line for line in rebuilt_lines(ledgered(kept)) if line.kind == STREAM]
    assert [line.batch for line in lines] == sorted(line.batch for line in lines)
    assert all(line.assigned is not None for line in lines), lines
    assert sum(line.assigned or 0 for line in lines) == 8 * 4
    assert sum(line.late_assigned or 0 for line in lines) > 0
    check_balance("clicks", lines, "")

    recorded = DeltaTable(kept.places.upkeep).to_pyarrow_dataset().to_table().to_pylist()
    assert len(recorded) == 2 * 7
    ours = [row for row in recorded if row["checkpoint"] == "per_10m"]
    for number, one in enumerate(told):
        plan = one["per_10m"].plan
        (row,) = [row for row in ours if row["run"] == f"run-{number}"]
        assert plan is not None
        assert row["files_deleted"] == plan.going_files
    assert {row["verdict"] for row in recorded} <= {"clean end", "no-data batch due"}


@pytest.mark.long
def test_batches_of_a_held_run_are_kept_until_they_are_published(
    session: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path, clicks(advanced=ADVANCED))
    run(session, place, 0)
    for number in (1, 2, 3):
        place.land(f"{number}.json", rows(number))
        at = SCHEDULED + timedelta(hours=8 + number)
        succeed(session, place, f"run-{number}", hold=True, scheduled=at)
        housekeep(place, f"run-{number}")
    place.land("4.json", rows(4))
    succeed(session, place, "run-4", scheduled=SCHEDULED + timedelta(hours=12))
    twin = Place(tmp_path / "twin", clicks(advanced=ADVANCED))
    for number in range(5):
        run(session, twin, number)
    differing = ["updated_by", "revision", "status"]
    assert sorted_rows(place.gold(), differing) == sorted_rows(twin.gold(), differing)


def of(kept: Kept, kind: FileKind) -> Any:
    assert kept.plan is not None
    return {share.kind: share for share in kept.plan.shares}[kind]


def ledgered(place: Place) -> Ledgered:
    return Ledgered(place.pipeline, place.warehouse)
