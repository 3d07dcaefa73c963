"""What is in the way of taking a table back, told without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tidemark.errors import RewindRefused
from tidemark.recompute.rewind.tables import plan_back
from tidemark.storage.delta.place import TablePlace


def test_a_version_that_the_log_does_not_reach_back_to_is_refused(tmp_path: Path) -> None:
    place = TablePlace(str(tmp_path))
    for number in range(5):
        write_deltalake(place.uri, pa.table({"n": [number]}), mode="append")
    DeltaTable(place.uri).create_checkpoint()
    for number in range(4):
        (tmp_path / "_delta_log" / f"{number:020}.json").unlink()
    assert plan_back(place, 4).back.version == 4
    with pytest.raises(RewindRefused, match="does not reach back to version 2 any more"):
        plan_back(place, 2)
