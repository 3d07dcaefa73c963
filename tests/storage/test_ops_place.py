"""A pipeline's rows leave the tables that all pipelines shared, once, and what counts them too."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from tests.kit.killed import Killed, killed
from tests.ledger.test_ledger_races import at_once
from tests.storage.s3 import copy_to_store, s3_server
from tidemark.errors import DataDamaged
from tidemark.storage.delta.create import PROPERTIES
from tidemark.storage.delta.ops import append_once, ensure_ops_table, removed_name
from tidemark.storage.delta.ops_place import OpsPlace, move_ops_table, moved_name
from tidemark.storage.delta.place import TablePlace
from tidemark.upkeep.maintenance.carry_out import keep_rows

POINTS = ("ops table moved", "move of an ops table noted")
KILLS = [(point, when) for point in POINTS for when in ("before", "after")]
SCHEMA = pa.schema([("pipeline", pa.string()), ("query", pa.string()), ("batch", pa.int64())])
NEWER = pa.schema([*SCHEMA, ("by", pa.string())])


def place_of(root: Path, pipeline: str = "clicks") -> OpsPlace:
    own = str(root / pipeline / "ops" / "ledger")
    return OpsPlace(own, pipeline=pipeline, shared=str(root / "ops" / "ledger"))


def share(root: Path, batches: int, *pipelines: str) -> None:
    """As former versions wrote it: a query of its own for each batch."""
    for batch in range(batches):
        for pipeline in pipelines:
            query = f"query {batch}"
            rows = pa.table([[pipeline], [query], pa.array([batch])], SCHEMA)
            names = {f"{pipeline}/{query}": batch, f"id of {pipeline} {batch}": batch}
            noted = CommitProperties(app_transactions=[Transaction(*one) for one in names.items()])
            write_deltalake(
                str(root / "ops" / "ledger"),
                rows,
                mode="append",
                partition_by=["pipeline"],
                configuration=PROPERTIES if batch == 0 else None,
                commit_properties=noted,
            )


def rows_of(table: DeltaTable | None, pipeline: str = "clicks") -> list[tuple[Any, ...]]:
    assert table is not None
    known = table.to_pyarrow_dataset().to_table(filter=ds.field("pipeline") == pipeline)
    return sorted((row["pipeline"], row["query"], row["batch"]) for row in known.to_pylist())


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Around the checkpoints that are written each ten commits.
@pytest.mark.parametrize("batches", [1, 5, 6, 11])
def test_all_rows_come_and_all_transactions_also_of_rows_that_are_gone(
    tmp_path: Path, batches: int
) -> None:
    share(tmp_path, batches, "clicks", "words")
    shared = DeltaTable(tmp_path / "ops" / "ledger")
    keep_rows(shared, "clicks", ds.field("batch") > 0)
    before = rows_of(TablePlace(str(tmp_path / "ops" / "ledger")).open())
    place = place_of(tmp_path)
    assert rows_of(place.open()) == before
    ensure_ops_table(place, SCHEMA, "")
    own = DeltaTable(place.uri)
    assert own.version() == 0
    expected = [("clicks", f"query {n}", n) for n in range(1, batches)]
    assert rows_of(own) == before == sorted(expected)
    for batch in range(batches):
        assert own.transaction_version(f"clicks/query {batch}") == batch
        assert own.transaction_version(f"words/query {batch}") is None
    assert own.transaction_version(removed_name("clicks")) == 1
    append_once(place, SCHEMA, "", [("clicks/query 0", 0, {"pipeline": "clicks", "batch": 0})])
    assert rows_of(place.open()) == before


def test_a_query_that_is_counted_by_its_id_alone_takes_its_transaction_along(
    tmp_path: Path,
) -> None:
    share(tmp_path, 2, "clicks")
    rows = pa.table([["clicks"], ["id of clicks 0"], pa.array([0])], SCHEMA)
    write_deltalake(tmp_path / "ops" / "ledger", rows, mode="append")
    own = move_ops_table(place_of(tmp_path))
    assert own is not None
    assert own.transaction_version("id of clicks 0") == 0
    assert own.transaction_version("id of clicks 1") is None


def test_the_rows_of_others_stay_and_come_when_they_write(tmp_path: Path) -> None:
    share(tmp_path, 3, "clicks", "words")
    ensure_ops_table(place_of(tmp_path), SCHEMA, "")
    before = files_below(tmp_path / "ops")
    other = place_of(tmp_path, "words")
    assert len(rows_of(other.open(), "words")) == 3
    ensure_ops_table(other, NEWER, "")
    assert len(rows_of(DeltaTable(other.uri), "words")) == 3
    assert "by" in DeltaTable(other.uri).to_pyarrow_dataset().schema.names
    assert before.items() <= files_below(tmp_path / "ops").items()


def test_a_pipeline_of_its_own_root_shares_nothing(tmp_path: Path) -> None:
    place = place_of(tmp_path)
    assert place.open() is None
    ensure_ops_table(place, SCHEMA, "")
    assert not (tmp_path / "ops").exists()


def test_a_table_that_was_lost_after_it_had_moved_is_not_taken_for_the_old_one(
    tmp_path: Path,
) -> None:
    share(tmp_path, 2, "clicks", "words")
    place = place_of(tmp_path)
    ensure_ops_table(place, SCHEMA, "")
    shutil.rmtree(place.uri)
    assert place.open() is None
    assert rows_of(ensure_ops_table(place, SCHEMA, "")) == []


def test_once_moved_the_shared_table_is_not_opened_any_more(tmp_path: Path) -> None:
    share(tmp_path, 2, "clicks")
    place = place_of(tmp_path)
    append_once(place, SCHEMA, "", [("new", 0, {"pipeline": "clicks", "batch": 7})])
    for entry in (tmp_path / "ops" / "ledger" / "_delta_log").iterdir():
        entry.write_text("broken")
    append_once(place, SCHEMA, "", [("new", 1, {"pipeline": "clicks", "batch": 8})])
    batches = DeltaTable(place.uri).to_pyarrow_table().column("batch").to_pylist()
    assert sorted(batches) == [0, 1, 7, 8]
    with pytest.raises(DataDamaged):
        place_of(tmp_path, "words").open()


@pytest.mark.parametrize(("point", "when"), KILLS)
@pytest.mark.parametrize("again", [append_once, None])
def test_a_move_that_was_killed_is_finished_by_whoever_writes_next(
    tmp_path: Path, point: str, when: Literal["before", "after"], again: Callable[..., None] | None
) -> None:
    share(tmp_path, 3, "clicks", "words")
    place = place_of(tmp_path)
    with killed(when, point), pytest.raises(Killed):
        ensure_ops_table(place, SCHEMA, "")
    assert len(rows_of(place.open())) == 3
    if again is None:
        move_ops_table(place)
    else:
        again(place, SCHEMA, "", [("clicks/query 2", 2, {"pipeline": "clicks", "batch": 2})])
    assert len(rows_of(DeltaTable(place.uri))) == 3
    shared = DeltaTable(tmp_path / "ops" / "ledger")
    assert shared.transaction_version(moved_name("clicks")) == 0
    assert shared.transaction_version(moved_name("words")) is None
    version = shared.version()
    append_once(place, SCHEMA, "", [("new", 0, {"pipeline": "clicks", "batch": 9})])
    assert DeltaTable(tmp_path / "ops" / "ledger").version() == version


def move(folder: str, name: str, ready: Any) -> None:
    """At the same moments, of several copies."""
    for copy in sorted(Path(folder).iterdir()):
        ready.wait()
        rows = [(f"clicks/{name}", 0, {"pipeline": "clicks", "query": name})]
        append_once(place_of(copy), SCHEMA, "", rows)


@pytest.mark.slow
def test_two_processes_that_move_at_once_make_one_table_and_lose_nothing(tmp_path: Path) -> None:
    share(tmp_path / "first", 3, "clicks", "words")
    for number in range(8):
        shutil.copytree(tmp_path / "first", tmp_path / "copies" / str(number))
    at_once(move, tmp_path / "copies", "one", "two")
    for copy in (tmp_path / "copies").iterdir():
        queries = DeltaTable(place_of(copy).uri).to_pyarrow_table().column("query")
        assert sorted(queries.to_pylist()) == ["one", *(f"query {n}" for n in range(3)), "two"]


@pytest.mark.slow
def test_rows_of_a_shared_table_on_object_storage_move_as_those_on_a_disk(tmp_path: Path) -> None:
    share(tmp_path, 3, "clicks", "words")
    with s3_server() as options:
        copy_to_store(tmp_path / "ops", "s3://lake/ops", options)
        place = OpsPlace(
            "s3://lake/clicks/ops/ledger",
            options,
            pipeline="clicks",
            shared="s3://lake/ops/ledger",
        )
        before = rows_of(place.open())
        for batch in (3, 1):
            row = {"pipeline": "clicks", "query": f"query {batch}", "batch": batch}
            append_once(place, SCHEMA, "", [(f"clicks/query {batch}", batch, row)])
        # The third was written by nobody, the first is known by the transaction that came along.
        assert rows_of(place.own.open()) == [*before, ("clicks", "query 3", 3)]
        assert place.own.existing().to_pyarrow_table().num_rows == 4
        assert place.former.existing().transaction_version(moved_name("clicks")) is not None
        of_words = [("words", f"query {number}", number) for number in range(3)]
        assert rows_of(place.former.open(), "words") == of_words
