"""A table that was out of the pipeline's file while acts changed bronze, and is put back."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from tests.kit.running import Place, clicks
from tests.operators.contract.joins import OTHER, join_table, joins, partner_pipeline
from tests.operators.contract.kinds import TABLE, Kind, KindPlace
from tidemark.errors import RetractionRefused
from tidemark.gold.other_readers import OtherReader, note_reader
from tidemark.runs.found import found_of
from tidemark.runs.losses import _against_gold
from tidemark.runs.unfinished_act import ActKind, PipelineAct, stop_for, unfinished_act
from tidemark.storage.delta.notes import (
    AcceptedNote,
    ErasedNote,
    Note,
    RetractedNote,
    RewoundNote,
    as_metadata,
)
from tidemark.storage.warehouse import Warehouse

ACT = "20260701T000000Z"
ROWS = pa.table({"key": ["x", "y"], "n": [1, 2]})


def put(uri: str, note: Note, mode: str = "append", **transactions: int) -> DeltaTable:
    properties = CommitProperties(
        app_transactions=[Transaction(name, at) for name, at in transactions.items()],
        custom_metadata=as_metadata(note),
    )
    rows = ROWS if mode == "append" else ROWS.slice(0, 1)
    write_deltalake(uri, rows, mode=mode, commit_properties=properties)  # type: ignore[call-overload]
    return DeltaTable(uri)


OURS = AcceptedNote(up_to=0, reason="ours", by="us")


def told(place: Place) -> list[str]:
    table = found_of(place.pipeline, place.warehouse, "per_10m")
    return [str(loss) for loss in _against_gold(table, table.bronze)]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Gold stands for version 0 of bronze."""
    place = Place(tmp_path, clicks())
    bronze = str(put(place.places.bronze, OURS).metadata().id)
    noted = {"identities": 1, f"bronze/{bronze}": 0, "bronze": 0, "close": 0}
    put(place.places.gold("per_10m"), OURS, **noted)
    return place


@pytest.mark.parametrize(
    ("note", "said"),
    [
        (RetractedNote(id=ACT, rows=1), "1 rows of .* were retracted, or brought back"),
        (RewoundNote(id=ACT, to_version=0), "was taken back to what it was at version 0"),
    ],
)
def test_rows_that_went_meanwhile_are_a_loss(place: Place, note: Note, said: str) -> None:
    assert told(place) == []
    put(place.places.bronze, note, "overwrite")
    (loss,) = told(place)
    assert re.search(said, loss)
    assert "tidemark migrate clicks --rebuild per_10m" in loss


def test_an_act_that_is_not_finished_is_none_yet(place: Place) -> None:
    put(place.places.bronze, RetractedNote(id=ACT, rows=1), "overwrite")
    stop_for(place.warehouse, PipelineAct(ActKind.FOLLOWING, ACT))
    assert told(place) == []


@pytest.fixture
def joined(tmp_path: Path) -> KindPlace:
    """Gold stands for version 0 of another pipeline's bronze."""
    table = join_table("left", before=1)
    place = KindPlace(tmp_path, kind=Kind("joins", table, joins(table)))
    bronze = str(put(of_other(place).places.bronze, OURS).metadata().id)
    other = f"bronze/{OTHER}"
    noted = {"identities": 1, f"{other}/{bronze}": 0, other: 0, "bronze": 0, "close": 0}
    put(place.places.gold(TABLE), OURS, **noted)
    return place


def of_other(place: KindPlace) -> Warehouse:
    return Warehouse.of(partner_pipeline().name, place.settings)


def told_of_other(place: KindPlace) -> list[str]:
    table = found_of(place.pipeline, place.warehouse, TABLE)
    return [str(loss) for other in table.others for loss in _against_gold(table, other)]


def cut_log(uri: str, first: int) -> None:
    """Leave the entries from a version on, and the newest one's checkpoint."""
    table = DeltaTable(uri)
    table.create_checkpoint()
    for version in range(first):
        Path(uri, "_delta_log", f"{version:020}.json").unlink()


def test_rows_that_were_erased_of_another_bronze_meanwhile_are_a_loss(joined: KindPlace) -> None:
    bronze = of_other(joined).places.bronze
    assert told_of_other(joined) == []
    put(bronze, ErasedNote(id=ACT, rows=1), "overwrite")
    (loss,) = told_of_other(joined)
    assert "were erased, or its log was cut" in loss
    assert f"tidemark migrate {joined.name} --rebuild {TABLE}" in loss
    # What an erasure leaves of a log, once others have written to the table.
    put(bronze, OURS)
    cut_log(bronze, 2)
    (loss,) = told_of_other(joined)
    assert "were erased, or its log was cut" in loss


def test_a_log_of_another_bronze_that_tells_all_since_is_none(joined: KindPlace) -> None:
    """Maintenance leaves what comes behind the version that gold of a reader stands for."""
    bronze = of_other(joined).places.bronze
    put(bronze, OURS)
    put(bronze, OURS)
    cut_log(bronze, 1)
    assert told_of_other(joined) == []


@pytest.mark.parametrize("job", ["erase", "retract"])
def test_a_table_that_begins_to_read_bronze_while_an_act_is_planned_keeps_it_from_beginning(
    place: Place, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidemark.streaming.jobs import erase, retract

    module: Any = {"erase": erase, "retract": retract}[job]
    reader = OtherReader(pipeline="orders", table="t")
    monkeypatch.setattr(module, "_plan", lambda *_: note_reader(place.warehouse, reader))
    monkeypatch.setattr(module, "_planned", lambda *_: None, raising=False)
    monkeypatch.setattr(module, "hold_to_checks", lambda *_: None)
    asked = SimpleNamespace(finishes=False, reason="why")
    act: Any = SimpleNamespace(run=place.run("act"), asked=asked)
    with pytest.raises(RetractionRefused, match="t of orders"):
        module._begun(act, None, SimpleNamespace(change=None))
    assert unfinished_act(place.warehouse) is None
