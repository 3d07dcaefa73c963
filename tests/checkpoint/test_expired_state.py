"""Which files of a store may go: names only, all that the engine can have written."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.checkpoint.housekeeping.expired_state import (
    Expired,
    OpenedSnapshot,
    expired_files,
    snapshots_to_open,
)
from tidemark.checkpoint.reading.rebuild import plan_rebuild
from tidemark.checkpoint.reading.state_files import Store, StoreId, state_file

ID = "aaaaaaaa-0000-4000-8000-000000000001"


def store(names: str, *, empty: str = "", shared: str = "") -> Store:
    files = {}
    for name in names.split():
        found = state_file(name, 0 if name in empty.split() else 46)
        assert found is not None
        files.setdefault(found.version, []).append(found)
    versions = {version: tuple(found) for version, found in files.items()}
    return Store(StoreId(0, 0), versions, dict.fromkeys(shared.split(), 100))


def good(of: Store, oldest: int) -> dict[str, OpenedSnapshot]:
    return {name: OpenedSnapshot() for name in snapshots_to_open(of, oldest)}


def expired(of: Store, oldest: int) -> Expired:
    return expired_files(of, oldest, good(of, oldest))


def test_versions_below_the_snapshot_that_the_oldest_kept_one_begins_with_go() -> None:
    of = store("1.delta 2.delta 2.snapshot 3.delta 4.delta 4.snapshot 5.delta 6.delta")
    assert expired(of, 3).names == ("1.delta",)
    assert expired(of, 4).names == ("1.delta", "2.delta", "2.snapshot", "3.delta")
    assert expired(of, 6).names == expired(of, 4).names


def test_without_an_older_snapshot_nothing_goes() -> None:
    told = expired(store("1.delta 2.delta 3.delta 3.snapshot"), 2)
    assert told.names == ()
    assert told.left
    assert "no snapshot up to version 2" in told.left


def test_an_empty_snapshot_or_a_missing_change_leaves_all() -> None:
    empty = store("1.delta 2.delta 2.snapshot 3.delta", empty="2.snapshot")
    gap = store("1.snapshot 2.delta 4.snapshot 6.delta")
    for of, oldest, name in ((empty, 3, "2.snapshot"), (gap, 6, "5.delta")):
        told = expired(of, oldest)
        assert told.names == ()
        assert told.left
        assert name in told.left


def test_a_snapshot_that_cannot_be_relied_on_leaves_all() -> None:
    of = store("1.delta 2.delta 2.snapshot 3.delta")
    opened = {"2.snapshot": OpenedSnapshot("does not match the checksum beside it")}
    told = expired_files(of, 3, opened)
    assert told.names == ()
    assert told.left
    assert "2.snapshot, which is needed, does not match" in told.left
    assert expired_files(of, 3, {}).names == ()


def test_files_that_only_old_rocksdb_snapshots_share_go_before_these() -> None:
    of = store("1.zip 2.zip 3.zip", shared="SSTs/a SSTs/b SSTs/c SSTs/orphan")
    opened = {
        "1.zip": OpenedSnapshot(shared=frozenset({"SSTs/a", "SSTs/b"})),
        "2.zip": OpenedSnapshot(shared=frozenset({"SSTs/b"})),
        "3.zip": OpenedSnapshot(shared=frozenset({"SSTs/c"})),
    }
    assert expired_files(of, 2, opened).names == ("SSTs/a", "1.zip")
    assert expired_files(of, 3, opened).names == ("SSTs/a", "SSTs/b", "1.zip", "2.zip")
    # A newer snapshot that does not tell what it shares may need any of them.
    unreadable = opened | {"3.zip": OpenedSnapshot("is empty")}
    assert expired_files(of, 2, unreadable).names == ()


def test_unique_ids_leave_all() -> None:
    told = expired(store(f"1_{ID}.changelog 2_{ID}.zip 3_{ID}.changelog"), 3)
    assert told.names == ()
    assert told.left
    assert "checkpoint format 2" in told.left


@st.composite
def histories(draw: st.DrawFn) -> tuple[Store, int]:
    """A store as runs leave it: changes, snapshots at some versions, and here and there a hole."""
    newest = draw(st.integers(1, 12))
    delta, full = draw(st.sampled_from([("delta", "snapshot"), ("changelog", "zip")]))
    changes = [f"{v}.{delta}" for v in range(1, newest + 1) if draw(st.integers(0, 9))]
    fulls = [f"{v}.{full}" for v in range(1, newest + 1) if draw(st.booleans())]
    empty = [name for name in (*changes, *fulls) if not draw(st.integers(0, 9))]
    return store(" ".join(changes + fulls), empty=" ".join(empty)), draw(st.integers(1, newest))


@pytest.mark.slow
@given(histories(), st.data())
def test_any_part_of_what_goes_changes_nothing_for_a_kept_version(
    history: tuple[Store, int], data: st.DataObject
) -> None:
    of, oldest = history
    going = expired(of, oldest).names
    removed = data.draw(st.sets(st.sampled_from(going))) if going else set()
    left = {v: tuple(f for f in fs if f.name not in removed) for v, fs in of.files.items()}
    after = replace(of, files={version: files for version, files in left.items() if files})
    for version in range(oldest, of.newest + 1):
        assert plan_rebuild(after, version) == plan_rebuild(of, version)
