"""What may happen to the other pipeline's bronze behind a join's back, and what is said of it."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from tests.kit.running import run_warm, succeed
from tests.operators.contract.joins import OTHER, PartnerPlace
from tests.operators.contract.kinds import KindPlace, event, of
from tests.operators.contract.test_joins import a_place, check, landed
from tidemark.runs import preflight
from tidemark.runs.preflight import NothingNew, SparkNeeded, run_preflight
from tidemark.storage.delta.notes import AcceptedNote
from tidemark.upkeep.accept_changes import _accept, accept_changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.operators.contract.conftest import Joined


def stops(spark: SparkSession, place: KindPlace, name: str) -> str:
    error = run_warm(spark, place, name).error
    assert error is not None
    assert error.type == "TableLost"
    return error.message


def test_the_other_bronze_put_back_and_written_to_since_is_a_loss_whatever_its_version(
    spark: SparkSession, joined: Joined, tmp_path: Path
) -> None:
    place, rows = joined()
    partner = PartnerPlace(place.root, name=OTHER)
    bronze, backup = place.root / OTHER / "bronze", tmp_path / "backup"
    shutil.copytree(bronze, backup)
    landed(spark, place, rows, "on", event(60), of(60), of(3))
    before = DeltaTable(bronze).version()
    shutil.rmtree(bronze)
    shutil.copytree(backup, bronze)
    for minute in (4, 5):
        partner.append([of(minute)])
    assert DeltaTable(bronze).version() >= before
    assert "it was put back to an older version" in stops(spark, place, "after")
    check(place, rows)


def test_what_the_other_pipeline_accepts_each_pipeline_that_joins_with_it_accepts_too(
    spark: SparkSession, joined: Joined
) -> None:
    place, _ = joined()
    partner = PartnerPlace(place.root, name=OTHER)
    bronze = partner.warehouse.bronze
    bronze.existing().update({"cost": "cost + 1"}, predicate="id = 'a'")
    note = AcceptedNote(up_to=bronze.existing().version(), reason="a wrong price", by="them")
    _accept(bronze, note)
    assert f"the same for {place.name}" in stops(spark, place, "there")
    found = accept_changes(place.pipeline, place.settings, "accept", "a wrong price", "us").by_hand
    assert [loss.place for loss in found] == [bronze.uri]
    succeed(spark, place, "here")
    bronze.existing().update({"cost": "cost + 1"}, predicate="id = 'a'")
    stops(spark, place, "again")


@pytest.mark.long
def test_a_join_begins_with_a_bronze_that_was_packed_and_whose_log_was_cleaned(
    spark: SparkSession, tmp_path: Path
) -> None:
    place, partner = a_place(tmp_path), PartnerPlace(tmp_path, name=OTHER)
    new = [event(1), event(3, "b"), of(2), of(4), event(60), of(61)]
    place.land_rows("first.json", new[:3])
    partner.append([of(5)])
    table = partner.warehouse.bronze.existing()
    table.optimize.compact()
    table.vacuum(0, enforce_retention_duration=False, dry_run=False)
    table.create_checkpoint()
    log = tmp_path / OTHER / "bronze" / "_delta_log"
    for version in range(table.version()):
        (log / f"{version:020}.json").unlink()
    place.land_rows("second.json", new[3:])
    succeed(spark, place, "first")
    rows = [*new, of(5)]
    check(place, rows)
    landed(spark, place, rows, "on", event(100), of(100), of(7))


def test_a_join_whose_watermark_stands_still_is_not_done(
    joined: Joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, _ = joined()
    assert isinstance(run_preflight(place.run("look")), NothingNew)
    due = int(datetime(2030, 1, 1, tzinfo=UTC).timestamp() * 1_000)
    monkeypatch.setattr(preflight, "watermark_due_ms", lambda clocks: due)
    found = run_preflight(place.run("look"))
    assert isinstance(found, SparkNeeded)
    assert "due at 2030-01-01" in found.because
