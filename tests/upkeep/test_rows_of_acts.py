"""What acts leave in `ops/upkeep`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tidemark.storage.delta.ops_place import OpsPlace
from tidemark.upkeep import record
from tidemark.upkeep.record import REWIND, append_upkeep

ACT = {"pipeline": "clicks", "time": datetime(2026, 7, 1, tzinfo=UTC), "kind": REWIND}


def test_a_table_of_before_gets_who_and_why_and_a_former_build_adds_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, now = str(tmp_path / "upkeep"), record.SCHEMA
    before = pa.schema([one for one in now if one.name not in ("by", "reason", "without")])
    left = {"file": "file:///landing/1.json", "accepted": 2, "rejected": 1}
    said = {"by": "Ada", "reason": "the wrong day", "without": [left]}
    for number, schema in enumerate((before, now, before)):
        monkeypatch.setattr(record, "SCHEMA", schema)
        append_upkeep(OpsPlace(uri), [ACT | {"run": str(number)} | (said if schema is now else {})])
    rows = DeltaTable(uri).to_pyarrow_table().sort_by("run").to_pylist()
    nothing = dict.fromkeys(said)
    assert [{name: row[name] for name in said} for row in rows] == [nothing, said, nothing]
