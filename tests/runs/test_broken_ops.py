from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tidemark.runs.repair_ops import set_broken_aside
from tidemark.storage.delta.place import TablePlace

NOW = datetime(2026, 7, 1, 12, 30, tzinfo=UTC)


def ops(tmp_path: Path) -> dict[str, TablePlace]:
    places = {name: TablePlace(str(tmp_path / "ops" / name)) for name in ("ledger", "runs")}
    for place in places.values():
        for number in range(2):
            rows = pa.table({"n": [number], "pipeline": ["clicks"]})
            write_deltalake(place.uri, rows, mode="append", partition_by=["pipeline"])
    return places


def cut_entry(table: Path) -> None:
    (table / "_delta_log" / f"{1:020}.json").write_text('{"add"')


def file_gone(table: Path) -> None:
    Path(DeltaTable(table).file_uris()[0]).unlink()


def file_cut(table: Path) -> None:
    Path(DeltaTable(table).file_uris()[0]).write_bytes(b"PAR1")


@pytest.mark.parametrize("damage", [cut_entry, file_gone, file_cut])
def test_a_broken_table_is_set_aside_and_the_others_stay(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    places, said = ops(tmp_path), list[str]()
    damage(tmp_path / "ops" / "runs")
    assert set_broken_aside(places, said.append, NOW) == {"runs"}
    assert places["runs"].open() is None
    assert places["ledger"].open() is not None
    kept = tmp_path / "ops" / "runs.broken-20260701T123000"
    assert (kept / "_delta_log").is_dir()
    (line,) = said
    assert str(kept) in line
    assert set_broken_aside(places, said.append, NOW) == frozenset()


def test_ops_that_is_a_file_is_set_aside_whole(tmp_path: Path) -> None:
    (tmp_path / "ops").write_text("x")
    places = {name: TablePlace(str(tmp_path / "ops" / name)) for name in ("ledger", "runs")}
    assert set_broken_aside(places, lambda line: None, NOW) == {"ledger"}
    assert (tmp_path / "ops.broken-20260701T123000").read_text() == "x"


def test_tables_that_are_well_or_not_there_stay_as_they_are(tmp_path: Path) -> None:
    said: list[str] = []
    places = ops(tmp_path) | {"none": TablePlace(f"{tmp_path}/ops/none")}
    assert set_broken_aside(places, said.append, NOW) == frozenset()
    assert said == []


def test_where_nothing_can_be_renamed_it_is_said(tmp_path: Path) -> None:
    places, said = ops(tmp_path), list[str]()
    cut_entry(tmp_path / "ops" / "runs")
    (tmp_path / "ops" / "runs.broken-20260701T123000").mkdir()
    (tmp_path / "ops" / "runs.broken-20260701T123000" / "x").touch()
    assert set_broken_aside(places, said.append, NOW) == frozenset()
    assert "ops/runs is broken, and what is to be written to it may fail" in said[0]
