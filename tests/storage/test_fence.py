"""After a fence, no transaction of delta-rs commits that began before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from tests.kit.running import clicks
from tidemark.errors import StorageUnavailable
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.places import Places
from tidemark.storage.delta.fence import PROPERTY, fence_tables, pipeline_tables
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.warehouse import Warehouse

ONE = pa.table({"n": pa.array([1], pa.int64())})
NO_RETRY = CommitProperties(max_commit_retries=0)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    place = str(tmp_path / "table")
    write_deltalake(place, ONE, configuration={"delta.enableChangeDataFeed": "true"})
    return place


def rows(uri: str) -> int:
    return int(DeltaTable(uri).to_pyarrow_dataset().count_rows())


def test_a_fence_sets_the_lease_and_keeps_rows_and_other_properties(uri: str) -> None:
    fence_tables([TablePlace(uri)], 7)
    table = DeltaTable(uri)
    assert table.metadata().configuration == {
        "delta.enableChangeDataFeed": "true",
        PROPERTY: "7",
    }
    assert (table.version(), rows(uri)) == (1, 1)


def test_a_table_that_is_not_there_is_passed_over(uri: str, tmp_path: Path) -> None:
    fence_tables([TablePlace(str(tmp_path / "none")), TablePlace(uri)], 7)
    assert not (tmp_path / "none").exists()
    assert DeltaTable(uri).version() == 1


def test_each_fence_is_a_commit_whatever_the_number_before(uri: str) -> None:
    for version, number in enumerate([7, 7, 3], start=1):
        before = DeltaTable(uri)
        fence_tables([TablePlace(uri)], number)
        assert DeltaTable(uri).metadata().configuration[PROPERTY] == str(number)
        with pytest.raises(CommitFailedError):
            write_deltalake(before, ONE, mode="append", commit_properties=NO_RETRY)
        assert DeltaTable(uri).version() == version


@pytest.mark.parametrize("properties", [NO_RETRY, None], ids=["no retry", "default retries"])
@pytest.mark.parametrize(
    "mode", [{"mode": "append"}, {"mode": "overwrite"}, {"mode": "overwrite", "predicate": "n = 1"}]
)
def test_a_write_of_delta_rs_that_read_the_table_before_the_fence_fails(
    uri: str, mode: dict[str, Any], properties: CommitProperties | None
) -> None:
    sleeping = DeltaTable(uri)
    fence_tables([TablePlace(uri)], 7)
    with pytest.raises(CommitFailedError):
        write_deltalake(sleeping, ONE, commit_properties=properties, **mode)
    assert (DeltaTable(uri).version(), rows(uri)) == (1, 1)


def test_an_unrelated_commit_would_not_be_a_fence(uri: str) -> None:
    sleeping = DeltaTable(uri)
    write_deltalake(uri, ONE, mode="append")
    write_deltalake(sleeping, ONE, mode="append")
    assert rows(uri) == 3


class Overtaken(TablePlace):
    """A place whose table gets another commit as soon as it is opened."""

    def open(self) -> DeltaTable | None:
        table = super().open()
        write_deltalake(self.uri, ONE, mode="append")
        return table


class Changed(TablePlace):
    """A place whose table gets another property as soon as it is opened."""

    def open(self) -> DeltaTable | None:
        table = super().open()
        DeltaTable(self.uri).alter.set_table_properties({"x": "y"}, raise_if_not_exists=False)
        return table


@pytest.mark.parametrize("place", [Overtaken, Changed])
def test_a_fence_that_another_commit_overtakes_is_set_all_the_same(
    uri: str, place: type[TablePlace]
) -> None:
    fence_tables([place(uri)], 7)
    table = DeltaTable(uri)
    assert table.version() == 2
    assert table.metadata().configuration[PROPERTY] == "7"
    assert table.metadata().configuration.get("x") == ("y" if place is Changed else None)
    assert rows(uri) == (2 if place is Overtaken else 1)


def test_a_table_that_never_lets_the_fence_through_is_named(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind = DeltaTable(uri)
    fence_tables([TablePlace(uri)], 6)

    class Behind(TablePlace):
        def open(self) -> DeltaTable | None:
            return behind

    monkeypatch.setattr(DeltaTable, "update_incremental", lambda _: None)
    with pytest.raises(StorageUnavailable, match=r"could not be fenced for lease 7: .* 20 times"):
        fence_tables([Behind(uri)], 7)


def test_the_change_feed_is_read_across_a_fence(uri: str) -> None:
    fence_tables([TablePlace(uri)], 7)
    write_deltalake(uri, ONE, mode="append")
    feed = pa.table(DeltaTable(uri).load_cdf(starting_version=1))
    assert feed.column("_commit_version").to_pylist() == [2]
    assert pa.table(DeltaTable(uri).load_cdf(starting_version=1, ending_version=1)).num_rows == 0


def test_all_tables_of_a_pipeline_are_fenced_and_none_that_pipelines_share() -> None:
    pipeline = pipeline_from_mapping("clicks", clicks())
    tables = pipeline_tables(pipeline, Warehouse(Places("/data", "clicks"), {}))
    assert tuple(table.uri for table in tables) == (
        "/data/clicks/bronze",
        "/data/clicks/rejects",
        "/data/clicks/retracted",
        "/data/clicks/replayed",
        "/data/clicks/per_10m/changes",
        "/data/clicks/per_10m/gold",
    )
