"""A table that was out of the pipeline's file while acts changed bronze, and is put back."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from tests.kit.running import Place, clicks
from tidemark.runs.found import found_of
from tidemark.runs.losses import _against_gold
from tidemark.runs.unfinished_act import ActKind, PipelineAct, stop_for
from tidemark.storage.delta.notes import AcceptedNote, Note, RetractedNote, RewoundNote, as_metadata

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


def told(place: Place) -> list[str]:
    table = found_of(place.pipeline, place.warehouse, "per_10m")
    return [str(loss) for loss in _against_gold(table, table.bronze)]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Gold stands for version 0 of bronze."""
    place, ours = Place(tmp_path, clicks()), AcceptedNote(up_to=0, reason="ours", by="us")
    bronze = str(put(place.places.bronze, ours).metadata().id)
    noted = {"identities": 1, f"bronze/{bronze}": 0, "bronze": 0, "close": 0}
    put(place.places.gold("per_10m"), ours, **noted)
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
