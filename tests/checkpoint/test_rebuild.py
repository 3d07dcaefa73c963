"""Which files a version of state is built from: names and sizes only, as the engine's classes
HDFSBackedStateStoreProvider and RocksDB take them."""

from __future__ import annotations

import pytest

from tidemark.checkpoint.reading.rebuild import Rebuild, plan_rebuild
from tidemark.checkpoint.reading.state_files import (
    Provider,
    StateFile,
    Store,
    StoreId,
    state_file,
)

ONE = "aaaaaaaa-0000-4000-8000-000000000001"
TWO = "bbbbbbbb-0000-4000-8000-000000000002"


def store(*names: str, empty: tuple[str, ...] = ()) -> Store:
    files: dict[int, list[StateFile]] = {}
    for name in names:
        found = state_file(name, 0 if name in empty else 46)
        assert found is not None
        files.setdefault(found.version, []).append(found)
    return Store(StoreId(0, 0), {v: tuple(found) for v, found in files.items()}, {})


def built(names: str, version: int, *ids: str, empty: tuple[str, ...] = ()) -> Rebuild:
    return plan_rebuild(store(*names.split(), empty=empty), version, ids)


def test_version_0_is_an_empty_store() -> None:
    assert built("", 0) == Rebuild(0, None, (), (), ())


@pytest.mark.parametrize(
    ("names", "version", "missing"),
    [
        ("1.delta 2.delta 3.delta", 3, ()),
        ("1.delta 3.delta", 3, ("2.delta",)),
        ("2.delta 3.delta", 3, ("1.delta",)),
        ("1.delta 2.delta", 3, ("3.delta",)),
        ("2.snapshot 3.delta", 3, ()),
        ("3.snapshot", 3, ()),
        ("1.snapshot 3.delta", 3, ("2.delta",)),
        ("1.delta 2.delta 9.snapshot", 2, ()),
        ("", 2, ("1.delta", "2.delta")),
        ("1.changelog 2.changelog", 2, ()),
        ("5.zip 6.changelog 7.changelog", 7, ()),
        ("5.zip 7.changelog", 7, ("6.changelog",)),
        ("1.zip 2.zip 3.zip", 3, ()),
        ("1.zip 2.zip", 3, ("3.zip",)),
        ("1.zip 3.zip", 3, ()),
    ],
)
def test_a_version_needs_the_newest_snapshot_and_every_change_after_it(
    names: str, version: int, missing: tuple[str, ...]
) -> None:
    told = built(names, version)
    assert told.missing == missing
    assert told.possible == (not missing)


def test_the_newest_snapshot_is_taken_and_not_an_older_one() -> None:
    told = built("1.snapshot 2.delta 3.snapshot 3.delta 4.delta", 4)
    assert told.snapshot is not None
    assert (told.snapshot.name, [f.name for f in told.changes]) == ("3.snapshot", ["4.delta"])


def test_an_empty_file_counts_as_there_and_unusable() -> None:
    told = built("1.delta 2.delta", 2, empty=("2.delta",))
    assert (told.missing, told.empty, told.possible) == ((), ("2.delta",), False)


def test_an_empty_snapshot_has_a_detour_where_older_files_do() -> None:
    told = built("1.delta 2.snapshot 2.delta 3.delta", 3, empty=("2.snapshot",))
    assert not told.possible
    assert told.detour is not None
    assert [f.name for f in told.detour.changes] == ["1.delta", "2.delta", "3.delta"]
    assert built("2.snapshot 3.delta", 3, empty=("2.snapshot",)).detour is None


def test_in_format_2_a_version_is_the_file_that_the_commit_names() -> None:
    names = f"1_{ONE}.changelog 2_{ONE}.changelog 2_{TWO}.changelog"
    assert built(names, 2, TWO).possible
    told = built(f"1_{ONE}.changelog 2_{ONE}.changelog", 2, TWO)
    assert told.missing == (f"2_{TWO}.changelog",)


def test_in_format_2_any_file_does_for_the_versions_before() -> None:
    names = f"1_{ONE}.changelog 1_{TWO}.changelog 2_{TWO}.zip 3_{ONE}.changelog"
    told = built(names, 3, ONE)
    assert told.possible
    assert told.snapshot is not None
    assert told.snapshot.name == f"2_{TWO}.zip"


@pytest.mark.parametrize(
    ("names", "provider"),
    [
        ("1.delta 1.snapshot", Provider.HDFS_BACKED),
        ("1.zip", Provider.ROCKSDB),
        ("1.zip 2.changelog", Provider.ROCKSDB_CHANGELOG),
        ("1.zip 2.delta", Provider.UNKNOWN),
    ],
)
def test_the_files_show_what_keeps_the_state(names: str, provider: Provider) -> None:
    assert store(*names.split()).provider is provider


@pytest.mark.parametrize(
    "name", ["1.parquet", "delta", "1.delta.crc", ".1.delta", "x.zip", "1_short.zip", "1.DELTA"]
)
def test_other_names_are_no_files_of_state(name: str) -> None:
    assert state_file(name, 1) is None
