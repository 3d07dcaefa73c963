"""The files that hold state, told by their names.

Classes HDFSBackedStateStoreProvider (`V.delta`, `V.snapshot`) and RocksDBFileManager (`V.zip`,
`V.changelog`; with checkpoint format 2 `V_ID.zip`, `V_ID.changelog`). Version V of a store is what
batch V−1 left; batch V begins with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

# The name of an operator's only store; its files lie in the partition's folder itself.
DEFAULT_STORE = "default"
_NAME = re.compile(r"^(\d{1,18})(?:_([0-9A-Fa-f-]{36}))?\.(delta|snapshot|zip|changelog)$")


class Provider(StrEnum):
    """What keeps the state, as the files show it."""

    HDFS_BACKED = "HDFS-backed"
    ROCKSDB = "RocksDB"
    ROCKSDB_CHANGELOG = "RocksDB with changelog"
    UNKNOWN = "unknown"


@dataclass(frozen=True, order=True)
class StoreId:
    """Where a store lies: `state/OPERATOR/PARTITION`, and the store's name below it."""

    operator: int
    partition: int
    store: str = DEFAULT_STORE

    @property
    def folder(self) -> str:
        base = f"state/{self.operator}/{self.partition}"
        return base if self.store == DEFAULT_STORE else f"{base}/{self.store}"


@dataclass(frozen=True)
class StateFile:
    """One file of a store's version. `full`: it holds all of the state (a snapshot), not only
    what its batch changed. `unique_id` is None but in checkpoint format 2."""

    name: str
    version: int
    unique_id: str | None
    full: bool
    size: int
    rocksdb: bool


@dataclass(frozen=True)
class Store:
    """A store's files by version, and the sizes of the files that its snapshots share."""

    id: StoreId
    files: Mapping[int, tuple[StateFile, ...]]
    shared: Mapping[str, int]

    @property
    def newest(self) -> int:
        """The newest version with a file; 0 where there is none."""
        return max(self.files, default=0)

    @property
    def provider(self) -> Provider:
        rocksdb = {file.rocksdb for files in self.files.values() for file in files}
        if rocksdb != {True}:
            return Provider.HDFS_BACKED if rocksdb == {False} else Provider.UNKNOWN
        return Provider.ROCKSDB_CHANGELOG if self.has_changes else Provider.ROCKSDB

    @property
    def has_changes(self) -> bool:
        """Is any version kept as what its batch changed?"""
        return any(not file.full for files in self.files.values() for file in files)


def state_file(name: str, size: int) -> StateFile | None:
    """What a name in a store's folder says; None where it is none that the engine writes."""
    match = _NAME.match(name)
    if not match:
        return None
    version, unique_id, ending = match.groups()
    return StateFile(
        name,
        int(version),
        unique_id,
        full=ending in ("snapshot", "zip"),
        size=size,
        rocksdb=ending in ("zip", "changelog"),
    )
