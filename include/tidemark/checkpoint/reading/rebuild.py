"""Which files a store's version is built from, and which of them are not there.

The engine takes the newest snapshot at or below the version, and replays every version after it;
without a snapshot it begins with an empty store and replays from version 1 (HDFSBackedStateStore-
Provider.loadMap, RocksDB.load). In checkpoint format 2 the version's own file is named by the
unique id in the commit; the ids of the versions before it stand in that file's compressed header,
which is not read here: for those, any file of the version is taken.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidemark.checkpoint.reading.log_formats import CommitEntry
from tidemark.checkpoint.reading.missing import missing_ranges, numbers_of
from tidemark.checkpoint.reading.state_files import StateFile, Store

# Of very many missing files the first ones are named.
_NAMED = 1_000


@dataclass(frozen=True)
class Rebuild:
    """How a version is built. `missing` names files, from the store's folder on; `empty` files
    have 0 bytes. `detour`: an older snapshot and the changes after it that would do, where the
    newest snapshot is empty."""

    version: int
    snapshot: StateFile | None
    changes: tuple[StateFile, ...]
    missing: tuple[str, ...]
    empty: tuple[str, ...]
    detour: Rebuild | None = None

    @property
    def possible(self) -> bool:
        return not self.missing and not self.empty


def rebuild_after(store: Store, version: int, commit: CommitEntry | None) -> Rebuild:
    """How the version that the batch of `commit` left is built; `commit` is None where it is not
    known, or where version 0 is asked for."""
    if commit is None or commit.batch != version - 1:
        return plan_rebuild(store, version)
    partitions = commit.state_ids.get(store.id.operator, ())
    known = store.id.partition < len(partitions)
    return plan_rebuild(store, version, partitions[store.id.partition] if known else ())


def plan_rebuild(store: Store, version: int, unique_ids: tuple[str, ...] = ()) -> Rebuild:
    """How `version` of a store is built from its files; version 0 is an empty store.

    `unique_ids`: of the version's own file, in checkpoint format 2.
    """
    fulls = [file for file in _files(store, version, unique_ids) if file.full]
    snapshot = max(fulls, key=lambda file: (file.version, file.size), default=None)
    built = _from(store, version, snapshot, unique_ids)
    if snapshot is None or snapshot.size > 0:
        return built
    older = [file for file in fulls if file.size > 0]
    start = max(older, key=lambda file: file.version, default=None)
    detour = _from(store, version, start, unique_ids)
    return replace(built, detour=detour if detour.possible else None)


def versions_that_build(store: Store) -> tuple[range, ...]:
    """The versions of a store that can be built, by the names and sizes of its files; of version
    0, which is empty, nothing is said."""
    found: list[range] = []
    last = 0
    for version in sorted(store.files):
        if not _builds(store.files[version], after=last == version - 1):
            continue
        if found and last == version - 1:
            found[-1] = range(found[-1].start, version + 1)
        else:
            found.append(range(version, version + 1))
        last = version
    return tuple(found)


def _builds(files: tuple[StateFile, ...], after: bool) -> bool:
    """Do a version's files build it? `after`: can the version before it be built?"""
    fulls = [file.size for file in files if file.full]
    if fulls:
        return max(fulls) > 0
    return after and files[-1].size > 0


def _from(
    store: Store, version: int, snapshot: StateFile | None, unique_ids: tuple[str, ...]
) -> Rebuild:
    start = snapshot.version if snapshot else 0
    changed = {file.version: file for file in _files(store, version, unique_ids) if not file.full}
    lost = missing_ranges(changed, start + 1, version)
    missing = [
        _expected(store, number, unique_ids if number == version else ())
        for number in numbers_of(lost, _NAMED)
    ]
    changes = [changed[number] for number in sorted(changed) if number > start]
    if missing and store.files and not store.has_changes:
        # Every version is a snapshot here: the version's own is the one that is missing.
        missing = [_expected(store, version, unique_ids)]
    read = [*([snapshot] if snapshot else []), *changes]
    empty = tuple(file.name for file in read if file.size == 0)
    return Rebuild(version, snapshot, tuple(changes), tuple(missing), empty)


def _files(store: Store, version: int, unique_ids: tuple[str, ...]) -> list[StateFile]:
    return [
        file
        for number, files in store.files.items()
        if number <= version
        for file in files
        if number < version or not unique_ids or file.unique_id in unique_ids
    ]


def _expected(store: Store, version: int, unique_ids: tuple[str, ...]) -> str:
    """The name of the file that a version should have."""
    known = [file for files in store.files.values() for file in files]
    if not any(file.rocksdb for file in known):
        return f"{version}.delta"
    suffix = f"_{unique_ids[0]}" if len(unique_ids) == 1 else "_ID" if unique_ids else ""
    return f"{version}{suffix}.{'changelog' if store.has_changes else 'zip'}"
