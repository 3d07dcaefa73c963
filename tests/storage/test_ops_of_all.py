"""`tidemark.ops`: a table of ops of all pipelines, some of which are in the shared one still."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

import tidemark
from tests.kit.running import Place
from tests.runs.pipelines import BEGAN, ended
from tidemark.errors import DataDamaged, GoldNotFound
from tidemark.runs import recorded_runs
from tidemark.storage.delta.ops_place import move_ops_table, moved_name
from tidemark.storage.ops_of_all import ops_parts

OWN = ("clicks", "words")


def share(place: Place, *pipelines: str) -> None:
    """A run of each in the table that pipelines shared."""
    source = Place(place.root.parent / "apart")
    for name in pipelines:
        ended(Place(source.root, name=name), f"shared {name}")
        rows = DeltaTable(Place(source.root, name=name).places.runs).to_pyarrow_table()
        write_deltalake(
            f"{place.places.shared_ops}/runs", rows, mode="append", partition_by=["pipeline"]
        )


def of_root(root: Path) -> Place:
    """Two pipelines with tables of their own, of which one lacks columns; two whose rows are shared
    still, and one that has moved since and has lost its own."""
    place = Place(root)
    share(place, "clicks", "old", "older", "lost")
    note = CommitProperties(app_transactions=[Transaction(moved_name("lost"), 0)])
    shared = DeltaTable(f"{place.places.shared_ops}/runs")
    shared.create_write_transaction(
        [], "append", shared.schema(), partition_by=["pipeline"], commit_properties=note
    )
    move_ops_table(place.warehouse.runs)
    ended(place, "own clicks", BEGAN + timedelta(minutes=1))
    with pytest.MonkeyPatch.context() as patch:
        schema = recorded_runs.SCHEMA
        before = [column for column in schema if column.name not in ("counted", "took_over")]
        patch.setattr(recorded_runs, "SCHEMA", pa.schema(before))
        ended(Place(root, name="words"), "own words")
    (root / "landing").mkdir()
    (root / "clicks.before").mkdir()
    shutil.copytree(root / "clicks", root / "clicks.before" / "clicks")
    return place


RUNS = [
    ("clicks", "own clicks"),
    ("clicks", "shared clicks"),
    ("old", "shared old"),
    ("older", "shared older"),
    ("words", "own words"),
]


def test_each_row_that_counts_is_there_once_by_arrow_duckdb_and_polars(tmp_path: Path) -> None:
    place = of_root(tmp_path / "root")
    runs = tidemark.ops("runs", settings=place.settings)
    rows = runs.to_table().to_pylist()
    assert sorted((row["pipeline"], row["run"]) for row in rows) == RUNS
    by_duckdb = duckdb.sql("SELECT pipeline, run FROM runs WHERE rows_read = 1000 ORDER BY ALL")
    assert by_duckdb.fetchall() == RUNS
    lacking = duckdb.sql("SELECT pipeline FROM runs WHERE counted IS NULL").fetchall()
    assert lacking == [("words",)]
    frame = pl.scan_pyarrow_dataset(runs).select("pipeline", "run").collect()
    assert sorted(frame.rows()) == RUNS
    newest = duckdb.sql("SELECT run FROM runs WHERE pipeline = 'old'").fetchall()
    assert newest == [("shared old",)]


def test_tables_that_nobody_shared_are_read_as_they_are(tmp_path: Path) -> None:
    for name in OWN:
        ended(Place(tmp_path, name=name), name)
    found = tidemark.ops("runs", settings=Place(tmp_path).settings).to_table()
    assert sorted(found.column("run").to_pylist()) == sorted(OWN)


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with pytest.raises(GoldNotFound, match=r"No pipeline below .* has a table ops/runs yet"):
        tidemark.ops("runs", settings=place.settings)
    with pytest.raises(ValueError, match="no table `run` of ops: ledger, runs,"):
        tidemark.ops("run", settings=place.settings)


def test_a_broken_table_is_an_error_and_no_pipeline_is_left_out(tmp_path: Path) -> None:
    for name in OWN:
        ended(Place(tmp_path, name=name), name)
    log = Path(Place(tmp_path, name="words").places.runs) / "_delta_log"
    (log / f"{0:020}.json").write_text("{")
    with pytest.raises(DataDamaged, match="words/ops/runs"):
        tidemark.ops("runs", settings=Place(tmp_path).settings)


def test_the_parts_say_whose_rows_count(tmp_path: Path) -> None:
    place = of_root(tmp_path / "root")
    parts = ops_parts("runs", place.settings)
    assert [(Path(part.uri).parts[-3:], part.of) for part in parts] == [
        (("clicks", "ops", "runs"), None),
        (("words", "ops", "runs"), None),
        (("root", "ops", "runs"), ("old", "older")),
    ]
