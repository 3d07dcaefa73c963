"""Tables of `ops` that a newer version gave more columns take the rows of this one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tidemark.ledger import ledger
from tidemark.quality import record as quality
from tidemark.runs import recorded_runs
from tidemark.storage.delta.ops import append_once, ensure_ops_table
from tidemark.storage.delta.ops_place import OpsPlace
from tidemark.upkeep import record as upkeep

SCHEMAS = {
    "ledger": ledger.SCHEMA,
    "quality": quality.SCHEMA,
    "runs": recorded_runs.SCHEMA,
    "upkeep": upkeep.SCHEMA,
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_column_that_is_not_known_is_null_in_new_rows(tmp_path: Path, name: str) -> None:
    known, place = SCHEMAS[name], OpsPlace(str(tmp_path / name))
    newer = pa.schema([*known, pa.field("newer", pa.string())])
    ensure_ops_table(place, newer, "of a newer version")
    row = {"pipeline": "clicks"}
    append_once(place, newer, "of a newer version", [("one", 1, row | {"newer": "told"})])
    append_once(place, known, "of this version", [("two", 1, row)])
    rows = DeltaTable(place.uri).to_pyarrow_table()
    assert sorted(rows.column("newer").to_pylist(), key=str) == [None, "told"]
    assert rows.column("pipeline").to_pylist() == ["clicks"] * 2


def test_upkeep_is_recorded_beside_what_a_newer_version_recorded(tmp_path: Path) -> None:
    place = OpsPlace(str(tmp_path / "upkeep"))
    newer = pa.schema([*upkeep.SCHEMA, pa.field("newer", pa.string())])
    ensure_ops_table(place, newer, "of a newer version")
    upkeep.append_upkeep(place, [{"pipeline": "clicks"}])
    assert DeltaTable(place.uri).to_pyarrow_table().column("newer").to_pylist() == [None]
