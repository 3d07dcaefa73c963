"""The stateful operators: their stores, and what their own files say of them.

The engine compresses deltas, HDFS-backed snapshots and changelogs, by default with LZ4, whose
stream (LZ4BlockOutputStream) ends with a block of no bytes: its magic, a byte that names the
method, and three zeros of four bytes each. Which codec it is stands in the offset log.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterable, Mapping

from tidemark.checkpoint.reading.facts import StatefulOperator, Unreadable
from tidemark.checkpoint.reading.layout import Layout, Section
from tidemark.checkpoint.reading.log_formats import CommitEntry, NotTheFormat
from tidemark.checkpoint.reading.reader import CheckpointReader
from tidemark.checkpoint.reading.rebuild import Rebuild, rebuild_after
from tidemark.checkpoint.reading.state_files import Store
from tidemark.checkpoint.reading.state_metadata import (
    OperatorMetadata,
    StateSchema,
    parse_operator_metadata,
    parse_schema,
)
from tidemark.storage.json_text import json_value, long, number_of

_VERSIONED = "_metadata/v2/"
_CODEC = "spark.sql.streaming.stateStore.compression.codec"
_MAGIC, _ZEROS = b"LZ4Block", bytes(12)
_LZ4_END = len(_MAGIC) + 1 + len(_ZEROS)
# It is packed, and whoever wrote it may be nobody whom one knows.
_LARGEST_METADATA = 64 << 20
# The last two: an entry that is packed in another way, or encrypted.
_NO_SNAPSHOT = (
    *(zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError, TypeError),
    *(NotImplementedError, RuntimeError),
)


def read_operators(
    reader: CheckpointReader,
    layout: Layout,
    version: int,
    commit: CommitEntry | None,
    files_opened: int,
    lz4: bool,
    partitions: int | None = None,
) -> tuple[StatefulOperator, ...]:
    """The operators with their stores. `version` is the one that the next start loads, `commit`
    that of the batch that left it. Of its files at most `files_opened` are opened: their checksums
    are compared, those compressed with LZ4 (`lz4`) must end as its streams do, and RocksDB's
    snapshots say what they share. Of more than so many `partitions` none is one any more: a
    repartition has left their files to the batches before it."""
    opening = _Opening(reader, files_opened, lz4)
    ids = sorted({key.operator for key in layout.stores} | layout.operator_files.keys())
    operators = []
    for number in ids:
        stores = tuple(
            store
            for key, store in layout.stores.items()
            if key.operator == number and (partitions is None or key.partition < partitions)
        )
        own_files = sorted(layout.operator_files.get(number, {}))
        unreadable: list[Unreadable] = []
        metadata = _metadata(reader, number, own_files, unreadable)
        schemas = dict(_schemas(reader, number, own_files, unreadable))
        missing = {}
        for store in stores:
            if gone := opening.open(store, rebuild_after(store, version, commit)):
                missing[store.id.folder] = gone
        operators.append(
            StatefulOperator(
                number,
                stores,
                metadata,
                schemas,
                tuple(unreadable),
                missing,
                opening.take_shared(),
                opening.left >= 0,
                opening.take_cut(),
            )
        )
    return tuple(operators)


def is_lz4(conf: Mapping[str, str]) -> bool:
    """Does the recorded configuration say that state is compressed with LZ4?"""
    return conf.get(_CODEC) == "lz4"


def ends_as_lz4(data: bytes) -> bool:
    """Do bytes end as a stream of LZ4 blocks does?"""
    last = data[-_LZ4_END:]
    return len(last) == _LZ4_END and last.startswith(_MAGIC) and last.endswith(_ZEROS)


class _Opening:
    """Opens files of state until so many were opened."""

    def __init__(self, reader: CheckpointReader, files: int, lz4: bool) -> None:
        self.reader, self.left, self.lz4 = reader, files, lz4
        self._cut: list[str] = []
        self._shared: dict[str, Section] = {}

    def take_cut(self) -> tuple[str, ...]:
        """The files that were cut, of those opened since the last call."""
        found, self._cut = tuple(self._cut), []
        return found

    def take_shared(self) -> Mapping[str, Section]:
        """What the snapshots share that were opened since the last call, by store folder."""
        found, self._shared = self._shared, {}
        return found

    def open(self, store: Store, built: Rebuild) -> tuple[str, ...]:
        """Compare the files that build a version with their checksums; of a RocksDB snapshot, what
        it shares with others and what is gone of that."""
        snapshot = built.snapshot
        gone: tuple[str, ...] = ()
        if snapshot and snapshot.rocksdb and snapshot.size and self._may():
            gone = self._missing_shared(store, f"{store.id.folder}/{snapshot.name}")
        compressed = [*([snapshot] if snapshot and not snapshot.rocksdb else []), *built.changes]
        for file in reversed(compressed):
            if file.size:
                self._compare(f"{store.id.folder}/{file.name}")
        return gone

    def _missing_shared(self, store: Store, snapshot: str) -> tuple[str, ...]:
        needed = self.reader.read(snapshot, shared_files)
        if isinstance(needed, Unreadable):
            return (f"{snapshot.rpartition('/')[2]}: {needed.held}",)
        self._shared[store.id.folder] = Section(len(needed), sum(needed.values()))
        return tuple(name for name, size in needed.items() if store.shared.get(name) != size)

    def _compare(self, name: str) -> None:
        """Reading a file notes it where its checksum is wrong; such a file has its own finding."""
        summed = self.reader.has_checksum(name)
        if not (summed or self.lz4) or not self._may():
            return
        end = self.reader.data(name) if summed else self.reader.end(name, _LZ4_END)
        if isinstance(end, Unreadable) or name in self.reader.wrong_checksums:
            return
        if self.lz4 and not ends_as_lz4(end):
            self._cut.append(name)

    def _may(self) -> bool:
        self.left -= 1
        return self.left >= 0


def _metadata(
    reader: CheckpointReader, number: int, own_files: list[str], unreadable: list[Unreadable]
) -> OperatorMetadata | None:
    versioned = [
        n for n in own_files if n.startswith(_VERSIONED) and number_of(_last(n)) is not None
    ]
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
    reader: CheckpointReader, number: int, own_files: list[str], unreadable: list[Unreadable]
) -> Iterable[tuple[str, StateSchema]]:
    for name in own_files:
        if not (name.endswith("_metadata/schema") or name.startswith("_stateSchema/")):
            continue
        found = reader.read(f"state/{number}/{name}", parse_schema)
        if isinstance(found, Unreadable):
            unreadable.append(found)
        else:
            yield name, found


def shared_files(data: bytes) -> dict[str, int]:
    """By name, the sizes of the files that a RocksDB snapshot shares with others.

    RocksDBCheckpointMetadata: the entry `metadata` of the zip, `v1` and a line of JSON.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as snapshot, snapshot.open("metadata") as entry:
            text = entry.read(_LARGEST_METADATA + 1).decode()
        if len(text) > _LARGEST_METADATA:
            raise ValueError
        metadata = json_value(text.partition("\n")[2])
        ssts = {f"SSTs/{f['dfsSstFileName']}": long(f["sizeBytes"]) for f in metadata["sstFiles"]}
        logs = metadata.get("logFiles") or []
        return ssts | {f"logs/{f['dfsLogFileName']}": long(f["sizeBytes"]) for f in logs}
    except _NO_SNAPSHOT as error:
        raise NotTheFormat(f"no RocksDB snapshot ({type(error).__name__})") from error


def _last(name: str) -> str:
    return name.rpartition("/")[2]
