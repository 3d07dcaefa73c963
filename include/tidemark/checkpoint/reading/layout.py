"""Sort the files of a checkpoint by what they are: one listing, nothing is read."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidemark.checkpoint.reading.state_files import (
    DEFAULT_STORE,
    StateFile,
    Store,
    StoreId,
    state_file,
)
from tidemark.storage.files import FileFacts
from tidemark.storage.json_text import number_of

LOGS = ("offsets", "commits")
# Where a RocksDB store keeps what its snapshots share (RocksDBImmutableFile).
_SHARED = ("SSTs", "logs")
# The folders that the engine writes in a checkpoint.
_WRITTEN = (*LOGS, "sources", "state")
# CheckpointFileManager.generateTempPath, and the local checksum of such a file.
_TEMPORARY = re.compile(r"^\.+.+\.tmp(\.crc)?$")
_CHECKSUM = re.compile(r"^\.(?P<twin>.+)\.crc$|^(?P<main>[^.].*)\.crc$")


@dataclass(frozen=True)
class Section:
    """How many files of a kind there are, and their bytes."""

    files: int = 0
    size: int = 0


@dataclass(frozen=True)
class Layout:
    """The files of a checkpoint by what they are; names count from its folder.

    `logs`: of `offsets` and `commits`, the files by batch. `source_lists`: the files below
    `sources/M` by M. `checksums`: `.NAME.crc` (Hadoop's, of local files) and `NAME.crc`
    (ChecksumCheckpointFileManager's). `leftovers`: files that an interrupted write left, and
    checksums of files that are gone. `sections` tell counts and bytes by kind.
    """

    metadata: FileFacts | None
    logs: Mapping[str, Mapping[int, FileFacts]]
    source_lists: Mapping[str, Mapping[str, FileFacts]]
    stores: Mapping[StoreId, Store]
    operator_files: Mapping[int, Mapping[str, FileFacts]]
    checksums: Mapping[str, FileFacts]
    leftovers: Mapping[str, FileFacts]
    unknown: Mapping[str, FileFacts]
    sections: Mapping[str, Section]


def sort_files(files: Mapping[str, FileFacts]) -> Layout:
    """Sort the files of a checkpoint, given by their names below its folder."""
    sorting = _Sorting()
    for name, facts in files.items():
        sorting.take(name, facts, files)
    return sorting.layout()


def possible_batches(layout: Layout) -> tuple[int, ...]:
    """The batches that have all their log files, by names and sizes."""
    offsets, commits = layout.logs["offsets"], layout.logs["commits"]
    return tuple(
        batch
        for batch in sorted(offsets)
        if offsets[batch].size
        and batch in commits
        and commits[batch].size
        and (batch == 0 or (batch - 1 in offsets and offsets[batch - 1].size))
    )


@dataclass
class _Sorting:
    """What was sorted so far."""

    metadata: FileFacts | None = None
    logs: dict[str, dict[int, FileFacts]] = field(default_factory=lambda: {n: {} for n in LOGS})
    sources: dict[str, dict[str, FileFacts]] = field(default_factory=lambda: defaultdict(dict))
    versions: dict[StoreId, dict[int, list[StateFile]]] = field(default_factory=dict)
    shared: dict[StoreId, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    operators: dict[int, dict[str, FileFacts]] = field(default_factory=lambda: defaultdict(dict))
    checksums: dict[str, FileFacts] = field(default_factory=dict)
    leftovers: dict[str, FileFacts] = field(default_factory=dict)
    unknown: dict[str, FileFacts] = field(default_factory=dict)
    counts: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))

    def take(self, name: str, facts: FileFacts, files: Mapping[str, FileFacts]) -> None:
        kind = self._kind(name, facts, files)
        self.counts[kind][0] += 1
        self.counts[kind][1] += facts.size

    def layout(self) -> Layout:
        stores = {
            key: Store(
                key,
                {v: tuple(found) for v, found in self.versions.get(key, {}).items()},
                self.shared.get(key, {}),
            )
            for key in sorted(self.versions.keys() | self.shared.keys())
        }
        sections = {kind: Section(*count) for kind, count in self.counts.items()}
        return Layout(
            self.metadata,
            self.logs,
            self.sources,
            stores,
            self.operators,
            self.checksums,
            self.leftovers,
            self.unknown,
            sections,
        )

    def _kind(self, name: str, facts: FileFacts, files: Mapping[str, FileFacts]) -> str:
        folder, _, last = name.rpartition("/")
        if folder and folder.partition("/")[0] not in _WRITTEN:
            # Of another's writers, whose files may have such names.
            self.unknown[name] = facts
            return "unknown"
        if _TEMPORARY.match(last) or "_temporary" in folder.split("/"):
            self.leftovers[name] = facts
            return "leftovers"
        if checksum := _CHECKSUM.match(last):
            base = checksum["twin"] or checksum["main"]
            place = f"{folder}/{base}" if folder else base
            target = self.checksums if place in files else self.leftovers
            target[name] = facts
            return "checksums" if place in files else "leftovers"
        kind = self._known(name.split("/"), facts)
        if kind is None:
            self.unknown[name] = facts
        return kind or "unknown"

    def _known(self, parts: list[str], facts: FileFacts) -> str | None:
        match parts:
            case ["metadata"]:
                self.metadata = facts
                return "metadata"
            case [("offsets" | "commits") as log, name] if (batch := number_of(name)) is not None:
                self.logs[log][batch] = facts
                return log
            case ["sources", source, *rest] if rest:
                self.sources[source]["/".join(rest)] = facts
                return "sources"
            case ["state", name, *rest] if (operator := number_of(name)) is not None:
                return self._state(operator, rest, facts)
        return None

    def _state(self, operator: int, rest: list[str], facts: FileFacts) -> str | None:
        match rest:
            case [("_metadata" | "_stateSchema"), *_]:
                self.operators[operator]["/".join(rest)] = facts
                return "state metadata"
            case [partition, "_metadata", _] | [partition, _, "_metadata", _]:
                if partition == "0":
                    # One schema of an operator's stores does for all of its partitions.
                    self.operators[operator]["/".join(rest)] = facts
                return "state metadata"
            case [name, *inner] if (number := number_of(name)) is not None:
                return self._store(operator, number, inner, facts)
        return None

    def _store(
        self, operator: int, partition: int, inner: list[str], facts: FileFacts
    ) -> str | None:
        named = len(inner) > 1 and inner[0] not in _SHARED
        store = StoreId(operator, partition, inner[0] if named else DEFAULT_STORE)
        match inner[1:] if named else inner:
            case [("SSTs" | "logs") as folder, file]:
                self.shared[store][f"{folder}/{file}"] = facts.size
                return "state"
            case [file] if found := state_file(file, facts.size):
                versions = self.versions.setdefault(store, {})
                versions.setdefault(found.version, []).append(found)
                return "state"
        return None
