"""Which files of a state store no kept version needs.

To build version v, the engine takes the newest snapshot at or below v and every change after it.
So with S, the snapshot that the oldest kept version begins with, all of the versions below S may
go, and nothing else: what HDFSBackedStateStoreProvider.cleanup and RocksDBFileManager.
deleteOldVersions remove, where a query runs long enough for the engine's maintenance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemark.checkpoint.reading.rebuild import plan_rebuild
from tidemark.checkpoint.reading.state_files import StateFile, Store


@dataclass(frozen=True)
class OpenedSnapshot:
    """What was seen in a snapshot's file: `problem` says why it cannot be relied on; `shared` are
    the files that a RocksDB snapshot shares with others, by their names in the store's folder."""

    problem: str | None = None
    shared: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Expired:
    """The names, in the store's folder, of what may go, in the order of its removal.

    `left` says why nothing may go though there may be old versions.
    """

    names: tuple[str, ...] = ()
    left: str | None = None


def snapshots_to_open(store: Store, oldest: int) -> tuple[str, ...]:
    """The snapshots, by their names in the store's folder, that `expired_files` asks about."""
    base = _base(store, oldest)
    if isinstance(base, str) or not _below(store, base.version):
        return ()
    # A RocksDB snapshot shares files with others: which ones, only its own file tells.
    return tuple(f.name for f in _snapshots(store)) if store.shared else (base.name,)


def expired_files(store: Store, oldest: int, opened: Mapping[str, OpenedSnapshot]) -> Expired:
    """What may go of a store whose versions from `oldest` on are kept. Pure.

    Files that snapshots share go first: a snapshot that is still there tells, when this is
    repeated after a crash, which ones are left of its.
    """
    base = _base(store, oldest)
    if isinstance(base, str):
        return Expired(left=base)
    going = _below(store, base.version)
    staying = [file for file in _snapshots(store) if file.version >= base.version]
    needed = staying if store.shared else [base]
    for file in needed if going else ():
        found = opened.get(file.name, OpenedSnapshot("was not opened"))
        if found.problem is not None:
            return Expired(left=f"the snapshot {file.name}, which is needed, {found.problem}")
    shared = _shared(opened, going) - _shared(opened, staying)
    there = sorted(shared & store.shared.keys())
    return Expired((*there, *(file.name for file in going)))


def _base(store: Store, oldest: int) -> StateFile | str:
    """The snapshot that the oldest kept version begins with, or why nothing can be said."""
    if any(file.unique_id for files in store.files.values() for file in files):
        return (
            "checkpoint format 2 may have several files of a version, and which one counts stands "
            "in compressed headers that are not read here"
        )
    built = plan_rebuild(store, oldest)
    if not built.possible:
        gone = (*built.missing, *built.empty)
        return f"version {oldest}, the oldest that is kept, cannot be built: {gone[0]} is unusable"
    if built.snapshot is None:
        return f"there is no snapshot up to version {oldest}, so it is built from all changes"
    return built.snapshot


def _below(store: Store, version: int) -> list[StateFile]:
    """The files of older versions, the oldest first."""
    return [f for number in sorted(store.files) if number < version for f in store.files[number]]


def _snapshots(store: Store) -> list[StateFile]:
    return [file for files in store.files.values() for file in files if file.full]


def _shared(opened: Mapping[str, OpenedSnapshot], files: list[StateFile]) -> frozenset[str]:
    found = (opened.get(file.name, OpenedSnapshot()).shared for file in files)
    return frozenset().union(*found)
