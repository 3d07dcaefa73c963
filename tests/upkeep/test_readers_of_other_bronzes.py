"""What maintenance leaves of a bronze to a table of another pipeline that joins with it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.operators.contract.joins import OTHER, PartnerPlace
from tests.operators.contract.kinds import TABLE, KindPlace, of
from tests.operators.contract.test_joins import a_place
from tests.runs.test_put_back_tables import make_gold, offset_of, one_batch, put
from tests.upkeep.test_maintenance import age_log
from tidemark.gold.other_readers import OtherReader, note_reader
from tidemark.storage.delta.appended import appended_rows
from tidemark.storage.delta.notes import AcceptedNote
from tidemark.upkeep.maintenance.maintain import maintain_pipeline
from tidemark.upkeep.maintenance.readers import readers


@pytest.fixture
def joined(tmp_path: Path) -> KindPlace:
    """A table that joins, without a published gold, beside a bronze of three batches."""
    place, partner = a_place(tmp_path), PartnerPlace(tmp_path, name=OTHER)
    partner.make()
    for minute in range(3):
        partner.append([of(minute)])
    put(place.places.bronze, AcceptedNote(up_to=0, reason="ours", by="us"))
    make_gold(place, TABLE)
    note_reader(partner.warehouse, OtherReader(pipeline=place.name, table=TABLE))
    return place


def plan_batch(place: KindPlace, batch: int, of_other: str | None, commit: bool) -> None:
    """A batch of the join that has read the other bronze up to what it is now."""
    checkpoint = place.places.query_checkpoint(TABLE, 1)
    read = [offset_of(place.places.bronze, 1), of_other or "-"]
    one_batch(checkpoint, "q", "\n".join(read), batch)
    if not commit:
        Path(checkpoint, f"commits/{batch}").unlink()


def read_to_now(partner: PartnerPlace) -> str:
    return offset_of(partner.places.bronze, partner.warehouse.bronze.existing().version() + 1)


@pytest.mark.parametrize("begins", [0, 1])
@pytest.mark.parametrize("batches", [0, 1, 2])
def test_a_join_that_is_not_published_finds_the_bronze_of_its_first_batch(
    joined: KindPlace, batches: int, begins: int
) -> None:
    """So many batches are committed behind those that found nothing there; without any, the first
    is planned."""
    partner = PartnerPlace(joined.root, name=OTHER)
    for batch in range(begins):
        plan_batch(joined, batch, None, commit=True)
    found = partner.warehouse.bronze.existing().version()
    for batch in range(max(batches, 1)):
        plan_batch(joined, begins + batch, read_to_now(partner), commit=bool(batches))
        partner.warehouse.bronze.existing().create_checkpoint()
        partner.append([of(60 + batch)])
    partner.warehouse.bronze.existing().create_checkpoint()
    age_log(partner.places.bronze)
    maintain_pipeline(partner.pipeline, partner.settings, "m", datetime.now(UTC))
    bronze = partner.warehouse.bronze
    assert appended_rows(bronze.existing(), bronze, 0, found).count_rows() == 3


def test_a_join_that_has_planned_nothing_of_a_bronze_keeps_nothing_of_its_log(
    joined: KindPlace,
) -> None:
    partner = PartnerPlace(joined.root, name=OTHER)
    for _ in range(2):
        assert readers(partner.pipeline, partner.settings)[partner.places.bronze] == ()
        plan_batch(joined, 0, None, commit=False)
