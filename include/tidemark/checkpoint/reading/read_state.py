"""The stateful operators: their stores, and what their own files say of them."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Mapping

from tidemark.checkpoint.reading.facts import Operator, Unreadable
from tidemark.checkpoint.reading.layout import Layout
from tidemark.checkpoint.reading.log_formats import CommitEntry, NotTheFormat
from tidemark.checkpoint.reading.reader import Reader
from tidemark.checkpoint.reading.rebuild import Rebuild, rebuild
from tidemark.checkpoint.reading.state_files import Store, StoreId
from tidemark.checkpoint.reading.state_metadata import (
    OperatorMetadata,
    StateSchema,
    parse_operator_metadata,
    parse_schema,
)

_VERSIONED = "_metadata/v2/"


def read_operators(
    reader: Reader, layout: Layout, version: int, commit: CommitEntry | None, files_read: int
) -> tuple[Operator, ...]:
    """The operators with their stores. To build `version`, at most `files_read` files of state
    are opened: their checksums are compared, and RocksDB's snapshots say what they share."""
    budget = _Budget(files_read)
    ids = sorted({key.operator for key in layout.stores} | layout.operator_files.keys())
    return tuple(
        _operator(
            reader,
            number,
            tuple(store for key, store in layout.stores.items() if key.operator == number),
            sorted(layout.operator_files.get(number, {})),
            {key: needed_ids(commit, key, version) for key in layout.stores},
            version,
            budget,
        )
        for number in ids
    )


def needed_ids(commit: CommitEntry | None, store: StoreId, version: int) -> tuple[str, ...]:
    """The unique ids that the commit before `version` names for a partition; none in format 1."""
    if commit is None or commit.batch != version - 1:
        return ()
    partitions = commit.state_ids.get(store.operator, ())
    return partitions[store.partition] if store.partition < len(partitions) else ()


class _Budget:
    """How many files may still be opened."""

    def __init__(self, files: int) -> None:
        self.left = files

    def take(self) -> bool:
        self.left -= 1
        return self.left >= 0


def _operator(
    reader: Reader,
    number: int,
    stores: tuple[Store, ...],
    own_files: list[str],
    ids: Mapping[StoreId, tuple[str, ...]],
    version: int,
    budget: _Budget,
) -> Operator:
    unreadable: list[Unreadable] = []
    metadata = _metadata(reader, number, own_files, unreadable)
    schemas = dict(_schemas(reader, number, own_files, unreadable))
    missing: dict[str, tuple[str, ...]] = {}
    for store in stores:
        built = rebuild(store, version, ids[store.id])
        if gone := _missing_shared(reader, store, built, budget):
            missing[store.id.folder] = gone
        _compare_checksums(reader, store, built, budget)
    return Operator(
        number, stores, metadata, schemas, tuple(unreadable), missing, opened=budget.left >= 0
    )


def _metadata(
    reader: Reader, number: int, own_files: list[str], unreadable: list[Unreadable]
) -> OperatorMetadata | None:
    versioned = [n for n in own_files if n.startswith(_VERSIONED) and _last(n).isdecimal()]
    newest = max(versioned, key=lambda name: int(_last(name)), default=None)
    name = newest or next((n for n in own_files if n == "_metadata/metadata"), None)
    if name is None:
        return None
    found = reader.read(f"state/{number}/{name}", parse_operator_metadata)
    if isinstance(found, Unreadable):
        unreadable.append(found)
        return None
    return found


def _schemas(
    reader: Reader, number: int, own_files: list[str], unreadable: list[Unreadable]
) -> Iterable[tuple[str, StateSchema]]:
    for name in own_files:
        if not (name.endswith("_metadata/schema") or name.startswith("_stateSchema/")):
            continue
        found = reader.read(f"state/{number}/{name}", parse_schema)
        if isinstance(found, Unreadable):
            unreadable.append(found)
        else:
            yield name, found


def _missing_shared(
    reader: Reader, store: Store, built: Rebuild, budget: _Budget
) -> tuple[str, ...]:
    """Files below SSTs and logs that the snapshot of a RocksDB store names and that are gone."""
    snapshot = built.snapshot
    if snapshot is None or not snapshot.rocksdb or snapshot.size == 0 or not budget.take():
        return ()
    needed = reader.read(f"{store.id.folder}/{snapshot.name}", _shared_files)
    if isinstance(needed, Unreadable):
        return (f"{snapshot.name}: {needed.held}",)
    return tuple(name for name, size in needed.items() if store.shared.get(name) != size)


def _shared_files(data: bytes) -> dict[str, int]:
    """By name, the sizes of the files that a RocksDB snapshot shares with others.

    RocksDBCheckpointMetadata: the entry `metadata` of the zip, `v1` and a line of JSON.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as snapshot:
            text = snapshot.read("metadata").decode()
        metadata = json.loads(text.partition("\n")[2])
        ssts = {f"SSTs/{f['dfsSstFileName']}": int(f["sizeBytes"]) for f in metadata["sstFiles"]}
        logs = metadata.get("logFiles") or []
        return ssts | {f"logs/{f['dfsLogFileName']}": int(f["sizeBytes"]) for f in logs}
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError) as error:
        raise NotTheFormat(f"no RocksDB snapshot ({type(error).__name__})") from error


def _compare_checksums(reader: Reader, store: Store, built: Rebuild, budget: _Budget) -> None:
    """Read the files that build a version, so that those with a wrong checksum are noted."""
    for file in (*([built.snapshot] if built.snapshot else []), *reversed(built.changes)):
        name = f"{store.id.folder}/{file.name}"
        if reader.has_checksum(name) and budget.take():
            reader.data(name)


def _last(name: str) -> str:
    return name.rpartition("/")[2]
